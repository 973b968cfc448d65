//! Faults injected on purpose, so that tests can hang or slow one loop while all others live. Without the Cargo feature
//! `fault` there is no way to make one and [`Faults::act`] does nothing; shipped images are built without it.

use muster_core::heartbeat::LoopId;

#[cfg(feature = "fault")]
use muster_core::go_duration::GoDuration;

/// What happens to which loop.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    #[cfg(feature = "fault")]
    hang: std::sync::Arc<[String]>,
    #[cfg(feature = "fault")]
    delay: std::sync::Arc<[Delay]>,
}

/// `--hang` and `--delay`; no flags at all without the feature `fault`.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Faults (test builds only)")]
pub struct FaultArgs {
    /// Hang this loop for ever, at its next run; may be repeated
    #[cfg(feature = "fault")]
    #[arg(long, env = "MUSTER_HANG", value_name = "LOOP", value_delimiter = ',')]
    pub hang: Vec<String>,
    /// Delay each run of this loop; may be repeated
    #[cfg(feature = "fault")]
    #[arg(long, env = "MUSTER_DELAY", value_name = "LOOP=TIME", value_delimiter = ',')]
    pub delay: Vec<Delay>,
}

/// A loop and how long each of its runs is delayed.
#[cfg(feature = "fault")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay {
    /// The loop's name.
    pub target: String,
    /// The delay.
    pub by: GoDuration,
}

#[cfg(feature = "fault")]
impl std::str::FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (target, by) = text.split_once('=').ok_or_else(|| format!("{text:?} is not of the form LOOP=TIME"))?;
        let by = by.parse().map_err(|error: muster_core::go_duration::ParseError| error.to_string())?;
        Ok(Self { target: target.to_owned(), by })
    }
}

impl From<FaultArgs> for Faults {
    #[cfg(feature = "fault")]
    fn from(args: FaultArgs) -> Self {
        Self { hang: args.hang.into(), delay: args.delay.into() }
    }

    #[cfg(not(feature = "fault"))]
    fn from(_: FaultArgs) -> Self {
        Self::default()
    }
}

impl Faults {
    /// Returns at once unless a fault was asked for this loop.
    #[cfg(feature = "fault")]
    pub async fn act(&self, id: LoopId) {
        if self.hang.iter().any(|target| target == id.as_str()) {
            tracing::warn!(r#loop = %id, "hanging this loop, as asked");
            std::future::pending::<()>().await;
        }
        for delay in self.delay.iter().filter(|delay| delay.target == id.as_str()) {
            tokio::time::sleep(delay.by.get()).await;
        }
    }

    /// Returns at once.
    #[cfg(not(feature = "fault"))]
    #[expect(clippy::unused_async, reason = "the same signature as with the feature")]
    pub async fn act(&self, _: LoopId) {}
}
