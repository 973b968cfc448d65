//! What probes answer in which situation, and why. `docs/liveness.md` shows this table; each row is held against real
//! processes by the tests it names.

use std::fmt::{self, Display, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use muster_lab::admin::page;
use muster_lab::installation::deploy;
use muster_lab::kubelet::PodView;
use muster_lab::wait;

use crate::probe::Service;
use crate::stage::Stage;

/// An answer to a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Serving,
    NotServing,
    /// None: the process does not run.
    Silent,
    /// Cannot happen to this kind of process.
    Never,
}

use Answer::{Never, NotServing, Serving, Silent};

/// A situation.
pub(crate) struct Row {
    situation: &'static str,
    liveness: Answer,
    /// Readiness of a replica.
    replica: Answer,
    /// Readiness of an aggregator.
    aggregator: Answer,
    why: &'static str,
    tests: &'static [&'static str],
}

pub(crate) const FIRST_LIST: Row = Row {
    situation: "Started; a first list is not complete: it is long, refused, or the API server is away",
    liveness: Serving,
    replica: NotServing,
    aggregator: NotServing,
    why: "It knows nothing yet; a restart would begin from nothing again.",
    tests: &[
        "c41_the_api_server_may_be_away_at_start",
        "c52_a_first_list_that_takes_longer_than_the_probes_allow_is_left_alone",
        "c56_not_synced_is_not_dead",
    ],
};

pub(crate) const FIRST_VERDICT: Row = Row {
    situation: "In sync; an executor that was there at start has had no verdict, for less than `--start-grace`",
    liveness: Serving,
    replica: NotServing,
    aggregator: Never,
    why: "A lookup would find nothing where another replica finds something; also after a restart in place.",
    tests: &["after_a_restart_in_place_a_replica_is_not_ready_until_its_first_verdict"],
};

pub(crate) const QUIET: Row = Row {
    situation: "Nothing to do, or nothing before the next hour",
    liveness: Serving,
    replica: Serving,
    aggregator: Serving,
    why: "A loop can only stall on work that is due.",
    tests: &["c43_objects_due_in_an_hour_are_no_stall_and_a_corrected_one_acts_at_once"],
};

pub(crate) const STANDBY: Row = Row {
    situation: "Standing by while another aggregator leads",
    liveness: Serving,
    replica: Never,
    aggregator: Serving,
    why: "Only the Lease is its work, and a rollout must not wait for a leader to die. The gauge `muster_leader` tells who leads.",
    tests: &["c42_standbys_are_alive_and_ready_and_say_who_they_are"],
};

pub(crate) const UPSTREAM: Row = Row {
    situation: "An upstream refuses (429), or is away",
    liveness: Serving,
    replica: Serving,
    aggregator: Never,
    why: "Waiting at a gate is a verdict, and what was built before goes on serving; a restart would only ask once more.",
    tests: &["c56_rate_limited_is_neither_dead_nor_unready"],
};

pub(crate) const OUTAGE: Row = Row {
    situation: "The API server is gone, after the first sync; for more than 30 s",
    liveness: Serving,
    replica: Serving,
    aggregator: NotServing,
    why: "A replica answers from what it has; an aggregator can neither read nor write.",
    tests: &["an_outage_of_the_api_server_restarts_nobody_and_is_over_within_ten_seconds"],
};

pub(crate) const NO_RIGHT: Row = Row {
    situation: "No right to the Lease",
    liveness: Serving,
    replica: Never,
    aggregator: NotServing,
    why: "It will never lead until somebody grants the right, which readiness names.",
    tests: &["c50_without_the_right_to_the_lease_nothing_is_written_and_readiness_names_the_right"],
};

pub(crate) const LEASE_BLOCKED: Row = Row {
    situation: "Cut off from the Lease alone, for more than `--renew-deadline`",
    liveness: Serving,
    replica: Never,
    aggregator: NotServing,
    why: "It has stepped down and contends again by itself as soon as it can.",
    tests: &["c48_a_leader_cut_off_from_the_lease_alone_steps_down_and_another_leads"],
};

pub(crate) const STEPPED_CLOCK: Row = Row {
    situation: "The wall clock is stepped by ten minutes, either way",
    liveness: Serving,
    replica: Serving,
    aggregator: Serving,
    why: "Whatever waits or expires is measured on the monotonic clock.",
    tests: &["c54_a_wall_clock_that_steps_by_ten_minutes_changes_nothing"],
};

pub(crate) const HUNG: Row = Row {
    situation: "One loop owes something for longer than `--stall-threshold`, all others live",
    liveness: NotServing,
    replica: NotServing,
    aggregator: NotServing,
    why: "Nothing but a restart helps; `/healthz` names the loop, what is owed and since when.",
    tests: &["each_loop_of_a_replica_that_hangs_is_named", "each_loop_of_an_aggregator_that_hangs_is_named"],
};

pub(crate) const ENDED: Row = Row {
    situation: "A task that must run has ended or panicked",
    liveness: NotServing,
    replica: NotServing,
    aggregator: NotServing,
    why: "The process ends by itself with the reason; should it not get there, the probe sees to it.",
    tests: &[
        "c33_a_task_that_ended_fails_liveness_for_good",
        "c33_a_task_that_panics_ends_the_process_with_its_reason",
    ],
};

pub(crate) const DRAINING: Row = Row {
    situation: "Told to end, work on its way is finished, for at most `--grace-period`",
    liveness: Serving,
    replica: NotServing,
    aggregator: NotServing,
    why: "It takes nothing new, and must not be killed in the middle of a write.",
    tests: &["readiness_goes_first_then_work_is_drained_and_a_second_signal_aborts"],
};

pub(crate) const FROZEN: Row = Row {
    situation: "Frozen, or its runtime is stuck",
    liveness: Silent,
    replica: Silent,
    aggregator: Silent,
    why: "No answer is a failure to the kubelet, which restarts it.",
    tests: &["a_frozen_leader_is_replaced_and_writes_nothing_when_it_wakes"],
};

const ROWS: [&Row; 13] = [
    &FIRST_LIST,
    &FIRST_VERDICT,
    &QUIET,
    &STANDBY,
    &UPSTREAM,
    &OUTAGE,
    &NO_RIGHT,
    &LEASE_BLOCKED,
    &STEPPED_CLOCK,
    &HUNG,
    &ENDED,
    &DRAINING,
    &FROZEN,
];

impl Row {
    /// Fails unless every one of these pods comes to answer as this row says.
    pub(crate) async fn holds_of(&self, pods: &[PodView]) -> Result<()> {
        for pod in pods {
            let is_replica = pod.name.contains("-reconciler-");
            let readiness = if is_replica { self.replica } else { self.aggregator };
            ensure!(readiness != Never, "{}: {:?} is not about {}", self.situation, Service::Readiness, pod.name);
            let what = format!("{:?} of {}", self.situation, pod.name);
            wait::within(wait::scaled(Duration::from_secs(10)), what, || async {
                for (service, expected) in [(Service::Liveness, self.liveness), (Service::Readiness, readiness)] {
                    let answer = match service.ask(pod).await {
                        Ok(true) => Serving,
                        Ok(false) => NotServing,
                        Err(_) => Silent,
                    };
                    if answer != expected {
                        let (_, checks) = page(pod, "/readyz?verbose").await.unwrap_or_default();
                        anyhow::bail!("{service:?} is {answer:?}, not {expected:?}\n{checks}");
                    }
                }
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    /// The same of all pods.
    pub(crate) async fn holds(&self, stage: &Stage) -> Result<()> {
        self.holds_of(&stage.pods()).await
    }
}

impl Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Serving => "SERVING",
            NotServing => "NOT_SERVING",
            Silent => "no answer",
            Never => "–",
        })
    }
}

const BEGIN: &str = "<!-- matrix: begin -->\n";
const END: &str = "<!-- matrix: end -->";

fn table() -> Result<String> {
    let mut table = String::from(
        "| Situation | Liveness | Replica ready | Aggregator ready | Why | Shown by |\n|---|---|---|---|---|---|\n",
    );
    for row in ROWS {
        let Row { situation, liveness, replica, aggregator, why, tests } = row;
        let tests = tests.iter().map(|test| format!("`{test}`")).collect::<Vec<_>>().join(", ");
        writeln!(table, "| {situation} | {liveness} | {replica} | {aggregator} | {why} | {tests} |")?;
    }
    Ok(table)
}

/// Every Rust source below a folder, as one text.
fn sources(folder: &Path, text: &mut String) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, text)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

#[test]
fn the_documented_matrix_is_the_one_that_is_tested() -> Result<()> {
    let page = std::fs::read_to_string(deploy("../docs/liveness.md")).context("docs/liveness.md")?;
    let (_, rest) = page.split_once(BEGIN).context("no beginning of the matrix in docs/liveness.md")?;
    let (shown, _) = rest.split_once(END).context("no end of the matrix in docs/liveness.md")?;
    let table = table()?;
    assert_eq!(shown, table, "docs/liveness.md should show this:\n{table}");

    let mut code = String::new();
    for folder in ["../crates/runtime/src", "../tests/e2e/tests/liveness"] {
        sources(&deploy(folder), &mut code)?;
    }
    for test in ROWS.iter().flat_map(|row| row.tests) {
        assert!(code.contains(&format!("fn {test}(")), "there is no test {test}");
    }
    Ok(())
}
