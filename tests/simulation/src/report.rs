//! How the figures of the bench `livelock` are shown: one row for each run, whether it was played in virtual time or over
//! real HTTP.

use std::io::{self, Write};

use serde::Serialize;

/// Name of the bench in its rows.
pub const BENCH: &str = "livelock";

/// Calls that each resource needs, one after the other.
pub const CALLS: usize = 2;

/// What one line says. Times are in seconds.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// [`BENCH`].
    pub bench: &'static str,
    /// Over HTTP and in real time, not in virtual time.
    pub real: bool,
    /// What a refused resource does: `fixed`, `seed` or `muster`.
    pub policy: &'static str,
    /// Resources, dealt to the processes in turn.
    pub n: usize,
    /// Processes that share the credential and know nothing of each other.
    pub processes: usize,
    /// Whether a refused call costs a token too.
    pub charged: bool,
    /// Whether refusals announce when to come again, in whole seconds.
    pub retry_after: bool,
    /// Resources that had all their calls admitted.
    pub synced: usize,
    /// Time until all were synced, in ideal times; null if they never were.
    pub ratio: Option<f64>,
    /// Calls sent.
    pub requests: u64,
    /// Calls refused.
    pub refused: u64,
    /// Time until all were synced; null if they never were.
    pub seconds: Option<f64>,
    /// The least time in which they could be.
    pub ideal_seconds: f64,
    /// Whether a resource without a gate makes all its calls again after a refusal.
    pub starts_over: bool,
    /// Runs of which this is the slowest.
    pub seeds: u64,
}

/// Prints rows as a table for each scenario, or as one JSON object a line.
pub fn print(out: &mut impl Write, rows: &[Row], json: bool) -> io::Result<()> {
    if !json {
        return table(out, rows);
    }
    for row in rows {
        serde_json::to_writer(&mut *out, row)?;
        writeln!(out)?;
    }
    Ok(())
}

fn table(out: &mut impl Write, rows: &[Row]) -> io::Result<()> {
    for group in rows.chunk_by(|one, other| (one.n, one.processes) == (other.n, other.processes)) {
        let Some(Row { n, processes, ideal_seconds, seeds, real, .. }) = group.first() else { continue };
        let processes = if *processes == 1 { "one process".to_owned() } else { format!("{processes} processes") };
        let how = if *real { "One run over HTTP".to_owned() } else { format!("Slowest of {seeds} runs") };
        writeln!(out, "{n} resources of {processes} behind one token of 1/s, burst 20.")?;
        writeln!(out, "At best {} requests and {ideal_seconds:.0} s. {how}:\n", CALLS * n)?;
        writeln!(
            out,
            "  {:8} {:9} {:12} {:>9} {:>9} {:>7} {:>12} {:>11} {:>8}",
            "POLICY", "REFUSALS", "RETRY-AFTER", "REQUESTS", "REFUSED", "", "SYNCED", "AFTER", "RATIO"
        )?;
        for row in group {
            writeln!(
                out,
                "  {:8} {:9} {:12} {:>9} {:>9} {:>5.1} % {:>12} {:>11} {:>8}",
                row.policy,
                if row.charged { "charged" } else { "free" },
                if row.retry_after { "seconds" } else { "none" },
                row.requests,
                row.refused,
                100.0 * row.refused as f64 / row.requests.max(1) as f64,
                format!("{}/{n}", row.synced),
                row.seconds.map_or_else(|| "never".to_owned(), |seconds| format!("{seconds:.0} s")),
                row.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
            )?;
        }
        writeln!(out)?;
    }
    Ok(())
}
