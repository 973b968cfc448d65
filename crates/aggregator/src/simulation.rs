//! One executor, its replicas and a patient API server in virtual time: what is written, when and why. For tests only.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::{ExecutorKind, ExecutorStatus, Reason, Serves};
use serde::Deserialize;

use crate::decide::{Memory, Plan};
use crate::facts::{Executor, Life, Outcome, Owner, Pod, Report, Version};
use crate::fold::{self, FoldInput, Folded, Health, Replica, fold};

/// Something that happens.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// The spec is edited: the generation moves on.
    Edit,
    /// A replica reports on the current generation; empty is success, a leading `!` a permanent failure.
    Report(usize, String),
    /// All replicas report alike, one every so many milliseconds.
    ReportAll(u64, String),
    /// A replica falls silent.
    Silent(usize),
    /// A replica answers again.
    Serving(usize),
    /// A pod is gone.
    Gone(usize),
    /// A pod appears.
    Appears(usize),
    /// Another manager overwrites the status.
    Rewrite,
    /// A person writes a label: the version moves, the status stays.
    Label,
    /// From here on the watch shows no newer version of the executor for so many milliseconds.
    DelayWatch(u64),
    /// The next write conflicts, because somebody wrote a label a moment before.
    Race,
    /// A report about a generation that the executor never had.
    Forge(usize),
}

/// The world.
pub struct Simulation {
    now: Duration,
    pods: Vec<(Pod, Health)>,
    reports: Vec<Report>,
    /// The executor as the API server holds it.
    live: Executor,
    /// The executor as the watch has shown it.
    cached: Executor,
    watch_silent_until: Duration,
    race: bool,
    memory: Memory,
    /// What was written: when, why, and what the status says.
    pub writes: Vec<String>,
    /// How long each generation took until every replica had a verdict on it.
    pub rolls: Vec<Duration>,
    /// How many writes were refused because the version was old.
    pub conflicts: u32,
    /// How often the executor was read.
    pub reads: u32,
    /// How often somebody else's writing was said.
    pub contests: u32,
}

impl Simulation {
    /// Replicas that have reported success on generation 1, which is written.
    pub fn settled(replicas: usize) -> Self {
        let mut world = Self::fresh(replicas);
        for pod in 0..replicas {
            world.happen(&Event::Report(pod, String::new()));
        }
        let status = world.folded().status;
        world.live.status = Some(status);
        world.cached = world.live.clone();
        world.memory = Memory::new(&world.cached);
        world
    }

    /// Replicas that have not reported on a new executor.
    pub fn fresh(replicas: usize) -> Self {
        let live = Executor {
            kind: ExecutorKind::Executor,
            namespace: "".into(),
            name: "base".into(),
            uid: "exec".into(),
            version: Version::new("1"),
            generation: 1,
            deleting: false,
            status: None,
        };
        Self {
            now: Duration::ZERO,
            pods: (0..replicas).map(|index| (pod(index), Health::Serving)).collect(),
            reports: Vec::new(),
            cached: live.clone(),
            memory: Memory::new(&live),
            live,
            watch_silent_until: Duration::ZERO,
            race: false,
            writes: Vec::new(),
            rolls: Vec::new(),
            conflicts: 0,
            reads: 0,
            contests: 0,
        }
    }

    /// Lets the events happen at their times, in seconds, and goes on until `until`.
    pub fn run(&mut self, events: &[(f64, Event)], until: f64) {
        let mut events: Vec<(Duration, Event)> = events
            .iter()
            .flat_map(|(at, event)| spread(Duration::from_secs_f64(*at), event, self.pods.len()))
            .collect();
        events.sort_by_key(|(at, _)| *at);
        let until = Duration::from_secs_f64(until);
        let mut events = events.into_iter().peekable();
        while self.now <= until {
            while let Some((_, event)) = events.next_if(|(at, _)| *at <= self.now) {
                self.happen(&event);
            }
            let wake = self.act();
            let next = [wake, events.peek().map(|(at, _)| *at), self.watch_opens()].into_iter().flatten().min();
            match next {
                Some(next) => self.now = next.max(self.now + Duration::from_millis(1)),
                None => return,
            }
        }
    }

    /// The status as the API server holds it, and as it should be.
    pub fn is_right(&self) -> bool {
        let input_generation = self.live.generation;
        self.live.status.as_deref().is_some_and(|status| {
            let folded = self.fold(input_generation, Some(status));
            &*folded.status == status
        })
    }

    /// Decides and acts until there is nothing to do now; says when there will be.
    fn act(&mut self) -> Option<Duration> {
        loop {
            self.watch();
            let folded = self.folded();
            let plan = self.memory.decide(&self.cached, &folded, self.now);
            assert_eq!(plan, self.memory.decide(&self.cached, &folded, self.now), "asked twice");
            match plan {
                Plan::Nothing => return None,
                Plan::WriteAt(at) | Plan::AwaitNewer(at) => return Some(at),
                Plan::Read => {
                    self.reads += 1;
                    self.cached = self.live.clone();
                    self.memory.confirmed(self.live.version.clone());
                    if self.memory.is_unnamed() {
                        self.contests += 1;
                        self.memory.foreign();
                    }
                }
                Plan::Write(occasion) => {
                    if std::mem::take(&mut self.race) {
                        self.bump();
                    }
                    if self.cached.version != self.live.version {
                        self.conflicts += 1;
                        self.memory.conflicted(self.cached.version.clone(), self.now);
                        continue;
                    }
                    self.bump();
                    self.live.status = Some(folded.status.clone());
                    // The answer of a write is newer than anything the watch has shown.
                    self.cached = self.live.clone();
                    self.rolls.extend(self.memory.written(&self.cached, occasion, &folded, self.now));
                    let summary = folded.status.replicas.as_ref().map_or("", |replicas| &replicas.summary);
                    let at = self.now.as_millis() as f64 / 1_000.0;
                    let line = format!("{at} {occasion:?} {summary}");
                    self.writes.push(line);
                }
            }
        }
    }

    fn watch(&mut self) {
        if self.now >= self.watch_silent_until && self.cached.version != self.live.version {
            self.cached = self.live.clone();
            self.memory.seen(&self.cached, self.now);
        }
    }

    fn watch_opens(&self) -> Option<Duration> {
        (self.watch_silent_until > self.now).then_some(self.watch_silent_until)
    }

    fn bump(&mut self) {
        let version: u64 = self.live.version.as_str().parse().unwrap();
        self.live.version = Version::new(&(version + 1).to_string());
    }

    fn folded(&self) -> Folded {
        self.fold(self.cached.generation, self.cached.status.as_deref())
    }

    fn fold(&self, generation: i64, previous: Option<&ExecutorStatus>) -> Folded {
        let replicas: Vec<Replica<'_>> =
            self.pods.iter().map(|(pod, health)| Replica { pod, health: *health }).collect();
        let base: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        fold(&FoldInput {
            executor_uid: "exec",
            generation,
            replicas: &replicas,
            reports: &self.reports.iter().collect::<Vec<_>>(),
            previous,
            now: base + self.now,
            by_pod_max_bytes: fold::BY_POD_BYTES,
        })
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::Edit => {
                self.bump();
                self.live.generation += 1;
            }
            Event::Report(pod, text) => self.report(*pod, self.live.generation, text),
            Event::Forge(pod) => self.report(*pod, 99, ""),
            Event::ReportAll(..) => unreachable!("spread before"),
            Event::Silent(pod) => self.pods[*pod].1 = Health::Silent,
            Event::Serving(pod) => self.pods[*pod].1 = Health::Serving,
            Event::Gone(pod) => self.pods[*pod].0.life = Life::Over,
            Event::Appears(index) => self.pods.push((self::pod(*index), Health::Serving)),
            Event::Rewrite => {
                self.bump();
                self.live.status = Some(Arc::new(ExecutorStatus::default()));
            }
            Event::Label => self.bump(),
            Event::DelayWatch(millis) => self.watch_silent_until = self.now + Duration::from_millis(*millis),
            Event::Race => self.race = true,
        }
    }

    fn report(&mut self, index: usize, generation: i64, text: &str) {
        let error = text.trim_start_matches('!');
        let reason = match text.chars().next() {
            None => Reason::Built,
            Some('!') => Reason::InvalidSpec,
            Some(_) => Reason::Unreachable,
        };
        let report = Report {
            name: format!("report-{index}").into(),
            uid: format!("report-{index}-uid").into(),
            version: Version::new("1"),
            executor: crate::facts::named("base"),
            executor_uid: "exec".into(),
            pod_name: pod(index).name,
            pod_uid: pod(index).uid,
            owner: Owner::ItsPod,
            outcome: Some(Outcome {
                generation,
                succeeded: text.is_empty(),
                serves: if text.is_empty() { Serves::Wanted } else { Serves::Nothing },
                reason,
                error: error.into(),
                trust_expires_at: None,
                warnings: Arc::from([]),
            }),
        };
        self.reports.retain(|held| held.name != report.name);
        self.reports.push(report);
    }
}

fn pod(index: usize) -> Pod {
    let name = format!("pod-{index:04}");
    Pod {
        uid: format!("{name}-uid").into(),
        name: name.into(),
        life: Life::Expected,
        ip: None,
        health_port: Some(8086),
    }
}

fn spread(at: Duration, event: &Event, replicas: usize) -> Vec<(Duration, Event)> {
    let Event::ReportAll(millis, text) = event else { return vec![(at, event.clone())] };
    (0..replicas)
        .map(|pod| {
            (at + Duration::from_millis(*millis) * u32::try_from(pod).unwrap(), Event::Report(pod, text.clone()))
        })
        .collect()
}
