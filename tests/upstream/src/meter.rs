//! The rate limit of one token, in plain arithmetic over a given time.

use std::time::Duration;

use crate::behaviour::{Limit, Prolong};

/// Deepest debt that charged refusals can pile up, in tokens.
const MOST_DEBT: f64 = 60.0;

/// What one token has used.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    /// Tokens left, below zero in debt; `None` before the first limited call.
    tokens: Option<f64>,
    updated: Duration,
    /// No call passes before this instant.
    closed_until: Duration,
}

/// Whether a call may pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Verdict {
    Pass,
    /// Refused with this status; a call made after `wait` would pass.
    Refuse {
        status: u16,
        wait: Duration,
    },
}

impl Meter {
    pub(crate) fn call(&mut self, limit: &Limit, now: Duration) -> Verdict {
        match *limit {
            Limit::Unlimited => Verdict::Pass,
            Limit::Bucket { rate, burst, charged, .. } => {
                let tokens = self.refill(rate, burst, now);
                if *tokens >= 1.0 {
                    *tokens -= 1.0;
                    return Verdict::Pass;
                }
                if charged {
                    *tokens = (*tokens - 1.0).max(-MOST_DEBT);
                }
                Verdict::Refuse { status: 429, wait: Duration::from_secs_f64((1.0 - *tokens) / rate) }
            }
            Limit::Window { rate, burst, seconds, prolong, .. } => {
                let window = Duration::from_secs_f64(seconds);
                if now < self.closed_until {
                    self.closed_until = match prolong {
                        Prolong::Add => self.closed_until + window,
                        Prolong::Restart => now + window,
                    };
                } else {
                    let tokens = self.refill(rate, burst, now);
                    if *tokens >= 1.0 {
                        *tokens -= 1.0;
                        return Verdict::Pass;
                    }
                    self.closed_until = now + window;
                }
                Verdict::Refuse { status: 403, wait: self.closed_until.saturating_sub(now) }
            }
        }
    }

    fn refill(&mut self, rate: f64, burst: f64, now: Duration) -> &mut f64 {
        let gained = now.saturating_sub(self.updated).as_secs_f64() * rate;
        self.updated = now;
        let tokens = self.tokens.get_or_insert(burst);
        *tokens = (*tokens + gained).min(burst);
        tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::behaviour::RetryAfter;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn passed(meter: &mut Meter, limit: &Limit, now: Duration, calls: usize) -> usize {
        (0..calls).filter(|_| meter.call(limit, now) == Verdict::Pass).count()
    }

    #[test]
    fn a_bucket_admits_its_burst_and_then_its_rate_and_free_refusals_cost_nothing() {
        let (mut meter, limit) = (Meter::default(), Limit::bucket(2.0, 5.0, false));
        assert_eq!(passed(&mut meter, &limit, at(100), 50), 5);
        assert_eq!(passed(&mut meter, &limit, at(101), 50), 2);
        assert_eq!(passed(&mut meter, &limit, at(1_000), 50), 5);
        assert_eq!(meter.call(&limit, at(1_000)), Verdict::Refuse { status: 429, wait: Duration::from_millis(500) });
    }

    #[test]
    fn charged_refusals_pile_up_a_debt_of_at_most_sixty() {
        let (mut meter, limit) = (Meter::default(), Limit::bucket(1.0, 1.0, true));
        assert_eq!(passed(&mut meter, &limit, at(0), 500), 1);
        assert_eq!(meter.call(&limit, at(0)), Verdict::Refuse { status: 429, wait: at(61) });
        assert_eq!(meter.call(&limit, at(61)), Verdict::Pass);
    }

    #[test]
    fn c19_each_call_in_a_window_makes_it_longer() {
        let window =
            |prolong| Limit::Window { rate: 1.0, burst: 1.0, seconds: 10.0, prolong, retry_after: RetryAfter::None };
        for (prolong, wait) in [(Prolong::Add, 10 + 10 - 4), (Prolong::Restart, 10)] {
            let (mut meter, limit) = (Meter::default(), window(prolong));
            assert_eq!(meter.call(&limit, at(0)), Verdict::Pass);
            assert_eq!(meter.call(&limit, at(0)), Verdict::Refuse { status: 403, wait: at(10) });
            assert_eq!(meter.call(&limit, at(4)), Verdict::Refuse { status: 403, wait: at(wait) });
            assert_eq!(meter.call(&limit, at(4 + wait)), Verdict::Pass);
        }
    }
}
