//! A history as text. A line that begins with a word or `+TIME` is something that happens; an indented line is a step
//! that was decided because of it. [`check`] plays the former and compares the latter.
//!
//! ```text
//! see a 1                     a watch shows Executor a at generation 1 (`ns/a` is a NamespacedExecutor, and
//!                             `a~2` another object of the name a)
//! see a 1 retry=x             … with this value of the retry annotation
//! gone a                      a watch shows that it is gone
//! sync                        all three watches are in sync and have shown what was seen so far
//! load a 1 [x y] refresh=1h   its spec was read; scopes x and y
//! broken a 1 [x] TEXT         its spec was read, and can never be built
//! vanished a                  the read found nothing
//! unread a                    the read failed
//! built a [until=1h] [first=30m] [warn=WORD]   the attempt succeeded
//! failed a REASON TEXT        the attempt failed
//! parked a TEXT               the attempt waits at a gate
//! changed a                   its files changed; `secret a`: the data of a Secret it names
//! wrote a                     the write that is on its way succeeded
//! refused a                   … was refused for good; `unwritten a`: may pass later
//! altered a                   somebody edits the own object; `lost a`: deletes it
//! orphan a                    an own object of an earlier process shows up: generation 1, Built
//! ready                       asks for readiness
//! +90s                        time passes
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_api::{ExecutorKind, ExecutorRef, PodReport, Reason, Serves};
use muster_core::go_duration::GoDuration;
use muster_core::retry::Retry;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::decide::{Plan, Settings, pod_report};
use crate::replica::{Event, Replica};
use crate::subject::{Facts, Failure, Loaded, Now, Outcome, Own, Present, Said, Uid, Writing};

/// Where a history begins on the wall.
pub(super) const EPOCH: &str = "2026-11-30T12:00:00Z";

pub(super) const SETTINGS: Settings =
    Settings { edit_grace: Duration::from_mins(2), start_grace: Duration::from_secs(90) };

/// A replica and the time.
pub(super) struct World {
    pub replica: Replica,
    pub mono: Duration,
    pub rng: StdRng,
    /// What was decided since the last look.
    pub log: Vec<String>,
    wakes: BTreeMap<Uid, Duration>,
    version: u64,
}

/// Plays the events of `history` and compares the decisions.
pub(super) fn check(history: &str) {
    let mut world = World::new(1);
    let mut played = String::new();
    for line in history.lines().map(str::trim_end).filter(|line| !line.trim().is_empty()) {
        let line = line.strip_prefix("        ").unwrap_or(line);
        if line.starts_with(' ') {
            continue;
        }
        let _ = writeln!(played, "{line}");
        world.play(line);
        for step in world.log.drain(..) {
            let _ = writeln!(played, "    {step}");
        }
    }
    let lines = history.lines().map(str::trim_end).filter(|line| !line.trim().is_empty());
    let expected: Vec<&str> = lines.map(|line| line.strip_prefix("        ").unwrap_or(line)).collect();
    let expected = expected.join("\n") + "\n";
    assert!(played == expected, "expected\n{expected}\nplayed\n{played}");
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            replica: Replica::new(SETTINGS),
            mono: Duration::ZERO,
            rng: StdRng::seed_from_u64(seed),
            log: Vec::new(),
            wakes: BTreeMap::new(),
            version: 0,
        }
    }

    pub(super) fn now(&self) -> Now {
        let wall: Timestamp = EPOCH.parse().unwrap();
        Now { mono: self.mono, wall: wall + SignedDuration::try_from(self.mono).unwrap() }
    }

    /// Something happens, and all that is decided because of it.
    pub(super) fn happens(&mut self, event: Event) {
        let now = self.now();
        self.replica.on(event, now, &mut self.rng);
        self.settle();
    }

    /// Lets time pass, looking again whenever something said that its time would come.
    pub(super) fn pass(&mut self, by: Duration) {
        let end = self.mono + by;
        while let Some((uid, at)) = self
            .wakes
            .iter()
            .min_by_key(|(_, at)| **at)
            .map(|(uid, at)| (uid.clone(), *at))
            .filter(|(_, at)| *at <= end)
        {
            self.mono = self.mono.max(at);
            self.replica.touch(&uid);
            self.settle();
        }
        self.mono = end;
    }

    /// When something falls due next.
    pub(super) fn next_wake(&self) -> Option<Duration> {
        self.wakes.values().min().copied()
    }

    /// Decides about everything that may have changed until there is nothing to begin.
    pub(super) fn settle(&mut self) {
        let now = self.now();
        loop {
            let dirty = self.replica.take_dirty();
            if dirty.is_empty() {
                return;
            }
            for uid in dirty {
                self.wakes.remove(&uid);
                for round in 0.. {
                    assert!(round < 12, "no end of plans for {uid}: {:?}", self.log);
                    let plan = self.replica.decide(&uid, now);
                    if let Plan::Wait(agenda) = &plan {
                        let at = agenda.next().unwrap();
                        assert!(at > now.mono, "{uid} waits for the past: {plan}");
                        self.wakes.insert(uid.clone(), at);
                    }
                    if plan.is_rest() {
                        break;
                    }
                    let name = self.replica.subject(&uid).unwrap().reference.to_string();
                    self.log.push(format!("{name} {plan}"));
                    self.replica.begin(&uid, &plan, now, &mut self.rng);
                }
                self.replica.judge(&uid, now);
            }
        }
    }

    fn play(&mut self, line: &str) {
        if let Some(time) = line.strip_prefix('+') {
            return self.pass(duration(time));
        }
        let mut words = line.split_whitespace();
        let verb = words.next().unwrap();
        match verb {
            "sync" => return self.sync(),
            "ready" => {
                let now = self.now();
                let line = self.replica.readiness(now).to_string();
                return self.log.push(line);
            }
            _ => {}
        }
        let name = words.next().unwrap();
        let uid = uid(name);
        let rest: Vec<&str> = words.collect();
        let text = || rest[1..].join(" ");
        let event = match verb {
            "see" => Event::Seen { executor: executor(name), present: present(name, &rest) },
            "gone" => Event::Gone { uid },
            "load" | "broken" => Event::Fetched { loaded: Some(loaded(verb, &rest)), uid },
            "vanished" => Event::Fetched { uid, loaded: None },
            "unread" => Event::FetchFailed { uid, retry: Retry::Unreachable },
            "built" => Event::Attempted { attempt: self.attempt(&uid), uid, result: Ok(self.facts(&rest)) },
            "failed" => {
                let failure = Failure::new(Reason::from(rest[0]), text());
                Event::Attempted { attempt: self.attempt(&uid), uid, result: Err(failure) }
            }
            "parked" => Event::Parked { attempt: self.attempt(&uid), uid, failure: Failure::throttled(rest.join(" ")) },
            "changed" => Event::MaterialChanged { uid },
            "secret" => Event::SecretChanged { uid },
            "wrote" => return self.wrote(&uid),
            "refused" => Event::WriteFailed { uid, retry: Retry::SchemaOutdated },
            "unwritten" => Event::WriteFailed { uid, retry: Retry::Forbidden },
            "altered" => {
                let mut report = self.own_report(&uid);
                report.error = "edited".into();
                Event::OwnSeen { executor: executor(name), own: self.own(name, Some(report)) }
            }
            "orphan" => Event::OwnSeen { executor: executor(name), own: self.own(name, Some(built_report())) },
            "lost" => Event::OwnGone { object: format!("own-{name}"), executor: uid },
            other => panic!("unknown word {other:?}"),
        };
        self.happens(event);
    }

    /// The write that is on its way arrives.
    pub(super) fn wrote(&mut self, uid: &Uid) {
        let subject = self.replica.subject(uid).unwrap();
        let name = subject.reference.to_string();
        let event = match subject.writing.clone().expect("a write is on its way") {
            Writing::Report(report) => Event::Wrote { own: self.own(&name, Some(report)), uid: uid.clone() },
            Writing::Delete => Event::Erased { uid: uid.clone() },
        };
        self.happens(event);
    }

    /// All three watches show what this replica has seen so far, and nothing else.
    pub(super) fn sync(&mut self) {
        for kind in [ExecutorKind::Executor, ExecutorKind::NamespacedExecutor] {
            let of_kind = self.replica.subjects().filter(|(_, subject)| subject.reference.kind == kind);
            let items = of_kind
                .filter_map(|(_, subject)| Some((subject.reference.clone(), subject.present()?.clone())))
                .collect();
            self.happens(Event::Listed { kind, items });
        }
        let own = self.replica.subjects();
        let items = own.filter_map(|(_, s)| Some((s.reference.clone(), s.own.clone()?))).collect();
        self.happens(Event::OwnListed { items });
    }

    pub(super) fn own(&mut self, name: &str, report: Option<PodReport>) -> Own {
        self.version += 1;
        Own { name: format!("own-{name}"), uid: format!("own-{name}"), version: self.version, intact: true, report }
    }

    fn own_report(&self, uid: &Uid) -> PodReport {
        self.replica.subject(uid).unwrap().own.clone().unwrap().report.unwrap()
    }

    pub(super) fn attempt(&self, uid: &Uid) -> u64 {
        self.replica.subject(uid).and_then(|subject| subject.attempt.as_ref()).map_or(0, |attempt| attempt.id)
    }

    fn facts(&self, rest: &[&str]) -> Facts {
        let wall = self.now().wall;
        let time = |key: &str| {
            let value = rest.iter().find_map(|word| word.strip_prefix(key))?;
            Some(wall + SignedDuration::try_from(duration(value)).unwrap())
        };
        let warnings = rest.iter().filter_map(|word| word.strip_prefix("warn=")).map(str::to_owned).collect();
        let (first, until) = (time("first="), time("until="));
        Facts { trust_expires_at: first.or(until), usable_until: until, rebuild_at: first.or(until), warnings }
    }
}

pub(super) fn uid(name: &str) -> Uid {
    format!("uid-{name}").as_str().into()
}

pub(super) fn executor(name: &str) -> ExecutorRef {
    let (kind, namespace, short) = match name.split_once('/') {
        Some((namespace, short)) => (ExecutorKind::NamespacedExecutor, namespace, short),
        None => (ExecutorKind::Executor, "", name),
    };
    let short = short.split('~').next().unwrap();
    ExecutorRef { kind, namespace: namespace.into(), name: short.into(), uid: uid(name).to_string() }
}

/// Created in the order of the names, so that a is the oldest.
pub(super) fn created(name: &str) -> Timestamp {
    let last = name.bytes().last().unwrap();
    Timestamp::from_second(i64::from(last)).unwrap()
}

fn built_report() -> PodReport {
    let since = "2026-11-30T11:00:00Z".parse().unwrap();
    let outcome = Outcome {
        generation: 1,
        succeeded: true,
        serves: Serves::Wanted,
        reason: Reason::Built,
        error: String::new(),
        trust_expires_at: None,
        warnings: Vec::new(),
    };
    pod_report(&Said { outcome, since })
}

fn present(name: &str, rest: &[&str]) -> Present {
    let retry = rest.iter().find_map(|word| word.strip_prefix("retry=")).map(str::to_owned);
    Present { generation: rest[0].parse().unwrap(), created: created(name), retry, version: String::new() }
}

fn loaded(verb: &str, rest: &[&str]) -> Loaded {
    let list = rest.join(" ");
    let (head, tail) = list.split_once('[').unwrap().1.split_once(']').unwrap();
    let claims = head.split_whitespace().map(|scope| scope.parse().unwrap()).collect();
    let tail = tail.trim();
    let compiled = match verb {
        "broken" => Err(Failure::new(Reason::InvalidSpec, tail)),
        _ => Ok(tail.strip_prefix("refresh=").map(duration)),
    };
    Loaded { generation: rest[0].parse().unwrap(), claims, compiled }
}

fn duration(text: &str) -> Duration {
    text.parse::<GoDuration>().unwrap_or_else(|error| panic!("{text}: {error}")).get()
}
