//! When a changed status is written. Every write is sent to every replica, so a change costs at most three of them where
//! the replicas report within five seconds, and three plus one for each ten seconds of the spread where they do not.
//!
//! While a generation rolls out: one write that says so, after [`GATHER`]; one as soon as every expected replica has a
//! verdict; one every [`PROGRESS`] in between; and at most one within a second for the generation's first failure that
//! no retry can cure, because somebody has to act on that. Everything else draws on a bucket of [`TOKENS`] tokens, one of
//! which comes back every [`PROGRESS`]: what changes a verdict (Ready, a replica falling silent or coming back, a replica
//! appearing or going) within a second; more of the same not before [`SPACING`] after the last write, so that ten
//! replicas that fail one after the other are told together.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_api::{CONDITION_READY, ExecutorStatus, State};

use crate::fold::Folded;

/// How long a change waits for others to join it.
pub const GATHER: Duration = Duration::from_millis(300);
/// How long a generation's first permanent failure waits for those of other replicas; together with everything else on
/// the way it is written within a second.
pub const GATHER_PERMANENT: Duration = Duration::from_millis(700);
/// Least time between two writes for changes that change no verdict.
pub const SPACING: Duration = Duration::from_secs(5);
/// Time between two writes while a generation rolls out, and the time in which a token comes back.
pub const PROGRESS: Duration = Duration::from_secs(10);
/// Tokens of one object.
pub const TOKENS: u32 = 3;

/// What a change means, and with it when it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// A new generation, on which not every replica has a verdict yet.
    RollBegins,
    /// The first failure of this generation that no retry can cure.
    FirstPermanent,
    /// More replicas have a verdict on this generation.
    Progress,
    /// Every expected replica has a verdict on this generation, for the first time.
    RollEnds,
    /// Ready changed, or a replica fell silent, came back, appeared or is gone.
    Verdict,
    /// Anything else.
    Detail,
}

/// What one object's writes were about. Times are monotonic, since process start.
#[derive(Clone, Debug)]
pub struct Pace {
    roll: Roll,
    /// The occasion of the change that waits, and since when.
    waiting: Option<(Occasion, Duration)>,
    last_write: Option<Duration>,
    bucket: Bucket,
}

/// How far the roll of one generation has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Roll {
    generation: i64,
    begun: bool,
    permanent: bool,
    ended: bool,
}

/// A token bucket, kept as the instant at which it would be full again (the generic cell rate algorithm).
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    full_at: Duration,
}

impl Pace {
    /// Starts from what the object says: a restart or a new leader repeats no write that its predecessor made.
    pub fn new(generation: i64, observed: Option<&ExecutorStatus>) -> Self {
        let begun = observed.is_some_and(|status| status.observed_generation == Some(generation));
        let ended = begun
            && observed.is_some_and(|status| status.by_pod.iter().all(|entry| entry.observed_generation == generation));
        let roll = Roll { generation, begun, permanent: ended, ended };
        Self { roll, waiting: None, last_write: None, bucket: Bucket::default() }
    }

    /// Whether the status has yet to say that every replica has a verdict on this generation.
    pub fn is_rolling(&self, generation: i64) -> bool {
        !self.roll_of(generation).ended
    }

    /// What the difference between the status as it stands and as it should be means. The two differ.
    pub fn occasion(&self, generation: i64, observed: Option<&ExecutorStatus>, folded: &Folded) -> Occasion {
        let roll = self.roll_of(generation);
        match (roll.begun, roll.ended) {
            (_, false) if folded.settled => Occasion::RollEnds,
            (false, _) => Occasion::RollBegins,
            (_, false) if folded.permanent_failure && !roll.permanent => Occasion::FirstPermanent,
            _ if changes_a_verdict(observed, &folded.status) => Occasion::Verdict,
            (_, false) => Occasion::Progress,
            (_, true) => Occasion::Detail,
        }
    }

    /// The earliest instant at which a change of this occasion is written. Time counts from the first call with it.
    pub fn due(&mut self, occasion: Occasion, now: Duration) -> Duration {
        let since = match self.waiting {
            Some((waiting, since)) if waiting == occasion => since,
            _ => now,
        };
        self.waiting = Some((occasion, since));
        let gathered = since + GATHER;
        let after_last = |gap: Duration| self.last_write.map_or(Duration::ZERO, |last| last + gap);
        match occasion {
            Occasion::RollEnds => since,
            Occasion::RollBegins => gathered,
            Occasion::FirstPermanent => since + GATHER_PERMANENT,
            Occasion::Progress => gathered.max(after_last(PROGRESS)),
            Occasion::Verdict => gathered.max(self.bucket.next()),
            Occasion::Detail => gathered.max(after_last(SPACING)).max(self.bucket.next()),
        }
    }

    /// The status as it stands is right: nothing waits any more.
    pub fn nothing_waits(&mut self) {
        self.waiting = None;
    }

    /// A status of this generation was written.
    pub fn written(&mut self, generation: i64, occasion: Occasion, folded: &Folded, now: Duration) {
        let roll = self.roll_of(generation);
        self.roll = Roll {
            generation,
            begun: true,
            permanent: roll.permanent || folded.permanent_failure,
            ended: roll.ended || folded.settled,
        };
        if matches!(occasion, Occasion::Verdict | Occasion::Detail) {
            self.bucket.take(now);
        }
        self.waiting = None;
        self.last_write = Some(now);
    }

    fn roll_of(&self, generation: i64) -> Roll {
        if self.roll.generation == generation {
            return self.roll;
        }
        Roll { generation, begun: false, permanent: false, ended: false }
    }
}

impl Bucket {
    /// The earliest instant at which there is a token.
    fn next(self) -> Duration {
        self.full_at.saturating_sub(PROGRESS * (TOKENS - 1))
    }

    fn take(&mut self, now: Duration) {
        self.full_at = self.full_at.max(now) + PROGRESS;
    }
}

/// True if Ready changes, or which replicas there are, or which of them are silent.
fn changes_a_verdict(observed: Option<&ExecutorStatus>, folded: &ExecutorStatus) -> bool {
    let Some(observed) = observed else { return true };
    observed.succeeded != folded.succeeded
        || ready(observed) != ready(folded)
        || observed.observed_generation != folded.observed_generation
        || expected(observed) != expected(folded)
        || silent(observed) != silent(folded)
        || pods(observed) != pods(folded)
}

fn ready(status: &ExecutorStatus) -> Option<&str> {
    let ready = status.conditions.iter().find(|condition| condition.type_ == CONDITION_READY);
    ready.map(|condition| condition.status.as_str())
}

fn expected(status: &ExecutorStatus) -> Option<(u32, u32)> {
    status.replicas.as_ref().map(|replicas| (replicas.expected, replicas.stale))
}

fn silent(status: &ExecutorStatus) -> BTreeSet<&str> {
    let silent = status.by_pod.iter().filter(|entry| matches!(entry.state, State::Stale | State::Unknown));
    silent.map(|entry| entry.pod_uid.as_str()).collect()
}

/// The replicas, where all of them are listed: which of a thousand healthy ones are, says nothing.
fn pods(status: &ExecutorStatus) -> Option<BTreeSet<&str>> {
    status.by_pod_omitted.is_none().then(|| status.by_pod.iter().map(|entry| entry.pod_uid.as_str()).collect())
}
