//! The event loop: who calls when.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use muster_core::backoff::Backoff;
use muster_core::gate::{Answer, Gate, Line, Next, Permit, Ticket};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::upstream::{Reply, Upstream};

/// Resources start within this time, as they do when a process has read them all.
const START: Duration = Duration::from_millis(500);

/// What a refused resource does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Tries again after so much time.
    Fixed(Duration),
    /// Tries again after its own backoff, 5 s doubling to 5 min with jitter.
    Seed,
    /// Waits at the gate of its process.
    Muster,
}

/// One run.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// What refused resources do.
    pub policy: Policy,
    /// Resources in all, dealt to the processes in turn.
    pub resources: usize,
    /// Calls each of them needs, one after the other.
    pub calls: usize,
    /// Processes, which share the credential and know nothing of each other.
    pub processes: usize,
    /// Whether a resource without a gate makes all its calls again after a refusal, as operators do that keep nothing
    /// between two reconciles, instead of going on with the call that was refused.
    pub starts_over: bool,
    /// From a call's sending to its answer. It reaches the upstream half-way.
    pub latency: Duration,
    /// The run ends here, if not before.
    pub limit: Duration,
    /// The run ends once nothing was synced for this time.
    pub patience: Duration,
    /// Seed of all randomness.
    pub seed: u64,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Resources that had all their calls admitted.
    pub synced: usize,
    /// When the last of them was, if all were.
    pub all_synced: Option<Duration>,
    /// Calls sent.
    pub requests: u64,
    /// Calls refused.
    pub refused: u64,
}

/// One call, as an observer sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Call {
    /// When it was sent; its answer comes one latency later.
    pub sent: Duration,
    /// When it reached the upstream.
    pub arrived: Duration,
    /// Who sent it.
    pub process: usize,
    /// What the upstream says.
    pub reply: Reply,
    /// Calls of this process in flight, this one included.
    pub in_flight: usize,
    /// Calls per second its gate allows, while it has a pace.
    pub pace: Option<f64>,
}

impl Default for Scenario {
    /// 29 resources of one process, two calls each, 50 ms, at Muster's gate.
    fn default() -> Self {
        Self {
            policy: Policy::Muster,
            resources: 29,
            calls: 2,
            processes: 1,
            starts_over: false,
            latency: Duration::from_millis(50),
            limit: Duration::from_hours(30 * 24),
            patience: Duration::from_hours(24),
            seed: 1,
        }
    }
}

impl Outcome {
    /// Part of the calls that were refused.
    pub fn refused_share(&self) -> f64 {
        self.refused as f64 / self.requests.max(1) as f64
    }
}

/// Plays a scenario to its end.
pub fn run(scenario: &Scenario, upstream: &mut impl Upstream) -> Outcome {
    run_observed(scenario, upstream, |_| {})
}

/// Plays a scenario to its end and shows every call.
pub fn run_observed(scenario: &Scenario, upstream: &mut impl Upstream, observer: impl FnMut(Call)) -> Outcome {
    World::new(scenario, upstream, observer).run()
}

struct World<'a, U, O> {
    scenario: &'a Scenario,
    upstream: &'a mut U,
    observer: O,
    now: Duration,
    events: BinaryHeap<Reverse<Scheduled>>,
    scheduled: u64,
    resources: Vec<Resource>,
    processes: Vec<Process>,
    backoff: Backoff<usize>,
    rng: Xoshiro256PlusPlus,
    last_synced: Duration,
    outcome: Outcome,
}

struct Resource {
    calls_left: usize,
    /// Its place at the gate, once it has started.
    ticket: Option<Ticket>,
}

struct Process {
    gate: Gate<usize>,
    waiting: BTreeMap<Ticket, usize>,
    /// The instant it is to be woken at.
    alarm: Option<Duration>,
    in_flight: usize,
    rng: Xoshiro256PlusPlus,
}

enum Event {
    /// The resource's first or next attempt begins.
    Attempt(usize),
    Answered {
        resource: usize,
        reply: Reply,
        permit: Option<Permit>,
    },
    Alarm(usize),
}

/// An event and its time; of equal times, the first scheduled comes first.
struct Scheduled {
    at: Duration,
    number: u64,
    event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl<'a, U: Upstream, O: FnMut(Call)> World<'a, U, O> {
    fn new(scenario: &'a Scenario, upstream: &'a mut U, observer: O) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(scenario.seed);
        let process = |_| Process {
            gate: Gate::new(),
            waiting: BTreeMap::new(),
            alarm: None,
            in_flight: 0,
            rng: Xoshiro256PlusPlus::from_rng(&mut rng),
        };
        let processes = (0..scenario.processes).map(process).collect();
        let resource = |_| Resource { calls_left: scenario.calls, ticket: None };
        Self {
            scenario,
            upstream,
            observer,
            now: Duration::ZERO,
            events: BinaryHeap::new(),
            scheduled: 0,
            resources: (0..scenario.resources).map(resource).collect(),
            processes,
            backoff: Backoff::default(),
            rng,
            last_synced: Duration::ZERO,
            outcome: Outcome { synced: 0, all_synced: None, requests: 0, refused: 0 },
        }
    }

    /// Ends when nothing more will happen: after the last answer, not with the last sync.
    fn run(mut self) -> Outcome {
        for resource in 0..self.scenario.resources {
            let at = self.rng.random_range(Duration::ZERO..START);
            self.schedule(at, Event::Attempt(resource));
        }
        while let Some(Reverse(Scheduled { at, event, .. })) = self.events.pop() {
            if at > self.scenario.limit || at > self.last_synced + self.scenario.patience {
                break;
            }
            self.now = at;
            match event {
                Event::Attempt(resource) => self.attempt(resource),
                Event::Answered { resource, reply, permit } => self.answered(resource, reply, permit),
                Event::Alarm(process) if self.processes[process].alarm == Some(at) => {
                    self.processes[process].alarm = None;
                    self.drive(process);
                }
                Event::Alarm(_) => {}
            }
        }
        self.outcome
    }

    fn schedule(&mut self, at: Duration, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse(Scheduled { at, number: self.scheduled, event }));
    }

    fn process_of(&self, resource: usize) -> usize {
        resource % self.processes.len()
    }

    fn attempt(&mut self, resource: usize) {
        match self.scenario.policy {
            Policy::Fixed(_) | Policy::Seed => {
                if self.scenario.starts_over {
                    self.resources[resource].calls_left = self.scenario.calls;
                }
                self.send(resource, None);
            }
            Policy::Muster => {
                let process = self.process_of(resource);
                let Process { gate, waiting, .. } = &mut self.processes[process];
                let ticket = gate.join(&resource, Line::Urgent, self.now);
                gate.ask(ticket);
                waiting.insert(ticket, resource);
                self.resources[resource].ticket = Some(ticket);
                self.drive(process);
            }
        }
    }

    /// Sends whatever the gate of a process allows now, and sets its alarm for what it allows later.
    fn drive(&mut self, process: usize) {
        loop {
            match self.processes[process].gate.poll(self.now) {
                Next::Send { ticket, permit } => {
                    let resource = self.processes[process].waiting[&ticket];
                    self.send(resource, Some(permit));
                }
                Next::At(instant) => {
                    if self.processes[process].alarm != Some(instant) {
                        self.processes[process].alarm = Some(instant);
                        self.schedule(instant, Event::Alarm(process));
                    }
                    return;
                }
                Next::AfterAnswer | Next::Idle => return,
            }
        }
    }

    fn send(&mut self, resource: usize, permit: Option<Permit>) {
        let process = self.process_of(resource);
        // All calls take equally long, so they arrive in the order in which they are sent.
        let arrived = self.now + self.scenario.latency / 2;
        let reply = self.upstream.call(arrived);
        self.outcome.requests += 1;
        self.processes[process].in_flight += 1;
        (self.observer)(Call {
            sent: self.now,
            arrived,
            process,
            reply,
            in_flight: self.processes[process].in_flight,
            pace: self.processes[process].gate.stats(self.now).pace,
        });
        self.schedule(self.now + self.scenario.latency, Event::Answered { resource, reply, permit });
    }

    fn answered(&mut self, resource: usize, reply: Reply, permit: Option<Permit>) {
        let process = self.process_of(resource);
        let answer = reply.answer();
        self.processes[process].in_flight -= 1;
        match answer {
            Answer::Admitted => {
                self.resources[resource].calls_left -= 1;
                if self.resources[resource].calls_left == 0 {
                    self.synced();
                }
            }
            Answer::Throttled(_) => self.outcome.refused += 1,
            Answer::Failed => {}
        }
        match permit {
            Some(permit) => self.answered_at_gate(resource, process, permit, answer),
            None => self.answered_without_gate(resource, answer),
        }
    }

    fn answered_at_gate(&mut self, resource: usize, process: usize, permit: Permit, answer: Answer) {
        let Process { gate, waiting, rng, .. } = &mut self.processes[process];
        gate.answered(permit, self.now, answer, rng);
        if let Some(ticket) = self.resources[resource].ticket {
            if self.resources[resource].calls_left > 0 {
                gate.ask(ticket);
            } else {
                gate.leave(ticket);
                waiting.remove(&ticket);
            }
        }
        self.drive(process);
    }

    fn answered_without_gate(&mut self, resource: usize, answer: Answer) {
        if answer == Answer::Admitted {
            if self.resources[resource].calls_left > 0 {
                self.send(resource, None);
            } else {
                self.backoff.forget(&resource);
            }
            return;
        }
        let at = match self.scenario.policy {
            Policy::Fixed(wait) => self.now + wait,
            Policy::Seed | Policy::Muster => self.backoff.failed(resource, self.now, None, &mut self.rng),
        };
        self.schedule(at, Event::Attempt(resource));
    }

    fn synced(&mut self) {
        self.last_synced = self.now;
        self.outcome.synced += 1;
        if self.outcome.synced == self.scenario.resources {
            self.outcome.all_synced = Some(self.now);
        }
    }
}
