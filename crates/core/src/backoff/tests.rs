//! The delays produced, not the constants they are made of.

#![expect(clippy::unchecked_time_subtraction, reason = "time that runs backwards is a failed test")]

use std::convert::Infallible;

use rand::rngs::StdRng;
use rand::{SeedableRng as _, TryRng};

use super::*;

/// Draws that are all the lowest or all the highest possible.
struct Extreme(u64);

impl TryRng for Extreme {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.0 as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.fill(self.0 as u8);
        Ok(())
    }
}

// Not zero: a sampler that rejects a draw of zero would ask for ever.
const LOWEST: u64 = 1;
const HIGHEST: u64 = u64::MAX;

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Waits of a resource that fails each time as soon as it may try.
fn waits(policy: Policy, times: usize, rng: &mut impl Rng) -> Vec<Duration> {
    let mut backoff = Backoff::new(policy);
    let mut now = secs(1_000);
    (0..times)
        .map(|_| {
            let next = backoff.failed("uid", now, None, rng);
            let wait = next - now;
            now = next;
            wait
        })
        .collect()
}

#[test]
fn the_longest_waits_double_from_5_s_to_5_min() {
    let expected = [5, 10, 20, 40, 80, 160, 300, 300, 300].map(secs);
    assert_eq!(waits(Policy::default(), 9, &mut Extreme(HIGHEST)), expected);
}

#[test]
fn the_shortest_waits_are_half_of_that() {
    let expected = [2_500, 5_000, 10_000, 20_000, 40_000, 80_000, 150_000, 150_000].map(Duration::from_millis);
    assert_eq!(waits(Policy::default(), 8, &mut Extreme(LOWEST)), expected);
}

#[test]
fn seeded_waits_differ_between_resources_and_repeat_with_the_seed() {
    let draw = |seed| waits(Policy::default(), 6, &mut StdRng::seed_from_u64(seed));
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn c23_always_failing_for_30_minutes_makes_at_most_18_attempts() {
    let delays = [5, 10, 20, 40, 80, 160].map(secs);
    for seed in 0..1_000 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut backoff = Backoff::default();
        let mut now = Duration::ZERO;
        let mut attempts = 0_usize;
        while now <= secs(30 * 60) {
            let next = backoff.failed("uid", now, None, &mut rng);
            // An event each second of the wait, as of an operator that writes its object while failing.
            for second in 0..(next - now).as_secs() {
                assert!(backoff.remaining("uid", now + secs(second)).is_some());
            }
            let delay = delays.get(attempts).copied().unwrap_or(secs(300));
            assert!((delay / 2..=delay).contains(&(next - now)), "seed {seed}, attempt {attempts}: {:?}", next - now);
            attempts += 1;
            now = next;
        }
        assert!(attempts <= 18, "seed {seed}: {attempts}");
    }
}

#[test]
fn c31_after_a_success_the_base_delay_comes_again() {
    let mut backoff = Backoff::default();
    let mut rng = Extreme(HIGHEST);
    let mut now = Duration::ZERO;
    for _ in 0..5 {
        now = backoff.failed("uid", now, None, &mut rng);
    }
    assert_eq!(backoff.failures("uid"), 5);
    backoff.forget("uid");
    assert_eq!((backoff.failures("uid"), backoff.not_before("uid"), backoff.is_empty()), (0, None, true));
    assert_eq!(backoff.failed("uid", now, None, &mut rng) - now, secs(5));
}

#[test]
fn c31_resources_know_nothing_of_each_other() {
    let mut backoff = Backoff::default();
    let mut rng = Extreme(HIGHEST);
    let mut now = Duration::ZERO;
    for _ in 0..6 {
        now = backoff.failed("bad", now, None, &mut rng);
    }
    assert_eq!(backoff.remaining("good", now), None);
    assert_eq!(backoff.failed("good", now, None, &mut rng) - now, secs(5));
    backoff.forget("good");
    assert_eq!(backoff.failures("bad"), 6);
}

#[test]
fn a_wait_is_over_at_its_instant_and_not_before() {
    let mut backoff = Backoff::default();
    let end = backoff.failed("uid", secs(100), None, &mut Extreme(HIGHEST));
    assert_eq!(end, secs(105));
    assert_eq!(backoff.remaining("uid", secs(100)), Some(secs(5)));
    assert_eq!(backoff.remaining("uid", secs(104)), Some(secs(1)));
    assert_eq!(backoff.remaining("uid", secs(105)), None);
    assert_eq!(backoff.not_before("uid"), Some(end));
}

#[test]
fn c11_a_failure_during_the_wait_neither_counts_nor_moves_it() {
    let mut backoff = Backoff::default();
    let mut rng = Extreme(HIGHEST);
    let end = backoff.failed("uid", secs(0), None, &mut rng);
    for millis in (0..5_000).step_by(100) {
        assert_eq!(backoff.failed("uid", Duration::from_millis(millis), None, &mut rng), end);
    }
    assert_eq!(backoff.failures("uid"), 1);
    assert_eq!(backoff.failed("uid", end, None, &mut rng) - end, secs(10));
}

#[test]
fn retry_after_is_a_floor_with_jitter_on_top() {
    for (draw, wish, expected) in [
        (LOWEST, 1, Duration::from_millis(2_500)),
        (HIGHEST, 1, secs(5)),
        (LOWEST, 60, secs(60)),
        (HIGHEST, 60, Duration::from_millis(62_500)),
        (LOWEST, 7_200, secs(3_600)),
        (LOWEST, u64::MAX, secs(3_600)),
    ] {
        let mut backoff = Backoff::default();
        let end = backoff.failed("uid", secs(10), Some(secs(wish)), &mut Extreme(draw));
        assert_eq!(end - secs(10), expected, "draw {draw}, wish {wish}");
    }
}

#[test]
fn a_straggler_with_a_wish_prolongs_the_wait_without_counting() {
    let mut backoff = Backoff::default();
    let mut rng = Extreme(HIGHEST);
    backoff.failed("uid", secs(0), None, &mut rng);
    assert_eq!(backoff.failed("uid", secs(1), Some(secs(30)), &mut rng), secs(31));
    assert_eq!(backoff.failed("uid", secs(2), Some(secs(3)), &mut rng), secs(31));
    assert_eq!(backoff.failures("uid"), 1);
}

#[test]
fn c24_a_missing_item_is_looked_for_up_to_its_refresh_interval() {
    let mut rng = Extreme(HIGHEST);
    let hourly = Policy::default().up_to(secs(3_600));
    let expected = [5, 10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 3_600, 3_600].map(secs);
    assert_eq!(waits(hourly, 12, &mut rng), expected);
    assert_eq!(waits(Policy::default().up_to(secs(1)), 3, &mut rng), [secs(5); 3]);

    // One kind of failure after another keeps counting; only the ceiling differs.
    let mut backoff = Backoff::default();
    let first = backoff.failed("uid", secs(0), None, &mut rng);
    assert_eq!(backoff.failed_under(hourly, "uid", first, None, &mut rng) - first, secs(10));
}

#[test]
fn keys_go_with_their_objects() {
    let mut backoff = Backoff::default();
    let mut rng = Extreme(HIGHEST);
    for key in 0..100 {
        backoff.failed(key, secs(0), None, &mut rng);
    }
    assert_eq!(backoff.len(), 100);
    backoff.retain(|key| key % 10 == 0);
    assert_eq!(backoff.len(), 10);
    assert!(backoff.remaining(&10, secs(1)).is_some() && backoff.remaining(&11, secs(1)).is_none());
}

#[test]
fn arithmetic_is_bounded() {
    let mut backoff = Backoff::default();
    let mut rng = Extreme(HIGHEST);
    assert_eq!(backoff.failed("late", Duration::MAX, Some(Duration::MAX), &mut rng), Duration::MAX);
    let policy = Policy::new(Duration::MAX, Duration::MAX).unwrap();
    assert_eq!(policy.delay(u32::MAX), Duration::MAX);
    assert_eq!(Policy::default().delay(u32::MAX), secs(300));
    assert_eq!(Policy::default().delay(0), secs(5));
}

#[test]
fn impossible_policies_are_refused() {
    assert_eq!(Policy::new(secs(0), secs(1)), Err(PolicyError::ZeroBase));
    let below = Policy::new(secs(5), secs(1)).unwrap_err();
    assert_eq!(below.category(), "CeilingBelowBase");
    assert_eq!(below.to_string(), "the longest delay of a backoff (1s) is below its first (5s)");
}

/// 10,000 random histories of failures, events, wishes, successes and deletions over a few keys, checked against a
/// plain model of what must hold.
#[test]
fn bounds_hold_over_10_000_random_histories() {
    #[derive(Clone, Copy, Default)]
    struct Model {
        served: u32,
        not_before: Option<Duration>,
    }
    for seed in 0..10_000 {
        let mut rng = StdRng::seed_from_u64(seed);
        let policy = Policy::default();
        let mut backoff = Backoff::new(policy);
        let mut models = [Model::default(); 3];
        let mut now = Duration::ZERO;
        for _ in 0..40 {
            now += Duration::from_millis(rng.random_range(0..120_000));
            let key = rng.random_range(0..3_usize);
            let model = &mut models[key];
            let wish = rng.random_bool(0.2).then(|| secs(rng.random_range(0..10_000)));
            match rng.random_range(0..10) {
                0 => {
                    backoff.forget(&key);
                    *model = Model::default();
                }
                1 => {
                    backoff.retain(|other| *other != key);
                    *model = Model::default();
                }
                _ => {
                    let pending = model.not_before.filter(|end| now < *end);
                    let end = backoff.failed(key, now, wish, &mut rng);
                    let floor = wish.unwrap_or_default().min(secs(3_600));
                    assert!(end >= now + floor, "seed {seed}: under the server's wish");
                    if let Some(pending) = pending {
                        assert_eq!(end, pending.max(now + floor), "seed {seed}: an event during a wait");
                    } else {
                        model.served += 1;
                        let delay = policy.delay(model.served);
                        assert!(end - now >= delay / 2, "seed {seed}: too early");
                        assert!(end - now <= delay.max(floor + delay / 2), "seed {seed}: too late");
                    }
                    model.not_before = Some(end);
                }
            }
            for (key, model) in models.iter().enumerate() {
                assert_eq!(backoff.not_before(&key), model.not_before, "seed {seed}");
                assert_eq!(backoff.failures(&key), model.served, "seed {seed}");
                assert_eq!(backoff.remaining(&key, now).is_some(), model.not_before.is_some_and(|end| now < end));
            }
        }
    }
}
