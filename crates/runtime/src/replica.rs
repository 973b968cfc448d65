//! The gRPC service by which a replica describes itself, `muster.v1.Replica`, and the parts of its answer that every
//! process has. The code is generated from `proto/` and checked in; `proto/README.md` says how.

use std::time::Duration;

use jiff::Timestamp;
use muster_core::heartbeat::{LoopSnapshot, Verdict};

use crate::clock::Clock;
use crate::heartbeat::Heartbeat;

/// Generated types, client and server of `muster.v1`.
#[rustfmt::skip]
#[allow(clippy::all, clippy::pedantic, missing_docs, unreachable_pub, reason = "generated")]
pub mod v1 {
    include!("generated/muster.v1.rs");
}

/// Encoded file descriptor set of `muster.v1`, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/muster.v1.fds");

/// A wall time as protobuf has it.
pub fn timestamp(at: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: at.as_second(), nanos: at.subsec_nanosecond() }
}

/// The wall time of a monotonic instant, past or future: what our wall clock will or would have shown.
pub fn wall_of(clock: &Clock, at: Duration) -> prost_types::Timestamp {
    let (now, wall) = (clock.now(), clock.wall());
    let moved = match at.checked_sub(now) {
        Some(ahead) => wall.checked_add(ahead),
        None => wall.checked_sub(now.saturating_sub(at)),
    };
    timestamp(moved.unwrap_or(wall))
}

/// A duration as protobuf has it.
pub fn duration(duration: Duration) -> prost_types::Duration {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    prost_types::Duration { seconds, nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0) }
}

/// The heartbeat's loops as [`v1::DescribeResponse`] has them.
pub fn loops(heartbeat: &Heartbeat, clock: &Clock) -> Vec<v1::Loop> {
    let stalled = match heartbeat.verdict() {
        Verdict::Healthy => Vec::new(),
        Verdict::Stalled(stalls) => stalls.into_iter().map(|stall| stall.loop_id).collect(),
    };
    let wall = |at: Option<Duration>| at.map(|at| wall_of(clock, at));
    let one = |line: LoopSnapshot| v1::Loop {
        name: line.loop_id.to_string(),
        overdue: count(line.overdue),
        scheduled: count(line.scheduled),
        running: count(line.running),
        parked: count(line.parked),
        completed: line.completed,
        due_since: wall(line.due_since),
        next_due: wall(line.next_due),
        running_since: wall(line.running_since),
        last_completed: wall(line.last_completed),
        stuck_for: Some(duration(line.stuck_for)),
        stalled: stalled.contains(&line.loop_id),
    };
    heartbeat.snapshot().into_iter().map(one).collect()
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
