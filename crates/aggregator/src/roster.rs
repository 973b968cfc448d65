//! Which replicas answer: facts from the health watches, judged by a pure function of (facts, now).
//!
//! A replica is silent once nothing has been heard of it for [`SILENCE`]. A broken stream says that nothing was heard for
//! up to [`KEEPALIVE`] already, so only [`AFTER_LOSS`] is left then; that is also longer than the time within which all
//! streams notice that our own network is gone, so that case is seen as a whole before anybody is called silent.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::fold::Health;

/// Pause between keepalive pings on a quiet stream, and how long an answer may take.
pub const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(4));
/// Time after which a replica of which nothing is heard is silent.
pub const SILENCE: Duration = Duration::from_secs(10);
/// What is left of [`SILENCE`] when a stream breaks. All streams to replicas that fell silent together break within one
/// pause of [`KEEPALIVE`], which is less.
pub const AFTER_LOSS: Duration = Duration::from_millis(3_200);
/// How long all replicas may be lost at once before they are called silent one by one.
pub const DOUBT: Duration = Duration::from_secs(30);

/// See the module's documentation. Times are monotonic, since process start.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    contacts: HashMap<Arc<str>, Contact>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contact {
    /// Cannot be asked.
    NoPort,
    /// Not reached yet.
    Unheard { since: Duration },
    /// The stream is up; its last answer.
    Heard { serving: bool },
    /// The stream broke, or a try failed after it had been up.
    Lost { since: Duration },
}

/// The judgement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RollCall {
    /// Health by pod UID.
    pub health: HashMap<Arc<str>, Health>,
    /// When time alone changes the judgement next.
    pub next_change: Option<Duration>,
}

impl Roster {
    /// The pods there are now, and whether each can be asked. Others are forgotten.
    pub fn meet<'a>(&mut self, pods: impl Iterator<Item = (&'a Arc<str>, bool)>, now: Duration) {
        let mut known = std::mem::take(&mut self.contacts);
        self.contacts = pods
            .map(|(uid, has_port)| {
                let contact = match known.remove(uid) {
                    _ if !has_port => Contact::NoPort,
                    Some(contact) if contact != Contact::NoPort => contact,
                    _ => Contact::Unheard { since: now },
                };
                (uid.clone(), contact)
            })
            .collect();
    }

    /// It answered.
    pub fn answered(&mut self, uid: &str, serving: bool) {
        if let Some(contact) = self.contacts.get_mut(uid) {
            *contact = Contact::Heard { serving };
        }
    }

    /// Its stream broke, or it could not be reached.
    pub fn lost(&mut self, uid: &str, now: Duration) {
        if let Some(contact @ Contact::Heard { .. }) = self.contacts.get_mut(uid) {
            *contact = Contact::Lost { since: now };
        }
    }

    /// Judges.
    pub fn call(&self, now: Duration) -> RollCall {
        let doubtful_until = self.doubtful_until(now).filter(|until| *until > now);
        let silent = match doubtful_until {
            Some(until) => (Health::Doubtful, Some(until)),
            None => (Health::Silent, None),
        };
        let mut call = RollCall::default();
        for (uid, contact) in &self.contacts {
            let (health, until) = match contact {
                Contact::NoPort => (Health::NoPort, None),
                Contact::Heard { serving: true } => (Health::Serving, None),
                Contact::Heard { serving: false } => (Health::NotServing, None),
                Contact::Unheard { since } if *since + SILENCE > now => (Health::Unheard, Some(*since + SILENCE)),
                Contact::Lost { since } if *since + AFTER_LOSS > now => (Health::Serving, Some(*since + AFTER_LOSS)),
                Contact::Unheard { .. } | Contact::Lost { .. } => silent,
            };
            call.health.insert(uid.clone(), health);
            call.next_change = [call.next_change, until].into_iter().flatten().min();
        }
        call
    }

    /// Set if every replica that could be asked was lost, all within the time that one broken network takes to show on
    /// every stream. To a new leader they are lost that it never reached; one that may still answer proves nothing yet, and
    /// one replica alone proves nothing about our network.
    fn doubtful_until(&self, now: Duration) -> Option<Duration> {
        let mut losses = Vec::new();
        for contact in self.contacts.values() {
            match contact {
                Contact::NoPort => {}
                Contact::Unheard { since } if *since + SILENCE > now => {}
                Contact::Unheard { since } | Contact::Lost { since } => losses.push(*since),
                Contact::Heard { .. } => return None,
            }
        }
        let (first, last) = (losses.iter().min()?, losses.iter().max()?);
        let together = last.saturating_sub(*first) <= KEEPALIVE.0 + KEEPALIVE.1;
        (losses.len() > 1 && together).then(|| *first + DOUBT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn roster(pods: &[&str]) -> Roster {
        let mut roster = Roster::default();
        let pods: Vec<Arc<str>> = pods.iter().map(|uid| Arc::from(*uid)).collect();
        roster.meet(pods.iter().map(|uid| (uid, true)), ms(0));
        for uid in &pods {
            roster.answered(uid, true);
        }
        roster
    }

    fn health(roster: &Roster, uid: &str, now: u64) -> Health {
        roster.call(ms(now)).health[uid]
    }

    #[test]
    fn c10_a_lost_replica_is_silent_within_twelve_seconds_of_its_last_answer_and_back_at_once() {
        let mut roster = roster(&["a", "b"]);
        let noticed = KEEPALIVE.0 + KEEPALIVE.1;
        assert!(noticed + AFTER_LOSS < Duration::from_secs(11));
        assert!(AFTER_LOSS > KEEPALIVE.0, "all streams of a broken network break before any replica is called silent");
        roster.lost("a", ms(7_000));
        roster.lost("a", ms(8_000));
        assert_eq!(roster.call(ms(7_100)).next_change, Some(ms(10_200)));
        assert_eq!([health(&roster, "a", 10_199), health(&roster, "a", 10_200)], [Health::Serving, Health::Silent]);
        assert_eq!(health(&roster, "b", 10_200), Health::Serving);
        roster.answered("a", false);
        assert_eq!(health(&roster, "a", 10_300), Health::NotServing);
        roster.answered("a", true);
        assert_eq!(roster.call(ms(10_400)).next_change, None);
        assert_eq!(health(&roster, "a", 10_400), Health::Serving);
    }

    #[test]
    fn all_replicas_lost_at_once_are_in_doubt_for_thirty_seconds() {
        let mut roster = roster(&["a", "b", "c"]);
        for (uid, at) in [("a", 1_000), ("b", 2_500), ("c", 4_000)] {
            roster.lost(uid, ms(at));
        }
        let at = |now| ["a", "b", "c"].map(|uid| health(&roster, uid, now));
        assert_eq!(at(4_100), [Health::Serving; 3]);
        assert_eq!(at(7_300), [Health::Doubtful; 3]);
        assert_eq!(roster.call(ms(7_300)).next_change, Some(ms(31_000)));
        assert_eq!(at(31_000), [Health::Silent; 3]);
    }

    #[test]
    fn a_new_leader_that_reaches_nobody_doubts_its_own_network_first_and_a_new_pod_changes_nothing() {
        let mut roster = Roster::default();
        let [a, b, c]: [Arc<str>; 3] = ["a".into(), "b".into(), "c".into()];
        roster.meet([(&a, true), (&b, true)].into_iter(), ms(0));
        roster.meet([(&a, true), (&b, true), (&c, true)].into_iter(), ms(6_000));
        let at = |now| ["a", "b", "c"].map(|uid| health(&roster, uid, now));
        assert_eq!(at(9_999), [Health::Unheard; 3]);
        assert_eq!(at(10_000), [Health::Doubtful, Health::Doubtful, Health::Unheard]);
        assert_eq!(at(16_000), [Health::Doubtful; 3]);
        assert_eq!(roster.call(ms(16_000)).next_change, Some(ms(30_000)));
        assert_eq!(at(30_000), [Health::Silent; 3]);
        roster.answered("c", true);
        assert_eq!(health(&roster, "a", 16_000), Health::Silent);
    }

    #[test]
    fn replicas_lost_one_by_one_are_silent_one_by_one() {
        let mut roster = roster(&["a", "b"]);
        roster.lost("a", ms(1_000));
        roster.lost("b", ms(20_000));
        assert_eq!([health(&roster, "a", 24_000), health(&roster, "b", 24_000)], [Health::Silent, Health::Silent]);
    }

    #[test]
    fn one_replica_alone_says_nothing_about_our_network() {
        let mut roster = roster(&["a"]);
        roster.lost("a", ms(0));
        assert_eq!(health(&roster, "a", 3_200), Health::Silent);
    }

    #[test]
    fn a_new_leader_gives_every_replica_ten_seconds_and_pods_come_and_go() {
        let mut roster = Roster::default();
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        roster.meet([(&a, true), (&b, false)].into_iter(), ms(500));
        assert_eq!([health(&roster, "a", 10_499), health(&roster, "a", 10_500)], [Health::Unheard, Health::Silent]);
        assert_eq!(health(&roster, "b", 10_500), Health::NoPort);
        roster.meet([(&b, true)].into_iter(), ms(20_000));
        assert_eq!(roster.call(ms(20_000)).health.len(), 1);
        assert_eq!(health(&roster, "b", 20_000), Health::Unheard);
    }
}
