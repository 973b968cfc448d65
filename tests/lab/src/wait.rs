//! Waiting for a condition with a deadline; when it passes, the failure says what was last seen.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep, timeout_at};

/// Between two looks at first; it doubles up to [`SLOWEST`], so that quick things are seen quickly and slow ones cheaply.
const QUICKEST: Duration = Duration::from_millis(20);
const SLOWEST: Duration = Duration::from_millis(250);
/// Default deadline on a machine of one's own.
const PATIENCE: Duration = Duration::from_secs(30);
/// Shared machines stall; `CI` is set on most of them.
const CI_FACTOR: u32 = 3;

/// The default deadline: 30 s, three times as long where `CI` is set.
pub fn patience() -> Duration {
    scaled(PATIENCE)
}

/// `duration`, three times as long where `CI` is set. For deadlines only, never for what is measured.
pub fn scaled(duration: Duration) -> Duration {
    if std::env::var_os("CI").is_some() { duration * CI_FACTOR } else { duration }
}

/// Whether this is a long run (`cargo xtask test --long`): tests that watch something stay quiet then watch longer.
pub fn long() -> bool {
    std::env::var_os("MUSTER_LONG").is_some()
}

/// Looks until `look` succeeds, for at most [`patience`]. The error of a look says what was seen instead, for instance by
/// `ensure!(ready == 3, "{ready} of 3 ready")`; an API call that fails is such a look too.
pub async fn until<T, E, F, Fut>(what: impl Display, look: F) -> Result<T>
where
    E: Display,
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    within(patience(), what, look).await
}

/// The same with another deadline. A look that hangs is cut off by it too.
pub async fn within<T, E, F, Fut>(limit: Duration, what: impl Display, mut look: F) -> Result<T>
where
    E: Display,
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    let deadline = Instant::now() + limit;
    let mut pause = QUICKEST;
    let mut seen = String::from("nothing: the first look did not return");
    loop {
        match timeout_at(deadline, look()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(instead)) => seen = format!("{instead:#}"),
            Err(_) => bail!("waited {limit:?} for {what}; the last look did not return, the one before saw: {seen}"),
        }
        if Instant::now() + pause >= deadline {
            bail!("waited {limit:?} for {what}; last seen: {seen}");
        }
        sleep(pause).await;
        pause = (pause * 2).min(SLOWEST);
    }
}

#[cfg(test)]
mod tests {
    use anyhow::ensure;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_condition_is_seen_soon_after_it_holds() {
        let start = Instant::now();
        let holds = || async { if start.elapsed() > Duration::from_secs(5) { Ok(7) } else { Err("not yet") } };
        assert_eq!(until("seven", holds).await.unwrap(), 7);
        assert!(start.elapsed() <= Duration::from_secs(5) + SLOWEST, "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn the_failure_says_what_was_last_seen() {
        let mut looks = 0;
        let error = within(Duration::from_secs(1), "3 pods", || {
            looks += 1;
            let seen = looks.min(2);
            async move {
                ensure!(seen == 3, "{seen} of 3 ready");
                Ok(())
            }
        });
        assert_eq!(error.await.unwrap_err().to_string(), "waited 1s for 3 pods; last seen: 2 of 3 ready");
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_hangs_is_cut_off() {
        let hang = || std::future::pending::<Result<(), String>>();
        let error = within(Duration::from_secs(1), "an answer", hang).await.unwrap_err().to_string();
        assert!(error.contains("did not return"), "{error}");
    }
}
