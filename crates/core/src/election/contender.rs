//! The state machine of one contender.

use std::time::Duration;

use rand::Rng;

use super::{Action, Input, Record, StepDown, Timing, Write};

/// One contender for the Lease. Pure: [`Election::poll`] says what to do, [`Election::input`] takes what happened.
#[derive(Debug)]
pub struct Election {
    me: String,
    timing: Timing,
    role: Role,
    view: View,
    request: Option<Request>,
    /// Before this instant nothing is sent: the pause after a failure.
    not_before: Duration,
    /// Conflicts since the last stored write. The first is followed by a read at once, later ones by a pause.
    conflicts: u32,
}

#[derive(Debug)]
enum Role {
    Standby,
    Leading(Term),
    /// Leadership is over for this reason, and the driver does not know yet.
    SteppingDown(StepDown),
    /// Shutting down; the Lease may still name us.
    Leaving {
        give_up_at: Option<Duration>,
    },
    Stopped,
}

/// A spell of leadership up to the next renewal.
#[derive(Debug, Clone, Copy)]
struct Term {
    next_renewal: Duration,
    /// From this instant on we do not lead, whatever answers come.
    until: Duration,
    announced: bool,
}

/// What we know of the Lease.
#[derive(Debug, Default)]
struct View {
    /// As last read, written or watched. `None`: it does not exist, or nothing is known yet, as `stale` tells.
    record: Option<Record>,
    /// Until this instant somebody else's claim, as we saw it, is to be respected, even if the Lease was deleted.
    held_until: Duration,
    /// It must be read before anything is written.
    stale: bool,
}

#[derive(Debug, Clone, Copy)]
struct Request {
    kind: Kind,
    sent: Duration,
    give_up_at: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Claim,
    Release,
}

impl Election {
    /// A contender that knows nothing yet and begins by reading. `me` must be unique among all processes that contend,
    /// and stay the same when a container restarts in place: pod name and pod UID.
    pub fn new(me: impl Into<String>, timing: Timing) -> Self {
        Self {
            me: me.into(),
            timing,
            role: Role::Standby,
            view: View { stale: true, ..View::default() },
            request: None,
            not_before: Duration::ZERO,
            conflicts: 0,
        }
    }

    /// Whether this process leads at `now`. Ask again before each thing that only a leader may do: it turns false by
    /// the clock alone, even if nobody polls.
    pub fn is_leader(&self, now: Duration) -> bool {
        matches!(self.role, Role::Leading(term) if term.announced && now < term.until)
    }

    /// The holder the Lease names as far as we know, this process or another.
    pub fn holder(&self) -> Option<&str> {
        self.view.record.as_ref().and_then(Record::holder)
    }

    /// What to do at `now`. Each call after a request was returned waits for its answer, so calling too often is safe.
    pub fn poll(&mut self, now: Duration, rng: &mut (impl Rng + ?Sized)) -> Action {
        if let Role::Leading(term) = self.role
            && now >= term.until
        {
            self.lose(StepDown::RenewDeadline, now, rng);
        }
        match &mut self.role {
            Role::Leading(term) if !term.announced => {
                term.announced = true;
                return Action::Lead;
            }
            Role::SteppingDown(reason) => {
                let reason = reason.clone();
                self.role = match reason {
                    StepDown::Shutdown => Role::Leaving { give_up_at: None },
                    _ => Role::Standby,
                };
                return Action::StepDown(reason);
            }
            _ => {}
        }
        if let Some(request) = self.request {
            if now < request.give_up_at {
                return Action::WaitUntil(request.give_up_at);
            }
            self.request = None;
            self.failed(request.kind, now, rng);
        }
        match self.role {
            Role::Standby | Role::SteppingDown(_) => self.contend(now),
            Role::Leading(term) => self.keep(term, now),
            Role::Leaving { give_up_at } => {
                let give_up_at = give_up_at.unwrap_or(now + self.timing.renew_deadline());
                self.role = Role::Leaving { give_up_at: Some(give_up_at) };
                self.leave(give_up_at, now)
            }
            Role::Stopped => Action::Stop,
        }
    }

    /// Takes what happened at `now`. Answers that were not asked for, or come after they were given up, are ignored.
    pub fn input(&mut self, input: Input, now: Duration, rng: &mut (impl Rng + ?Sized)) {
        match input {
            Input::Watched(record) => self.watched(Some(record), now),
            Input::WatchedDeleted => self.watched(None, now),
            Input::Shutdown => self.shut_down(),
            Input::Found(record) => {
                if self.answered(&[Kind::Read]).is_some() {
                    self.read(Some(record), now, rng);
                }
            }
            Input::Absent => {
                if self.answered(&[Kind::Read]).is_some() {
                    self.read(None, now, rng);
                }
            }
            Input::ReadFailed => {
                if let Some(request) = self.answered(&[Kind::Read]) {
                    self.failed(request.kind, now, rng);
                }
            }
            Input::Stored(record) => {
                if let Some(request) = self.answered(&[Kind::Claim, Kind::Release]) {
                    self.stored(request, record, now, rng);
                }
            }
            Input::Conflict => {
                if self.answered(&[Kind::Claim, Kind::Release]).is_some() {
                    self.view.stale = true;
                    if self.conflicts > 0 {
                        self.not_before = now + self.timing.pause(rng);
                    }
                    self.conflicts = self.conflicts.saturating_add(1);
                }
            }
            Input::WriteFailed => {
                if let Some(request) = self.answered(&[Kind::Claim, Kind::Release]) {
                    self.failed(request.kind, now, rng);
                }
            }
        }
    }

    /// Takes the request in flight if it is of one of these kinds.
    fn answered(&mut self, kinds: &[Kind]) -> Option<Request> {
        self.request.take_if(|request| kinds.contains(&request.kind))
    }

    fn failed(&mut self, kind: Kind, now: Duration, rng: &mut (impl Rng + ?Sized)) {
        self.not_before = now + self.timing.pause(rng);
        // A claim of unknown outcome may have been stored. A leader repeats it under the same guard and learns that from
        // a conflict; a standby reads first.
        if kind == Kind::Claim && matches!(self.role, Role::Standby) {
            self.view.stale = true;
        }
    }

    fn read(&mut self, record: Option<Record>, now: Duration, rng: &mut (impl Rng + ?Sized)) {
        self.see(record, now);
        self.view.stale = false;
        if !matches!(self.role, Role::Leading(_)) || self.is_mine() {
            return;
        }
        let reason = match &self.view.record {
            Some(record) => StepDown::Taken { holder: record.holder().map(str::to_owned) },
            None => StepDown::Deleted,
        };
        self.lose(reason, now, rng);
        // Unlike after a deadline, the server answers and what it said is fresh.
        self.view.stale = false;
        self.not_before = now;
    }

    fn stored(&mut self, request: Request, record: Record, now: Duration, rng: &mut (impl Rng + ?Sized)) {
        self.see(Some(record), now);
        self.conflicts = 0;
        match self.role {
            _ if request.kind == Kind::Release => self.role = Role::Stopped,
            Role::Standby | Role::Leading(_) => {
                // Counted from the sending, for the answer may have taken long (C49).
                let next_renewal = (request.sent + self.timing.pause(rng)).max(now);
                let until = (next_renewal + self.timing.renew_deadline()).min(request.sent + self.timing.reliable());
                let announced = matches!(self.role, Role::Leading(term) if term.announced);
                if now < until {
                    self.role = Role::Leading(Term { next_renewal, until, announced });
                }
            }
            Role::SteppingDown(_) | Role::Leaving { .. } | Role::Stopped => {}
        }
    }

    fn watched(&mut self, record: Option<Record>, now: Duration) {
        if matches!(self.role, Role::Leading(_)) {
            // Our own writes come back here, late. Anything else may be older than they are, so it is only a hint.
            let mine = record.as_ref().and_then(Record::holder) == Some(self.me.as_str());
            self.view.stale |= !mine;
        } else {
            self.see(record, now);
        }
    }

    fn shut_down(&mut self) {
        let claiming = self.request.is_some_and(|request| request.kind == Kind::Claim);
        self.role = match std::mem::replace(&mut self.role, Role::Stopped) {
            Role::Leading(term) if term.announced => Role::SteppingDown(StepDown::Shutdown),
            Role::SteppingDown(_) => Role::SteppingDown(StepDown::Shutdown),
            Role::Leading(_) | Role::Leaving { .. } => Role::Leaving { give_up_at: None },
            // A claim that is stored after we are gone would keep everybody waiting for a lease duration.
            Role::Standby if claiming || self.is_mine() => Role::Leaving { give_up_at: None },
            Role::Standby | Role::Stopped => Role::Stopped,
        };
    }

    fn lose(&mut self, reason: StepDown, now: Duration, rng: &mut (impl Rng + ?Sized)) {
        let announced = matches!(self.role, Role::Leading(term) if term.announced);
        self.role = if announced { Role::SteppingDown(reason) } else { Role::Standby };
        self.request = None;
        self.view.stale = true;
        self.not_before = now + self.timing.pause(rng);
    }

    /// Takes over what is known of the Lease, and until when that is somebody else's claim.
    fn see(&mut self, record: Option<Record>, now: Duration) {
        if let Some(record) = &record {
            let anew = self.view.record.as_ref().is_none_or(|before| record.claims_anew(before));
            match record.holder() {
                Some(holder) if holder != self.me => {
                    if anew {
                        let duration = if record.duration.is_zero() { self.timing.lease() } else { record.duration };
                        self.view.held_until = now.saturating_add(duration);
                        // A lost race ends here; the next one begins afresh.
                        self.conflicts = 0;
                    }
                }
                _ => self.view.held_until = Duration::ZERO,
            }
        }
        self.view.record = record;
    }

    fn is_mine(&self) -> bool {
        self.holder() == Some(self.me.as_str())
    }

    fn contend(&mut self, now: Duration) -> Action {
        let give_up_at = now + self.timing.renew_deadline();
        if now < self.not_before {
            Action::WaitUntil(self.not_before)
        } else if self.view.stale {
            self.send(Kind::Read, now, give_up_at);
            Action::Read { give_up_at }
        } else if now < self.view.held_until {
            Action::WaitUntil(self.view.held_until)
        } else {
            self.send(Kind::Claim, now, give_up_at);
            Action::TryAcquire { write: self.claim(), give_up_at }
        }
    }

    fn keep(&mut self, term: Term, now: Duration) -> Action {
        let due = if self.view.stale { self.not_before } else { term.next_renewal.max(self.not_before) };
        let give_up_at = term.until;
        if now < due {
            Action::WaitUntil(due.min(term.until))
        } else if self.view.stale {
            self.send(Kind::Read, now, give_up_at);
            Action::Read { give_up_at }
        } else {
            self.send(Kind::Claim, now, give_up_at);
            Action::Renew { write: self.claim(), give_up_at }
        }
    }

    fn leave(&mut self, give_up_at: Duration, now: Duration) -> Action {
        if now >= give_up_at || !(self.view.stale || self.is_mine()) {
            self.role = Role::Stopped;
            return Action::Stop;
        }
        if now < self.not_before {
            Action::WaitUntil(self.not_before.min(give_up_at))
        } else if self.view.stale {
            self.send(Kind::Read, now, give_up_at);
            Action::Read { give_up_at }
        } else {
            self.send(Kind::Release, now, give_up_at);
            Action::Release { write: self.release(), give_up_at }
        }
    }

    fn send(&mut self, kind: Kind, now: Duration, give_up_at: Duration) {
        self.request = Some(Request { kind, sent: now, give_up_at });
    }

    fn claim(&self) -> Write {
        let record = self.view.record.as_ref();
        let transitions = record.map_or(0, |record| record.transitions);
        let stays = self.is_mine();
        Write {
            guard: record.map(|record| record.guard.clone()),
            holder: Some(self.me.clone()),
            duration: self.timing.lease(),
            transitions: if stays || record.is_none() { transitions } else { transitions.saturating_add(1) },
            acquired: record.filter(|_| stays).and_then(|record| record.acquired),
        }
    }

    /// As client-go releases: no holder, and one second, for readers that look at nothing else.
    fn release(&self) -> Write {
        Write { holder: None, duration: Duration::from_secs(1), ..self.claim() }
    }
}
