//! Child processes that never outlive this one, and can be signalled without ever hitting a stranger.
//!
//! Three things go wrong with children in tests, and each has its answer here:
//! - The test is killed and its servers live on. Every child asks the kernel to be killed with its parent
//!   (`setpriv --pdeathsig KILL`). That request is bound to the *thread* that started the child, not to the process, so
//!   one thread that lives as long as the process starts them all.
//! - A signal reaches a process that got the number of one that ended. A child is reaped only under the lock that a
//!   signal takes, so its number cannot be given away meanwhile.
//! - A child leaves children. Each has a process group of its own, and the group goes with it, as a container would.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use tokio::sync::watch;

/// How long a killed child may take to be gone before a blocking wait gives up. The kernel needs milliseconds.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// What to run. The environment is exactly `env`: what happens to be set around a test must not change its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Absolute path of the binary.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// All of its environment.
    pub env: Vec<(String, String)>,
    /// File that its output and errors are appended to.
    pub log: PathBuf,
}

/// A running child, killed when dropped.
#[derive(Debug)]
pub struct Process {
    shared: Arc<Shared>,
    exit: watch::Receiver<Option<ExitStatus>>,
}

#[derive(Debug)]
struct Shared {
    /// Also the number of its process group.
    pid: Pid,
    /// Whether the number is no longer ours.
    reaped: Mutex<bool>,
    gone: Condvar,
}

impl Program {
    /// Starts it.
    pub fn start(&self) -> Result<Process> {
        if !self.path.is_file() {
            bail!("{} does not exist", self.path.display());
        }
        let log = append(&self.log)?;
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(&self.path)
            .args(&self.args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("cannot share the log")?)
            .stderr(log);
        let child = spawn(command).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => anyhow::anyhow!("setpriv is missing: install util-linux"),
            _ => anyhow::Error::new(error).context(format!("cannot start {}", self.path.display())),
        })?;
        Process::watch(child)
    }
}

impl Process {
    fn watch(child: Child) -> Result<Self> {
        let pid = Pid::from_raw(i32::try_from(child.id()).context("process number out of range")?);
        let shared = Arc::new(Shared { pid, reaped: Mutex::new(false), gone: Condvar::new() });
        let (announce, exit) = watch::channel(None);
        let reaper = Arc::clone(&shared);
        thread::Builder::new()
            .name(format!("reap-{pid}"))
            .spawn(move || {
                let status = reaper.reap(child);
                let _ = announce.send(Some(status)); // nobody may be left to hear it
            })
            .context("cannot start a thread")?;
        Ok(Self { shared, exit })
    }

    /// Process number.
    pub fn pid(&self) -> i32 {
        self.shared.pid.as_raw()
    }

    /// Signals it and its children; false if it has ended.
    pub fn signal(&self, signal: Signal) -> bool {
        self.shared.signal(signal)
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<ExitStatus> {
        *self.exit.borrow()
    }

    /// Becomes `Some` when it ends.
    pub fn exit(&self) -> watch::Receiver<Option<ExitStatus>> {
        self.exit.clone()
    }

    /// Asks it to end, and kills it after `grace`. Returns how it ended.
    pub async fn stop(&self, grace: Duration) -> Option<ExitStatus> {
        self.signal(Signal::SIGTERM);
        if tokio::time::timeout(grace, wait(self.exit())).await.is_err() {
            self.signal(Signal::SIGKILL);
        }
        wait(self.exit()).await
    }

    /// Kills it and waits until it is gone, without a runtime.
    pub fn kill_blocking(&self) {
        self.signal(Signal::SIGKILL);
        let reaped = self.shared.lock();
        let gone = self.shared.gone.wait_timeout_while(reaped, GONE_WITHIN, |reaped| !*reaped);
        drop(gone);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.reaped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self, signal: Signal) -> bool {
        let reaped = self.lock();
        !*reaped && killpg(self.pid, signal).is_ok()
    }

    /// Waits until the child has ended, then takes its group with it and gives its number back, both under the lock.
    fn reap(&self, mut child: Child) -> ExitStatus {
        while waitid(Id::Pid(self.pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) == Err(Errno::EINTR) {}
        let mut reaped = self.lock();
        let _ = killpg(self.pid, Signal::SIGKILL); // usually only the ended leader is in it
        let status = child.wait().unwrap_or_default();
        *reaped = true;
        self.gone.notify_all();
        status
    }
}

/// Waits for the end of a process; `None` only if the process that watches it is ending itself.
pub async fn wait(mut exit: watch::Receiver<Option<ExitStatus>>) -> Option<ExitStatus> {
    exit.wait_for(Option::is_some).await.ok().and_then(|status| *status)
}

/// Signals a process that is not one of ours by its number. Only for those that are known to live: numbers are reused.
pub fn signal(pid: i32, signal: Signal) -> Result<()> {
    kill(Pid::from_raw(pid), signal).with_context(|| format!("cannot signal process {pid}"))
}

/// Last `lines` of a log, for error messages.
pub fn tail(log: &Path, lines: usize) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let skip = text.lines().count().saturating_sub(lines);
    text.lines().skip(skip).collect::<Vec<_>>().join("\n")
}

fn append(log: &Path) -> Result<File> {
    OpenOptions::new().create(true).append(true).open(log).with_context(|| format!("cannot open {}", log.display()))
}

type Request = (Command, mpsc::SyncSender<io::Result<Child>>);

/// The one thread that starts children. It never ends by itself.
static SPAWNER: LazyLock<io::Result<mpsc::Sender<Request>>> = LazyLock::new(|| {
    let (sender, requests) = mpsc::channel::<Request>();
    thread::Builder::new().name("spawner".to_owned()).spawn(move || {
        for (mut command, answer) in requests {
            let _ = answer.send(command.spawn()); // the asker waits for it below
        }
    })?;
    Ok(sender)
});

fn spawn(command: Command) -> io::Result<Child> {
    let spawner = SPAWNER.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
    let (answer, child) = mpsc::sync_channel(1);
    spawner.send((command, answer)).map_err(io::Error::other)?;
    child.recv().map_err(io::Error::other)?
}
