//! One contender in scripted time, step by step; its end in `leaving`, several at once, with faults, in `simulation`.

#![expect(clippy::unchecked_time_subtraction, reason = "time that runs backwards is a failed test")]

mod leaving;
mod simulation;

use rand::SeedableRng as _;
use rand::rngs::StdRng;

use super::*;

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A contender called `me` at its present time.
struct Me {
    election: Election,
    rng: StdRng,
    now: Duration,
}

impl Me {
    fn new() -> Self {
        Self { election: Election::new("me", Timing::default()), rng: StdRng::seed_from_u64(7), now: secs(1_000) }
    }

    fn poll(&mut self) -> Action {
        self.election.poll(self.now, &mut self.rng)
    }

    fn input(&mut self, input: Input) {
        self.election.input(input, self.now, &mut self.rng);
    }

    fn after(&mut self, time: Duration) -> &mut Self {
        self.now += time;
        self
    }

    /// Polls, and goes on to each instant the machine waits for, up to the next action.
    fn next(&mut self) -> Action {
        loop {
            match self.poll() {
                Action::WaitUntil(instant) => {
                    assert!(instant > self.now, "a wait for the past is a busy loop");
                    self.now = instant;
                }
                action => return action,
            }
        }
    }

    /// Reads `record` after a start.
    fn reading(record: Record) -> Self {
        let mut me = Self::new();
        assert!(matches!(me.poll(), Action::Read { .. }));
        me.input(Input::Found(record));
        me
    }

    /// Leads since now, holding resourceVersion 1.
    fn leading() -> Self {
        let mut me = Self::new();
        assert!(matches!(me.poll(), Action::Read { .. }));
        me.input(Input::Absent);
        let Action::TryAcquire { write, .. } = me.poll() else { panic!("an absent Lease is created") };
        me.input(Input::Stored(stored(&write, 1)));
        assert_eq!(me.poll(), Action::Lead);
        me
    }

    fn leads(&self) -> bool {
        self.election.is_leader(self.now)
    }
}

fn guard(version: u64) -> Guard {
    Guard { resource_version: version.to_string(), uid: "lease-uid".to_owned() }
}

fn record(holder: Option<&str>, version: u64) -> Record {
    Record {
        guard: guard(version),
        holder: holder.map(str::to_owned),
        duration: secs(15),
        transitions: 3,
        acquired: Some(Timestamp::from_second(1_000).unwrap()),
        renewed: Some(Timestamp::from_second(2_000 + i64::try_from(version).unwrap()).unwrap()),
    }
}

fn stored(write: &Write, version: u64) -> Record {
    Record {
        guard: guard(version),
        holder: write.holder.clone(),
        duration: write.duration,
        transitions: write.transitions,
        acquired: write.acquired.or(Some(Timestamp::from_second(5_000).unwrap())),
        renewed: Some(Timestamp::from_second(6_000 + i64::try_from(version).unwrap()).unwrap()),
    }
}

#[test]
fn an_absent_lease_is_created_and_renewed() {
    let mut me = Me::leading();
    assert!(me.leads());
    assert_eq!(me.election.holder(), Some("me"));
    let begun = me.now;
    for version in 2..100 {
        let sent = me.now;
        let Action::Renew { write, give_up_at } = me.next() else { panic!("a leader renews") };
        assert!((secs(2)..=millis(2_400)).contains(&(me.now - sent)), "{:?}", me.now - sent);
        assert_eq!(give_up_at - me.now, secs(10));
        assert_eq!(write.guard, Some(guard(version - 1)));
        assert_eq!((write.transitions, write.acquired), (0, Some(Timestamp::from_second(5_000).unwrap())));
        me.input(Input::Stored(stored(&write, version)));
        assert!(me.leads());
    }
    assert!(me.now - begun > secs(190));
}

#[test]
fn a_claim_expires_on_our_clock_from_when_we_saw_it() {
    let mut me = Me::reading(record(Some("other"), 1));
    let seen = me.now;
    assert_eq!(me.poll(), Action::WaitUntil(seen + secs(15)));
    // A renewal moves the end, a touched label does not.
    me.after(secs(5)).input(Input::Watched(record(Some("other"), 2)));
    assert_eq!(me.poll(), Action::WaitUntil(seen + secs(20)));
    me.after(secs(5)).input(Input::Watched(Record { guard: guard(9), ..record(Some("other"), 2) }));
    assert_eq!(me.poll(), Action::WaitUntil(seen + secs(20)));
    me.now = seen + secs(20);
    let Action::TryAcquire { write, .. } = me.poll() else { panic!("an expired claim is taken over") };
    assert_eq!(write.guard, Some(guard(9)));
    assert_eq!((write.holder.as_deref(), write.transitions, write.acquired), (Some("me"), 4, None));
    me.input(Input::Stored(stored(&write, 10)));
    assert_eq!(me.poll(), Action::Lead);
}

#[test]
fn c54_the_times_in_a_lease_are_only_compared_with_themselves() {
    for renewed in [Timestamp::MIN, Timestamp::UNIX_EPOCH, Timestamp::MAX] {
        let mut me =
            Me::reading(Record { renewed: Some(renewed), acquired: Some(renewed), ..record(Some("other"), 1) });
        let seen = me.now;
        assert!(matches!(me.next(), Action::TryAcquire { .. }));
        assert_eq!(me.now - seen, secs(15));
    }
    // A clock that is set back renews just as well as one that runs.
    let mut me = Me::reading(Record { renewed: Some(Timestamp::MAX), ..record(Some("other"), 1) });
    me.after(secs(10)).input(Input::Watched(Record { renewed: Some(Timestamp::MIN), ..record(Some("other"), 2) }));
    assert_eq!(me.poll(), Action::WaitUntil(me.now + secs(15)));
}

#[test]
fn a_holder_with_a_longer_lease_is_given_its_time() {
    for (duration, expires) in [(60, 60), (5, 5), (0, 15)] {
        let mut me = Me::reading(Record { duration: secs(duration), ..record(Some("other"), 1) });
        assert_eq!(me.poll(), Action::WaitUntil(me.now + secs(expires)));
    }
}

#[test]
fn another_holders_release_is_taken_at_once() {
    for holder in [None, Some("")] {
        let mut me = Me::reading(record(Some("other"), 1));
        me.after(secs(1)).input(Input::Watched(record(holder, 2)));
        let Action::TryAcquire { write, .. } = me.poll() else { panic!("a released Lease is free") };
        assert_eq!(write.guard, Some(guard(2)));
    }
}

#[test]
fn a_restart_in_place_takes_its_own_lease_at_once() {
    let mut me = Me::reading(record(Some("me"), 1));
    let Action::TryAcquire { write, .. } = me.poll() else { panic!("nobody else has it") };
    assert_eq!((write.transitions, write.acquired), (3, record(None, 1).acquired));
}

#[test]
fn a_deleted_lease_is_created_only_after_the_claim_we_saw_in_it() {
    let mut me = Me::reading(record(Some("other"), 1));
    let seen = me.now;
    me.after(secs(1)).input(Input::WatchedDeleted);
    let Action::TryAcquire { write, .. } = me.next() else { panic!("it is created in the end") };
    assert_eq!((write.guard, me.now - seen), (None, secs(15)));
}

#[test]
fn losing_a_race_means_reading_at_once_and_waiting() {
    let mut me = Me::reading(record(None, 1));
    assert!(matches!(me.poll(), Action::TryAcquire { .. }));
    me.input(Input::Conflict);
    assert!(matches!(me.poll(), Action::Read { .. }));
    me.input(Input::Found(record(Some("other"), 2)));
    assert_eq!(me.poll(), Action::WaitUntil(me.now + secs(15)));
    assert!(!me.leads());
}

#[test]
fn conflicts_without_end_do_not_spin() {
    let mut me = Me::reading(record(None, 1));
    let begun = me.now;
    let mut requests = 0;
    while me.now - begun < secs(60) {
        match me.next() {
            Action::TryAcquire { .. } => me.input(Input::Conflict),
            Action::Read { .. } => me.input(Input::Found(record(None, 1))),
            action => panic!("{action:?}"),
        }
        requests += 1;
    }
    assert!(requests < 70, "{requests} requests in a minute");
}

#[test]
fn c49_a_renewal_held_for_8_s_changes_nothing() {
    let mut me = Me::leading();
    let Action::Renew { write, .. } = me.next() else { panic!("a leader renews") };
    let sent = me.now;
    while me.now < sent + secs(8) {
        me.after(millis(100));
        assert!(matches!(me.poll(), Action::WaitUntil(_)) && me.leads());
    }
    me.input(Input::Stored(stored(&write, 2)));
    assert!(me.leads());
    // The next one follows at once, because the claim is 8 s old.
    assert!(matches!(me.poll(), Action::Renew { .. }));
}

#[test]
fn c49_a_renewal_held_for_12_s_means_stepping_down_and_contending_again() {
    let mut me = Me::leading();
    let Action::Renew { write, .. } = me.next() else { panic!("a leader renews") };
    let sent = me.now;
    assert_eq!(me.next(), Action::StepDown(StepDown::RenewDeadline));
    assert_eq!(me.now - sent, secs(10));
    assert!(!me.leads());
    // The answer comes after all, and is of no use any more.
    me.after(secs(2)).input(Input::Stored(stored(&write, 2)));
    assert!(!me.leads());
    assert!(matches!(me.next(), Action::Read { .. }));
    me.input(Input::Found(stored(&write, 2)));
    let Action::TryAcquire { write, .. } = me.poll() else { panic!("the Lease still names us") };
    me.input(Input::Stored(stored(&write, 3)));
    assert_eq!(me.poll(), Action::Lead);
    assert!(me.leads());
}

#[test]
fn c48_refused_renewals_are_repeated_until_the_deadline() {
    let mut me = Me::leading();
    let mut tries = Vec::new();
    let end = loop {
        match me.next() {
            Action::Renew { write, .. } => {
                assert_eq!(write.guard, Some(guard(1)));
                tries.push(me.now);
                me.input(Input::WriteFailed);
            }
            Action::StepDown(StepDown::RenewDeadline) => break me.now,
            action => panic!("{action:?}"),
        }
    };
    assert_eq!(end - tries[0], secs(10));
    assert_eq!(tries.len(), 5);
    let pauses: Vec<_> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.iter().all(|pause| (secs(2)..=millis(2_400)).contains(pause)), "{pauses:?}");
    assert!(pauses.windows(2).any(|pair| pair[0] != pair[1]), "no jitter: {pauses:?}");
}

#[test]
fn leadership_ends_by_the_clock_alone() {
    let me = Me::leading();
    assert!(me.election.is_leader(me.now + secs(12)));
    assert!(!me.election.is_leader(me.now + millis(12_400)));
}

#[test]
fn a_claim_counts_from_its_sending() {
    let mut me = Me::reading(record(None, 1));
    let Action::TryAcquire { write, .. } = me.poll() else { panic!("the Lease is free") };
    let sent = me.now;
    me.after(millis(9_900)).input(Input::Stored(stored(&write, 2)));
    assert_eq!(me.poll(), Action::Lead);
    assert!(me.election.is_leader(sent + millis(13_499)) && !me.election.is_leader(sent + millis(13_500)));
}

#[test]
fn a_renewal_that_finds_another_holder_ends_leadership() {
    let mut me = Me::leading();
    assert!(matches!(me.next(), Action::Renew { .. }));
    me.input(Input::Conflict);
    assert!(matches!(me.poll(), Action::Read { .. }));
    me.input(Input::Found(record(Some("other"), 9)));
    assert!(!me.leads());
    assert_eq!(me.poll(), Action::StepDown(StepDown::Taken { holder: Some("other".to_owned()) }));
    assert_eq!(me.poll(), Action::WaitUntil(me.now + secs(15)));
}

#[test]
fn a_touched_lease_costs_a_leader_one_read() {
    let mut me = Me::leading();
    let Action::Renew { write, .. } = me.next() else { panic!("a leader renews") };
    me.input(Input::Conflict);
    assert!(matches!(me.poll(), Action::Read { .. }));
    me.input(Input::Found(stored(&write, 8)));
    let Action::Renew { write, .. } = me.poll() else { panic!("it goes on renewing") };
    assert_eq!(write.guard, Some(guard(8)));
    assert!(me.leads());
}

#[test]
fn a_leader_asks_before_it_believes_its_watch() {
    let mut me = Me::leading();
    me.input(Input::Watched(record(Some("former"), 0)));
    assert!(matches!(me.poll(), Action::Read { .. }) && me.leads());
    me.input(Input::Found(Record { duration: secs(15), ..record(Some("me"), 1) }));
    assert!(matches!(me.poll(), Action::WaitUntil(_)) && me.leads());
    me.input(Input::WatchedDeleted);
    assert!(matches!(me.poll(), Action::Read { .. }));
    me.input(Input::Absent);
    assert_eq!(me.poll(), Action::StepDown(StepDown::Deleted));
    let Action::TryAcquire { write, .. } = me.poll() else { panic!("it contends again") };
    assert_eq!(write.guard, None);
}

#[test]
fn c50_without_the_right_to_write_it_never_leads_and_asks_at_its_pace() {
    let mut me = Me::new();
    let begun = me.now;
    let mut requests = 0;
    while me.now - begun < secs(60) {
        match me.next() {
            Action::Read { .. } => me.input(Input::Absent),
            Action::TryAcquire { .. } => me.input(Input::WriteFailed),
            action => panic!("{action:?}"),
        }
        requests += 1;
        assert!(!me.leads());
    }
    assert!((40..=62).contains(&requests), "{requests} requests in a minute");
}

#[test]
fn unsafe_timings_are_refused() {
    let timing = |lease, renew, retry| Timing::new(millis(lease), millis(renew), millis(retry));
    assert_eq!(timing(15_000, 10_000, 2_000), Ok(Timing::default()));
    assert!(timing(137_000, 107_000, 26_000).is_ok());
    for ((lease, renew, retry), message) in [
        ((15_500, 10_000, 2_000), "a lease duration of 15.5s is not a whole number of seconds from 1s on"),
        ((0, 0, 0), "a lease duration of 0s is not a whole number of seconds from 1s on"),
        ((15_000, 15_000, 2_000), "the renew deadline (15s) must be below the lease duration (15s)"),
        ((15_000, 2_400, 2_000), "the renew deadline (2.4s) must be above 1.2 times the retry period (2s)"),
        ((15_000, 10_000, 0), "the retry period must be above zero"),
    ] {
        assert_eq!(timing(lease, renew, retry).unwrap_err().to_string(), message);
    }
}
