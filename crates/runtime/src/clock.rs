//! The one place that reads a clock. Decisions measure with [`Clock::now`], a duration since start that a stepped wall
//! clock cannot move (C54); wall time is only ever written down for people.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A shared handle on monotonic and wall time. Monotonic time is Tokio's, so a paused test drives both.
#[derive(Clone)]
pub struct Clock {
    start: Instant,
    wall: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

/// A wall clock for tests: it runs with Tokio's time and can be stepped while monotonic time stays (C54).
#[derive(Clone, Debug)]
pub struct SteppedWall {
    base: Timestamp,
    start: Instant,
    step_millis: Arc<AtomicI64>,
}

impl Clock {
    /// The machine's clocks; `now()` counts from this call.
    pub fn system() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the one caller: everything else takes a Clock or a Timestamp")]
        Self::with_wall(Timestamp::now)
    }

    /// Monotonic time as [`Clock::system`], wall time from `wall`.
    pub fn with_wall(wall: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self { start: Instant::now(), wall: Arc::new(wall) }
    }

    /// A clock for tests whose wall time starts at `base` and can be stepped through the returned handle.
    pub fn stepped(base: Timestamp) -> (Self, SteppedWall) {
        let wall = SteppedWall { base, start: Instant::now(), step_millis: Arc::new(AtomicI64::new(0)) };
        let source = wall.clone();
        (Self::with_wall(move || source.now()), wall)
    }

    /// Monotonic time since the clock was made.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Wall time, UTC. For what is written down, never for a decision about waiting.
    pub fn wall(&self) -> Timestamp {
        (self.wall)()
    }

    /// The Tokio instant at which [`Clock::now`] will be `at`: for `sleep_until`.
    pub fn instant(&self, at: Duration) -> Instant {
        // Far beyond any deadline here, and still representable: an hour's Retry-After is the longest wait we make.
        self.start.checked_add(at).unwrap_or_else(|| self.start + Duration::from_hours(24 * 365))
    }

    /// Sleeps until [`Clock::now`] is `at`; returns at once if it is past.
    pub async fn sleep_until(&self, at: Duration) {
        tokio::time::sleep_until(self.instant(at)).await;
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clock").field("now", &self.now()).finish_non_exhaustive()
    }
}

impl SteppedWall {
    /// Moves the wall clock by `by`, forwards or back, as an NTP correction would.
    pub fn step(&self, by: SignedDuration) {
        let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.step_millis.fetch_add(millis, Ordering::SeqCst);
    }

    fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.start.elapsed()).unwrap_or(SignedDuration::MAX);
        let step = SignedDuration::from_millis(self.step_millis.load(Ordering::SeqCst));
        self.base.checked_add(elapsed.saturating_add(step)).unwrap_or(self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn c54_a_stepped_wall_clock_leaves_monotonic_time_alone() {
        let base: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        let (clock, wall) = Clock::stepped(base);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(clock.now(), Duration::from_secs(5));
        assert_eq!(clock.wall().to_string(), "2026-11-30T12:00:05Z");

        wall.step(SignedDuration::from_mins(-10));
        assert_eq!(clock.wall().to_string(), "2026-11-30T11:50:05Z");
        assert_eq!(clock.now(), Duration::from_secs(5));

        wall.step(SignedDuration::from_mins(20));
        clock.sleep_until(Duration::from_secs(8)).await;
        assert_eq!(clock.now(), Duration::from_secs(8));
        assert_eq!(clock.wall().to_string(), "2026-11-30T12:10:08Z");
    }

    #[tokio::test(start_paused = true)]
    async fn an_absurd_wait_is_clamped_instead_of_overflowing() {
        let clock = Clock::system();
        assert!(clock.instant(Duration::MAX) > clock.instant(Duration::from_hours(1)));
    }
}
