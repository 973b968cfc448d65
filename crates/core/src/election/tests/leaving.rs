//! How a contender leaves: its work first, then the Lease, and no claim left behind.

use super::*;

#[test]
fn a_leader_told_to_stop_ends_its_work_then_releases() {
    let mut me = Me::leading();
    me.input(Input::Shutdown);
    assert!(!me.leads());
    assert_eq!(me.poll(), Action::StepDown(StepDown::Shutdown));
    let Action::Release { write, .. } = me.poll() else { panic!("the Lease is given back") };
    assert_eq!((write.guard.clone(), write.holder.clone()), (Some(guard(1)), None));
    assert_eq!((write.duration, write.transitions), (secs(1), 0));
    me.input(Input::Stored(stored(&write, 2)));
    assert_eq!(me.poll(), Action::Stop);
    me.input(Input::Shutdown);
    assert_eq!(me.after(secs(60)).poll(), Action::Stop);
}

#[test]
fn a_release_waits_for_the_renewal_in_flight_and_uses_its_guard() {
    let mut me = Me::leading();
    let Action::Renew { write, .. } = me.next() else { panic!("a leader renews") };
    me.input(Input::Shutdown);
    assert_eq!(me.poll(), Action::StepDown(StepDown::Shutdown));
    assert!(matches!(me.poll(), Action::WaitUntil(_)));
    me.after(millis(50)).input(Input::Stored(stored(&write, 2)));
    let Action::Release { write, .. } = me.poll() else { panic!("the Lease is given back") };
    assert_eq!(write.guard, Some(guard(2)));
}

#[test]
fn a_release_gives_up_when_nobody_answers() {
    let mut me = Me::leading();
    me.input(Input::Shutdown);
    let begun = me.now;
    assert_eq!(me.poll(), Action::StepDown(StepDown::Shutdown));
    loop {
        match me.next() {
            Action::Release { .. } => me.input(Input::WriteFailed),
            action => break assert_eq!(action, Action::Stop),
        }
    }
    assert!(me.now - begun <= secs(10));
}

#[test]
fn a_standby_told_to_stop_leaves_no_claim_behind() {
    let mut me = Me::reading(record(Some("other"), 1));
    me.input(Input::Shutdown);
    assert_eq!(me.poll(), Action::Stop);

    let mut me = Me::reading(record(None, 1));
    let Action::TryAcquire { write, .. } = me.poll() else { panic!("the Lease is free") };
    me.input(Input::Shutdown);
    assert!(matches!(me.poll(), Action::WaitUntil(_)));
    me.input(Input::Stored(stored(&write, 2)));
    assert!(matches!(me.poll(), Action::Release { .. }) && !me.leads());
}
