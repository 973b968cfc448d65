//! The two clocks that trust providers need, injected: waits are measured on one, dates are compared with the other.

use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use jiff::Timestamp;
use tokio::time::Instant;

/// Monotonic and wall time.
pub trait Time: Send + Sync {
    /// Monotonic time since any fixed start.
    fn now(&self) -> Duration;

    /// Wall time, UTC.
    fn wall(&self) -> Timestamp;

    /// Waits until [`Time::now`] is `at`.
    fn sleep_until(&self, at: Duration) -> BoxFuture<'static, ()>;
}

/// Tokio's time, with a wall time that runs along from where it began. For tests and for whoever has no other clock.
#[derive(Clone, Copy, Debug)]
pub struct TokioTime {
    start: Instant,
    wall: Timestamp,
    speed: f64,
}

impl TokioTime {
    /// Time that begins now, at the wall time `wall`.
    pub fn starting(wall: Timestamp) -> Self {
        Self { start: Instant::now(), wall, speed: 1.0 }
    }

    /// The same, so many times as fast: hours of waiting beside an upstream of the same speed take seconds.
    #[must_use]
    pub fn times(self, speed: f64) -> Self {
        Self { speed, ..self }
    }
}

impl Time for TokioTime {
    fn now(&self) -> Duration {
        self.start.elapsed().mul_f64(self.speed)
    }

    fn wall(&self) -> Timestamp {
        self.wall.checked_add(self.now()).unwrap_or(Timestamp::MAX)
    }

    fn sleep_until(&self, at: Duration) -> BoxFuture<'static, ()> {
        // Rounded up: whoever wakes before the instant named would have to sleep again.
        let until = self.start + at.div_f64(self.speed) + Duration::from_nanos(1);
        tokio::time::sleep_until(until).boxed()
    }
}
