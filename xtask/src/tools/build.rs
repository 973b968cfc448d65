//! Builds one Go binary into the cache: never half a file, never twice at once, never in silence.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use muster_toolbox::{Tool, cache_root};

use crate::step::Elapsed;
use crate::workspace;

/// How often a running build says that it still runs.
const PROGRESS: Duration = Duration::from_secs(15);
/// How often the build is looked at; short beside what a build takes.
const POLL: Duration = Duration::from_millis(100);
/// How much of Go's own words are kept to explain a failure.
const KEPT_LINES: usize = 40;

/// Builds `tool` from `tests/go`, unless another process just did.
pub(crate) fn build(tool: Tool) -> Result<()> {
    let root = cache_root().context("no cache folder: set MUSTER_CACHE or HOME")?;
    let path = tool.cached_path(&root);
    let dir = root.join(tool.cache_key());
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let _lock = lock(&dir.join(".lock"), tool)?;
    if path.exists() {
        return Ok(());
    }
    let partial = path.with_extension("partial");
    compile(tool, &partial)?;
    fs::rename(&partial, &path).with_context(|| format!("cannot rename {} to {}", partial.display(), path.display()))
}

/// The lock is the kernel's: it goes with its holder, whatever happens to it.
fn lock(file: &Path, tool: Tool) -> Result<File> {
    let lock = File::create(file).with_context(|| format!("cannot create {}", file.display()))?;
    if lock.try_lock().is_err() {
        eprintln!("{}: waiting for another build of its module", tool.name());
        lock.lock().with_context(|| format!("cannot lock {}", file.display()))?;
    }
    Ok(lock)
}

fn compile(tool: Tool, output: &Path) -> Result<()> {
    let label = format!("{} {}", tool.name(), tool.version());
    eprintln!("{label}: not found, building it once from tests/go/{} (minutes)", tool.module());
    let start = Instant::now();
    let mut go = Command::new("go")
        .args(["build", "-buildvcs=false", "-mod=readonly", "-ldflags", &tool.ldflags()])
        .args(tool.tags().map(|tags| format!("-tags={tags}")))
        .arg("-o")
        .arg(output)
        .arg(tool.package())
        .current_dir(workspace::root().join("tests/go").join(tool.module()))
        .envs([("CGO_ENABLED", if tool.needs_c() { "1" } else { "0" }), ("GOWORK", "off")])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context("cannot start go")?;
    let words = listen(&mut go);
    let status = loop {
        let due = Instant::now() + PROGRESS;
        let ended = loop {
            match go.try_wait().context("cannot wait for go")? {
                Some(status) => break Some(status),
                None if Instant::now() >= due => break None,
                None => thread::sleep(POLL),
            }
        };
        match ended {
            Some(status) => break status,
            None => eprintln!("{label}: building, {}{}", Elapsed(start.elapsed()), words.latest()),
        }
    };
    if !status.success() {
        let hint = if tool.needs_c() { "\nit needs libseccomp (Debian: gcc, pkg-config, libseccomp-dev)" } else { "" };
        bail!("go build failed ({status}):\n{}{hint}", words.all());
    }
    eprintln!("{label}: built in {}", Elapsed(start.elapsed()));
    Ok(())
}

/// What Go said last.
#[derive(Clone, Default)]
struct Words(Arc<Mutex<Vec<String>>>);

impl Words {
    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT_LINES {
            lines.remove(0);
        }
        lines.push(line);
    }

    fn latest(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.last().map_or_else(String::new, |line| format!(" ({line})"))
    }

    fn all(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).join("\n")
    }
}

fn listen(go: &mut Child) -> Words {
    let words = Words::default();
    if let Some(stderr) = go.stderr.take() {
        let heard = words.clone();
        thread::spawn(move || BufReader::new(stderr).lines().map_while(Result::ok).for_each(|line| heard.push(line)));
    }
    words
}
