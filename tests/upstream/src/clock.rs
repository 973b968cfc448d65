//! Scaled time: monotonic seconds since start, and the wall time that goes with them.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start: Instant,
    wall: Timestamp,
    scale: f64,
}

impl Clock {
    pub(crate) fn new(scale: f64) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the one caller: a server's `Date` is the machine's")]
        Self { start: Instant::now(), wall: Timestamp::now(), scale }
    }

    /// Scaled time since start.
    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed().mul_f64(self.scale)
    }

    /// Scaled wall time: right at start, running as fast as [`Clock::now`].
    pub(crate) fn wall(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.now()).unwrap_or(SignedDuration::MAX);
        self.wall.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    /// Waits so many scaled seconds.
    pub(crate) async fn wait(&self, seconds: f64) {
        if seconds > 0.0 {
            tokio::time::sleep(Duration::from_secs_f64(seconds / self.scale)).await;
        }
    }
}
