//! Modelled rate limiters, as one credential meets them.

use std::time::Duration;

use muster_core::gate::Answer;

/// What an upstream says to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Time still to wait, if it names one.
    pub retry_after: Option<Duration>,
    /// The body speaks of a throttle.
    pub says_throttled: bool,
}

/// One limiter. Calls arrive in the order of time.
pub trait Upstream {
    /// Lets a call in or refuses it. `now` is the instant of arrival, since the start of the run.
    fn call(&mut self, now: Duration) -> Reply;
}

/// Whether a refused call costs a token too.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Charge {
    /// Refusals are free.
    Free,
    /// Each refusal takes a token, down to so many below zero.
    Debt(f64),
}

/// How a limiter announces when it will have a token again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    /// Not at all.
    Absent,
    /// To the nanosecond, one more than needed: rounding must not refuse who waited as long as announced.
    Exact,
    /// In whole seconds, rounded up: what a header can say.
    Seconds,
}

/// A token bucket, full at the start.
#[derive(Debug, Clone)]
pub struct Bucket {
    /// Tokens per second.
    pub rate: f64,
    /// Most tokens.
    pub burst: f64,
    /// Price of a refusal.
    pub charge: Charge,
    /// Announcement with a refusal.
    pub retry_after: RetryAfter,
    /// From an instant on, another rate.
    pub change: Option<(Duration, f64)>,
    tokens: f64,
    updated: Duration,
}

/// The generic cell rate algorithm: the same decisions as a bucket whose refusals are free, kept as one instant.
#[derive(Debug, Clone)]
pub struct Gcra {
    interval: Duration,
    tolerance: Duration,
    retry_after: RetryAfter,
    /// When the bucket would be full again.
    full_at: Duration,
}

/// How a call made in the window of a [`Prolonging`] upstream moves its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prolonged {
    /// Ten seconds later than it was.
    ByTenSeconds,
    /// To ten seconds from now.
    ToTenSecondsFromNow,
}

/// A bucket that, once empty, answers 403 "throttled" for ten seconds, and each call in that time makes it longer
/// (external-secrets/external-secrets #4107).
#[derive(Debug, Clone)]
pub struct Prolonging {
    bucket: Bucket,
    kind: Prolonged,
    retry_after: RetryAfter,
    until: Duration,
}

/// So many calls per hour, then nothing until the hour is over.
#[derive(Debug, Clone)]
pub struct Quota {
    calls: u64,
    retry_after: RetryAfter,
    used: u64,
    hour: u64,
}

/// Everything is let in.
#[derive(Debug, Clone, Copy)]
pub struct Unlimited;

impl Reply {
    const OK: Self = Self { status: 200, retry_after: None, says_throttled: false };

    fn too_many(retry_after: Option<Duration>) -> Self {
        Self { status: 429, retry_after, says_throttled: false }
    }

    /// What it means to a gate.
    pub fn answer(self) -> Answer {
        Answer::classify(self.status, self.retry_after, self.says_throttled)
    }
}

impl RetryAfter {
    fn announce(self, wait: Duration) -> Option<Duration> {
        match self {
            Self::Absent => None,
            Self::Exact => Some(wait + Duration::from_nanos(1)),
            Self::Seconds => Some(Duration::from_secs(wait.as_secs() + u64::from(wait.subsec_nanos() > 0))),
        }
    }
}

impl Bucket {
    /// A bucket of `rate` tokens per second and `burst` tokens at most.
    pub fn new(rate: f64, burst: u32, charge: Charge, retry_after: RetryAfter) -> Self {
        let burst = f64::from(burst);
        Self { rate, burst, charge, retry_after, change: None, tokens: burst, updated: Duration::ZERO }
    }

    /// Seconds in which the bucket can let so many calls in, at best.
    pub fn ideal(&self, calls: usize) -> f64 {
        (calls as f64 - self.burst).max(0.0) / self.rate
    }

    fn refill(&mut self, now: Duration) {
        if let Some((at, rate)) = self.change
            && at <= now
        {
            self.change = None;
            self.refill(at);
            self.rate = rate;
        }
        let time = now.saturating_sub(self.updated).as_secs_f64();
        self.tokens = (self.tokens + time * self.rate).min(self.burst);
        self.updated = now;
    }
}

impl Upstream for Bucket {
    fn call(&mut self, now: Duration) -> Reply {
        self.refill(now);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Reply::OK;
        }
        if let Charge::Debt(most) = self.charge {
            self.tokens = (self.tokens - 1.0).max(-most);
        }
        let wait = Duration::from_secs_f64((1.0 - self.tokens) / self.rate);
        Reply::too_many(self.retry_after.announce(wait))
    }
}

impl Gcra {
    /// Lets in `rate` calls per second and bursts of `burst`.
    pub fn new(rate: f64, burst: u32, retry_after: RetryAfter) -> Self {
        let interval = Duration::from_secs_f64(1.0 / rate);
        Self { interval, tolerance: interval * (burst - 1), retry_after, full_at: Duration::ZERO }
    }
}

impl Upstream for Gcra {
    fn call(&mut self, now: Duration) -> Reply {
        let full_at = self.full_at.max(now);
        let wait = full_at.saturating_sub(self.tolerance).saturating_sub(now);
        if wait.is_zero() {
            self.full_at = full_at + self.interval;
            return Reply::OK;
        }
        Reply::too_many(self.retry_after.announce(wait))
    }
}

impl Prolonging {
    /// `bucket` decides when the window begins.
    pub fn new(mut bucket: Bucket, kind: Prolonged, retry_after: RetryAfter) -> Self {
        bucket.charge = Charge::Free;
        Self { bucket, kind, retry_after, until: Duration::ZERO }
    }
}

impl Upstream for Prolonging {
    fn call(&mut self, now: Duration) -> Reply {
        const WINDOW: Duration = Duration::from_secs(10);
        if now < self.until {
            self.until = match self.kind {
                Prolonged::ByTenSeconds => self.until + WINDOW,
                Prolonged::ToTenSecondsFromNow => now + WINDOW,
            };
        } else if self.bucket.call(now).status == 200 {
            return Reply::OK;
        } else {
            self.until = now + WINDOW;
        }
        Reply {
            status: 403,
            retry_after: self.retry_after.announce(self.until.saturating_sub(now)),
            says_throttled: true,
        }
    }
}

impl Quota {
    /// So many calls in each hour since the start.
    pub fn per_hour(calls: u64, retry_after: RetryAfter) -> Self {
        Self { calls, retry_after, used: 0, hour: 0 }
    }
}

impl Upstream for Quota {
    fn call(&mut self, now: Duration) -> Reply {
        let hour = now.as_secs() / 3600;
        if hour > self.hour {
            (self.hour, self.used) = (hour, 0);
        }
        if self.used < self.calls {
            self.used += 1;
            return Reply::OK;
        }
        Reply::too_many(self.retry_after.announce(Duration::from_hours(hour + 1).saturating_sub(now)))
    }
}

impl Upstream for Unlimited {
    fn call(&mut self, _: Duration) -> Reply {
        Reply::OK
    }
}
