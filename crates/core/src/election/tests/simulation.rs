//! Several contenders, one store and a bad network in virtual time: never two leaders by their own clocks, and always
//! one again soon after the faults end.

use std::collections::BTreeMap;

use rand::RngExt as _;

use super::*;

/// How bad the world is.
#[derive(Clone, Copy)]
struct World {
    contenders: usize,
    /// Share of requests that go wrong in some way.
    faulty: f64,
    /// Share of watch events that never arrive.
    deaf: f64,
    /// Whether clocks run unequally, processes freeze, and contenders are shut down and replaced.
    rough: bool,
    /// When all that ends.
    calm_from: Duration,
}

enum Event {
    /// A request arrives at the store; its answer is due after the delay, if ever.
    Arrives { who: usize, slot: u64, request: Request, answer_after: Option<Duration> },
    /// Something reaches a contender. `slot` names the request it answers.
    Reaches { who: usize, slot: Option<u64>, input: Input },
    /// A timer, or the end of a leader's work. Only the last one set counts.
    Wakes { who: usize, timer: u64 },
    /// The process freezes for so long.
    Freezes { who: usize, time: Duration },
    /// Nothing between this process and the store passes for so long.
    Cuts { who: usize, time: Duration },
}

#[derive(Clone)]
enum Request {
    Read,
    Write(Write),
}

struct Contender {
    election: Election,
    /// Local time is global time times this, plus an offset.
    rate: f64,
    offset: Duration,
    slot: u64,
    timer: u64,
    frozen_until: Duration,
    cut_until: Duration,
    winding_up_until: Duration,
    terms: u32,
}

struct Simulation {
    world: World,
    rng: StdRng,
    now: Duration,
    events: BTreeMap<(Duration, u64), Event>,
    sequence: u64,
    lease: Option<Record>,
    version: u64,
    contenders: Vec<Contender>,
    names: u64,
}

impl Contender {
    fn local(&self, now: Duration) -> Duration {
        self.offset + now.mul_f64(self.rate)
    }

    fn global(&self, local: Duration) -> Duration {
        // A nanosecond more, so that rounding never wakes a timer early.
        local.saturating_sub(self.offset).div_f64(self.rate) + Duration::from_nanos(10)
    }
}

impl Simulation {
    fn new(world: World, seed: u64) -> Self {
        let mut simulation = Self {
            world,
            rng: StdRng::seed_from_u64(seed),
            now: Duration::ZERO,
            events: BTreeMap::new(),
            sequence: 0,
            lease: None,
            version: 0,
            contenders: Vec::new(),
            names: 0,
        };
        for who in 0..world.contenders {
            let contender = simulation.contender();
            simulation.contenders.push(contender);
            let start = simulation.up_to(secs(5));
            simulation.wake(who, start);
        }
        if world.rough {
            let mut time = Duration::ZERO;
            while time < world.calm_from {
                time += simulation.up_to(secs(40));
                let who = simulation.rng.random_range(0..world.contenders);
                let length = simulation.up_to(secs(25));
                let event = match simulation.rng.random_range(0..4) {
                    0 => Event::Freezes { who, time: length },
                    1 => Event::Reaches { who, slot: None, input: Input::Shutdown },
                    _ => Event::Cuts { who, time: length },
                };
                simulation.at(time.min(world.calm_from), event);
            }
        }
        simulation
    }

    fn contender(&mut self) -> Contender {
        self.names += 1;
        let rate = if self.world.rough { self.rng.random_range(0.995..1.005) } else { 1.0 };
        Contender {
            election: Election::new(format!("pod-{}", self.names), Timing::default()),
            rate,
            offset: self.up_to(secs(100_000)),
            slot: 0,
            timer: 0,
            frozen_until: Duration::ZERO,
            cut_until: Duration::ZERO,
            winding_up_until: Duration::ZERO,
            terms: 0,
        }
    }

    fn up_to(&mut self, most: Duration) -> Duration {
        self.rng.random_range(Duration::ZERO..=most)
    }

    fn at(&mut self, time: Duration, event: Event) {
        self.sequence += 1;
        self.events.insert((time, self.sequence), event);
    }

    fn wake(&mut self, who: usize, time: Duration) {
        let timer = self.sequence;
        self.contenders[who].timer = timer;
        self.at(time, Event::Wakes { who, timer });
    }

    fn calm(&self) -> bool {
        self.now >= self.world.calm_from
    }

    fn leaders(&self) -> Vec<usize> {
        let leads = |contender: &Contender| contender.election.is_leader(contender.local(self.now));
        (0..self.contenders.len()).filter(|who| leads(&self.contenders[*who])).collect()
    }

    /// Runs until `end`, checking after every event. Returns the longest time without a leader.
    fn run(&mut self, end: Duration) -> Duration {
        let (mut longest, mut since) = (Duration::ZERO, self.now);
        while let Some(entry) = self.events.first_entry() {
            if entry.key().0 > end {
                break;
            }
            let ((now, _), event) = entry.remove_entry();
            self.now = now;
            self.happen(event);
            let leaders = self.leaders();
            assert!(leaders.len() <= 1, "{leaders:?} lead at {now:?}");
            if leaders.is_empty() {
                longest = longest.max(now - since);
            } else {
                since = now;
            }
        }
        self.now = end;
        longest.max(if self.leaders().is_empty() { end - since } else { Duration::ZERO })
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrives { who, slot, request, answer_after } => {
                let input = self.serve(request);
                if let Some(delay) = answer_after {
                    self.at(self.now + delay, Event::Reaches { who, slot: Some(slot), input });
                }
            }
            Event::Freezes { who, time } => self.contenders[who].frozen_until = self.now + time,
            Event::Cuts { who, time } => self.contenders[who].cut_until = self.now + time,
            Event::Reaches { who, slot, input } => {
                let contender = &mut self.contenders[who];
                if self.now < contender.frozen_until {
                    let later = contender.frozen_until;
                    return self.at(later, Event::Reaches { who, slot, input });
                }
                if slot.is_none_or(|slot| slot == contender.slot) {
                    let local = contender.local(self.now);
                    contender.election.input(input, local, &mut self.rng);
                    self.drive(who);
                }
            }
            Event::Wakes { who, timer } if timer == self.contenders[who].timer => {
                let later = self.contenders[who].frozen_until;
                if self.now < later {
                    return self.wake(who, later);
                }
                self.drive(who);
            }
            Event::Wakes { .. } => {}
        }
    }

    /// What the driver does: polls until there is nothing to do.
    fn drive(&mut self, who: usize) {
        if self.now < self.contenders[who].winding_up_until {
            return;
        }
        for _ in 0..10 {
            let contender = &mut self.contenders[who];
            let local = contender.local(self.now);
            match contender.election.poll(local, &mut self.rng) {
                Action::Read { .. } => self.request(who, Request::Read),
                Action::TryAcquire { write, .. } | Action::Renew { write, .. } | Action::Release { write, .. } => {
                    self.request(who, Request::Write(write));
                }
                Action::Lead => contender.terms += 1,
                Action::StepDown(_) => {
                    let work = if self.world.rough { self.up_to(secs(2)) } else { Duration::ZERO };
                    let end = self.now + work;
                    self.contenders[who].winding_up_until = end;
                    return self.wake(who, end);
                }
                Action::WaitUntil(instant) => {
                    let instant = contender.global(instant);
                    return self.wake(who, instant.max(self.now));
                }
                Action::Stop => {
                    // Replaced by another pod.
                    self.contenders[who] = self.contender();
                    let start = self.now + self.up_to(secs(3));
                    return self.wake(who, start);
                }
            }
        }
        panic!("the machine of {who} spins at {:?}", self.now);
    }

    fn request(&mut self, who: usize, request: Request) {
        // Unique, so that no answer reaches the process that replaced the one that asked.
        self.sequence += 1;
        let slot = self.sequence;
        self.contenders[who].slot = slot;
        let (there, back) = (self.up_to(millis(100)), self.up_to(millis(100)));
        if self.now < self.contenders[who].cut_until {
            return;
        }
        let faulty = !self.calm() && self.rng.random_bool(self.world.faulty);
        let fault = if faulty { self.rng.random_range(0..5) } else { 9 };
        let long = self.up_to(secs(30));
        let (there, answer_after) = match fault {
            // Never arrives; arrives and the answer is lost; arrives late; answered late; refused.
            0 => return,
            1 => (there, None),
            2 => (long, Some(back)),
            3 => (there, Some(long)),
            4 => {
                let input = if matches!(request, Request::Read) { Input::ReadFailed } else { Input::WriteFailed };
                return self.at(self.now + there, Event::Reaches { who, slot: Some(slot), input });
            }
            _ => (there, Some(back)),
        };
        self.at(self.now + there, Event::Arrives { who, slot, request, answer_after });
    }

    /// The store: compares the guard, as the API server does.
    fn serve(&mut self, request: Request) -> Input {
        let write = match request {
            Request::Read => return self.lease.clone().map_or(Input::Absent, Input::Found),
            Request::Write(write) => write,
        };
        if write.guard != self.lease.as_ref().map(|lease| lease.guard.clone()) {
            return Input::Conflict;
        }
        self.version += 1;
        let record = stored(&write, self.version);
        self.lease = Some(record.clone());
        for who in 0..self.contenders.len() {
            let deaf =
                self.now < self.contenders[who].cut_until || (!self.calm() && self.rng.random_bool(self.world.deaf));
            if !deaf {
                let delay = self.up_to(millis(300));
                self.at(self.now + delay, Event::Reaches { who, slot: None, input: Input::Watched(record.clone()) });
            }
        }
        Input::Stored(record)
    }
}

const CALM: World = World { contenders: 3, faulty: 0.0, deaf: 0.0, rough: false, calm_from: Duration::ZERO };

#[test]
fn never_two_leaders_and_one_soon_after_the_faults() {
    let mut terms = 0;
    for seed in 0..1_500 {
        let contenders = 2 + usize::try_from(seed % 2).unwrap();
        let faulty = [0.05, 0.2, 0.5][usize::try_from(seed % 3).unwrap()];
        let world = World { contenders, faulty, deaf: 0.2, rough: true, calm_from: secs(300) };
        let mut simulation = Simulation::new(world, seed);
        simulation.run(secs(300));
        terms += simulation.contenders.iter().map(|contender| contender.terms).sum::<u32>();
        // The worst wait: a frozen or hung holder's request (25 s), a pause, and its lease.
        simulation.run(secs(345));
        assert_eq!(simulation.leaders().len(), 1, "seed {seed}: nobody leads 45 s after the last fault");
        assert_eq!(simulation.run(secs(400)), Duration::ZERO, "seed {seed}: it stays so");
    }
    assert!(terms > 3_000, "{terms} terms are too few to have tested anything");
}

#[test]
fn in_calm_the_first_leader_stays() {
    for seed in 0..50 {
        let mut simulation = Simulation::new(CALM, seed);
        simulation.run(secs(10));
        let leader = simulation.leaders();
        assert_eq!(simulation.run(secs(3_600)), Duration::ZERO);
        assert_eq!(simulation.leaders(), leader, "seed {seed}");
        assert_eq!(simulation.contenders.iter().map(|contender| contender.terms).sum::<u32>(), 1);
    }
}

#[test]
fn c46_a_cut_leader_is_replaced_within_lease_plus_5_s_and_can_win_again() {
    for seed in 0..100 {
        let mut simulation = Simulation::new(CALM, seed);
        simulation.run(secs(20));
        let mut winners = [0_u32; 3];
        for round in 0..30 {
            let who = simulation.leaders()[0];
            winners[who] += 1;
            simulation.at(simulation.now, Event::Cuts { who, time: secs(20) });
            let begun = simulation.now;
            simulation.run(begun + secs(20));
            let leaders = simulation.leaders();
            assert!(leaders.len() == 1 && leaders[0] != who, "seed {seed}, round {round}: {leaders:?} after {who}");
            simulation.run(begun + secs(60));
        }
        assert!(winners.iter().all(|wins| *wins > 0), "seed {seed}: {winners:?}");
    }
}

#[test]
fn a_graceful_stop_is_followed_by_another_leader_within_2_s() {
    for seed in 0..100 {
        let mut simulation = Simulation::new(CALM, seed);
        simulation.run(secs(20));
        let who = simulation.leaders()[0];
        simulation.at(simulation.now, Event::Reaches { who, slot: None, input: Input::Shutdown });
        let gap = simulation.run(secs(40));
        assert!(gap <= secs(2), "seed {seed}: {gap:?}");
        assert_eq!(simulation.leaders().len(), 1);
    }
}

#[test]
fn c49_a_frozen_leader_wakes_up_as_a_standby() {
    for seed in 0..100 {
        let mut simulation = Simulation::new(CALM, seed);
        simulation.run(secs(20));
        let who = simulation.leaders()[0];
        simulation.at(simulation.now, Event::Freezes { who, time: secs(60) });
        simulation.run(secs(40));
        let next = simulation.leaders();
        assert!(next.len() == 1 && next[0] != who, "seed {seed}: {next:?} after {who}");
        simulation.run(secs(120));
        assert_eq!(simulation.leaders(), next, "seed {seed}");
    }
}
