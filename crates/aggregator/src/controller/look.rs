//! Looking at executors that are due: fold, decide, and start what was decided.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::work::{Order, What};
use super::{BATCH, CENSUS, Controller};
use crate::decide::Plan;
use crate::fold::{FoldInput, Folded, Health, Replica, fold};
use crate::index::Touched;
use crate::{facts, sweep};

/// An executor that was looked at.
struct Look {
    uid: Arc<str>,
    folded: Folded,
    plan: Plan,
}

impl Controller {
    /// Does what is due now.
    pub(super) async fn work(&mut self) {
        if !self.leading || !self.index.is_synced() {
            self.owed = None;
            return;
        }
        let now = self.parts.clock.now();
        self.judge(now);
        self.sweep(now);
        let due = self.take_due(now);
        if !due.is_empty() {
            let owed = self.owed.take().unwrap_or_else(|| self.parts.beat.due_at("executors to fold", now));
            let running = owed.start().await;
            for look in self.look(due, now) {
                self.carry_out(look, now);
            }
            running.complete();
            self.uncounted = true;
        }
        self.count(now);
        self.owe();
    }

    /// Judges the replicas anew; where the judgement of any of them changed, everything is looked at.
    fn judge(&mut self, now: Duration) {
        if !self.unjudged && self.call.next_change.is_none_or(|at| at > now) {
            return;
        }
        self.unjudged = false;
        let call = self.roster.call(now);
        let changed = call.health != self.call.health;
        self.call = call;
        if changed && self.parts.watch_health {
            self.touch(Touched::All, now);
        }
    }

    fn take_due(&mut self, now: Duration) -> Vec<Arc<str>> {
        let mut due = Vec::new();
        while due.len() < BATCH
            && let Some((at, _)) = self.wakes.first()
            && *at <= now
            && let Some((_, uid)) = self.wakes.pop_first()
        {
            if let Some(object) = self.objects.get_mut(&uid) {
                object.wake = None;
                // The end of what is under way wakes it again.
                if !object.busy {
                    due.push(uid);
                }
            }
        }
        due
    }

    fn look(&mut self, due: Vec<Arc<str>>, now: Duration) -> Vec<Look> {
        let wall = self.parts.clock.wall();
        let replicas: Vec<Replica<'_>> =
            self.index.pods().map(|pod| Replica { pod, health: self.health_of(&pod.uid) }).collect();
        let mut looks = Vec::with_capacity(due.len());
        for uid in due {
            let (Some(executor), Some(object)) = (self.index.executor(&uid), self.objects.get_mut(&uid)) else {
                continue;
            };
            let begun = self.parts.clock.now();
            let reports: Vec<&facts::Report> = self.index.reports(&uid).collect();
            let folded = fold(&FoldInput {
                executor_uid: &uid,
                generation: executor.generation,
                replicas: &replicas,
                reports: &reports,
                previous: executor.status.as_deref(),
                now: wall,
                by_pod_max_bytes: self.parts.by_pod_max_bytes,
            });
            self.parts.metrics.folded(self.parts.clock.now().saturating_sub(begun));
            let plan = object.memory.decide(executor, &folded, now);
            looks.push(Look { uid, folded, plan });
        }
        looks
    }

    fn health_of(&self, pod_uid: &str) -> Health {
        if !self.parts.watch_health {
            return Health::Serving;
        }
        self.call.health.get(pod_uid).copied().unwrap_or(Health::Unheard)
    }

    fn carry_out(&mut self, look: Look, now: Duration) {
        let Look { uid, folded, plan } = look;
        let Some(executor) = self.index.executor(&uid) else { return };
        // Time alone changes a status when trust material expires.
        let again = folded.look_again.map(|at| now + until(self.parts.clock.wall(), at));
        match plan {
            Plan::Nothing => {
                self.parts.metrics.saved(executor.kind);
                self.unwritten(&uid, None);
            }
            Plan::WriteAt(at) | Plan::AwaitNewer(at) => self.wake(&uid, at),
            Plan::Read => self.start(Order { executor: executor.clone(), what: What::Read }),
            Plan::Write(occasion) => {
                self.start(Order { executor: executor.clone(), what: What::Write { occasion, folded } });
            }
        }
        if let Some(again) = again {
            self.wake(&uid, again);
        }
    }

    pub(super) fn start(&mut self, order: Order) {
        if let Some(object) = self.objects.get_mut(&order.executor.uid) {
            object.busy = true;
        }
        let worker = self.parts.worker.clone();
        self.running.spawn(async move { worker.carry_out(order).await });
    }

    /// Leftovers are looked for at start, some time after pods or executors change, and on a timer.
    fn sweep(&mut self, now: Duration) {
        if self.sweep_at > now {
            return;
        }
        self.sweep_at = now + self.parts.sweep_interval;
        let candidates = sweep::candidates(&self.index);
        // A sweep that is still going on will not miss what another one finds.
        let _ = self.parts.leftovers.try_send(candidates);
    }

    fn count(&mut self, now: Duration) {
        self.parts.metrics.waiting(self.wakes.len());
        if !self.uncounted || self.census_at > now {
            return;
        }
        self.uncounted = false;
        self.census_at = now + CENSUS;
        let statuses = self.index.executors().filter_map(|executor| executor.status.as_deref());
        let replicas = self.index.pods().map(|pod| (pod.life, self.health_of(&pod.uid)));
        self.parts.metrics.census(statuses, replicas);
    }

    /// What the loop owes is the next look, at its time: nothing, if nothing waits.
    fn owe(&mut self) {
        self.owed = match (self.wakes.first(), self.owed.take()) {
            (None, _) => None,
            (Some((at, _)), None) => Some(self.parts.beat.due_at("executors to fold", *at)),
            (Some((at, _)), Some(owed)) => {
                owed.reschedule(*at);
                Some(owed)
            }
        };
    }
}

/// From one wall time to a later one; zero if it is past. Whole seconds are rounded up, so that the look comes after.
fn until(wall: Timestamp, at: Timestamp) -> Duration {
    let seconds = at.as_second().saturating_sub(wall.as_second()).saturating_add(1);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).min(Duration::from_hours(24))
}
