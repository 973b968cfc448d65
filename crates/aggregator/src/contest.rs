//! Somebody else writes the status too: an old Ratify in this group, a second release, a script. Two writers that put
//! each other right would never stop, so after [`REWRITES`] rewrites within [`WINDOW`] we say so once and write that
//! object at most once per [`TRUCE`].

use std::collections::VecDeque;
use std::time::Duration;

/// Rewrites within [`WINDOW`] after which the object counts as contested.
pub const REWRITES: usize = 3;
/// See [`REWRITES`].
pub const WINDOW: Duration = Duration::from_mins(1);
/// Least time between two writes of a contested object.
pub const TRUCE: Duration = Duration::from_mins(5);
/// Without a rewrite for so long, two of our writes stood: the other writer is gone.
const PEACE: Duration = Duration::from_mins(10);

/// Rewrites of one object by others. Times are monotonic, since process start.
#[derive(Clone, Debug, Default)]
pub struct Contest {
    rewrites: VecDeque<Duration>,
    contested: bool,
}

impl Contest {
    /// Another manager changed what we had written. True if the object becomes contested by it, which is said once.
    pub fn rewritten(&mut self, now: Duration) -> bool {
        self.settle(now);
        self.rewrites.push_back(now);
        while self.rewrites.len() > REWRITES {
            self.rewrites.pop_front();
        }
        let begins = !self.contested && self.within_window(now) >= REWRITES;
        self.contested |= begins;
        begins
    }

    /// The earliest instant of the next write, given that of the last one.
    pub fn not_before(&mut self, last_write: Option<Duration>, now: Duration) -> Duration {
        self.settle(now);
        match last_write {
            Some(last) if self.contested => last + TRUCE,
            _ => Duration::ZERO,
        }
    }

    fn settle(&mut self, now: Duration) {
        if self.rewrites.back().is_none_or(|last| now.saturating_sub(*last) >= PEACE) {
            self.contested = false;
            self.rewrites.clear();
        }
    }

    fn within_window(&self, now: Duration) -> usize {
        self.rewrites.iter().filter(|at| now.saturating_sub(**at) <= WINDOW).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn one_rewrite_by_hand_is_put_right_and_nothing_more() {
        let mut contest = Contest::default();
        assert!(!contest.rewritten(s(10)));
        assert_eq!(contest.not_before(Some(s(9)), s(10)), Duration::ZERO);
    }

    #[test]
    fn three_rewrites_in_a_minute_are_said_once_and_answered_every_five_minutes() {
        let mut contest = Contest::default();
        let said: Vec<bool> = [10, 20, 70, 80, 380].map(|at| contest.rewritten(s(at))).to_vec();
        assert_eq!(said, [false, false, true, false, false]);
        assert_eq!(contest.not_before(Some(s(75)), s(80)), s(375));
        assert_eq!(contest.not_before(None, s(80)), Duration::ZERO);
    }

    #[test]
    fn rewrites_spread_wider_than_the_window_are_no_contest() {
        let mut contest = Contest::default();
        for at in [0, 31, 62, 93, 124] {
            assert!(!contest.rewritten(s(at)), "at {at}");
        }
    }

    #[test]
    fn a_contest_ends_when_the_other_writer_is_gone_and_can_begin_again() {
        let mut contest = Contest::default();
        for at in [0, 1, 2] {
            contest.rewritten(s(at));
        }
        assert_eq!(contest.not_before(Some(s(2)), s(3)), s(302));
        assert_eq!(contest.not_before(Some(s(602)), s(603)), Duration::ZERO);
        assert_eq!([700, 701, 702].map(|at| contest.rewritten(s(at))), [false, false, true]);
    }
}
