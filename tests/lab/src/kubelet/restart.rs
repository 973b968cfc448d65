//! How long a container that ended waits before it starts again: doubling, and forgotten after a good run.

use std::time::Duration;

/// Delays between restarts. The kubelet's own are 10 s doubling to 5 min, forgotten after 10 min; tests are impatient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPolicy {
    /// After the first end.
    pub initial: Duration,
    /// At most.
    pub max: Duration,
    /// A run this long starts again from `initial`.
    pub forget_after: Duration,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { initial: seconds(1), max: seconds(10), forget_after: seconds(20) }
    }
}

/// Where one container is in that sequence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    last: Option<Duration>,
}

impl Backoff {
    /// The delay after a run that lasted `ran`.
    pub(super) fn after(&mut self, ran: Duration, policy: &RestartPolicy) -> Duration {
        let next = match self.last {
            Some(last) if ran < policy.forget_after => (last * 2).min(policy.max),
            _ => policy.initial,
        };
        self.last = Some(next);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_to_the_maximum_and_a_good_run_forgets_them() {
        let policy = RestartPolicy::default();
        let mut backoff = Backoff::default();
        let short = Duration::from_secs(1);
        let delays: Vec<_> = (0..6).map(|_| backoff.after(short, &policy).as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 8, 10, 10]);
        assert_eq!(backoff.after(policy.forget_after, &policy).as_secs(), 1);
    }
}
