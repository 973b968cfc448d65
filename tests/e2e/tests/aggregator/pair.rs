//! Two aggregators that both write: the loser of each race reads again, and what stands in the end is right.

use std::time::Duration;

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use muster_lab::installation::Settings;
use muster_lab::wait;

use crate::cast::Actor;
use crate::stage::{Stage, conflicts, status_writes};

const EXECUTORS: usize = 50;
const REPLICAS: usize = 10;
const EDITS: i32 = 20;

#[tokio::test]
async fn two_aggregators_at_once_agree_with_the_oracle() -> Result<()> {
    let args = ["--leader-elect=false", "--watch-health=false"].map(str::to_owned);
    let stage = Stage::start(Settings {
        reconcilers: 0,
        aggregators: 2,
        aggregator_args: args.to_vec(),
        ..Settings::default()
    })
    .await?;
    let names: Vec<String> = (0..REPLICAS).map(|number| format!("r{number}")).collect();
    let actors = stage.cast(&names.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    stage.installation.ready().await?;
    let (audit, mark) = (stage.audit(), stage.audit().mark()?);
    let executors: Vec<String> = (0..EXECUTORS).map(|number| format!("e{number}")).collect();
    stream::iter(&executors)
        .map(|name| play(&stage, &actors, name))
        .buffer_unordered(8)
        .try_collect::<Vec<()>>()
        .await?;
    for name in &executors {
        wait::within(wait::scaled(Duration::from_mins(1)), format!("the status of {name} to be right"), || {
            stage.is_right(name)
        })
        .await?;
    }
    let (lost, written) = (conflicts(&audit, mark)?, status_writes(&audit, mark)?);
    ensure!(lost >= 1, "no write ever lost: the two did not race");
    let bound = 2 * 3 * EXECUTORS * usize::try_from(EDITS + 1)?;
    ensure!(written <= bound, "{written} writes, at most {bound}");
    stage.stop().await;
    Ok(())
}

/// Edits an executor again and again, and lets every replica report on each generation: most succeed, some fail.
async fn play(stage: &Stage, actors: &[Actor], name: &str) -> Result<()> {
    stage.create(name).await?;
    for edit in 1..=EDITS {
        let executor = stage.edit(name, edit).await?;
        let generation = executor.metadata.generation.unwrap_or_default();
        for (number, actor) in actors.iter().enumerate() {
            let error = match (number + usize::try_from(edit)?) % 7 {
                0 => "kv: no answer",
                1 => "kv: 403",
                _ => "",
            };
            actor.report(&executor, generation, error).await?;
        }
    }
    Ok(())
}
