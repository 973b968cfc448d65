//! Namespaces of a real node: network, mounts and processes of its own.
//!
//! One process holds them. When it goes, the kernel kills every process in its process namespace, containers and their
//! helpers among them, and takes the mounts and the network with it: nothing is left behind, however the owner ended.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::process::{Process, Program, tail};
use crate::wait;

/// The node's own address, on a bridge that nothing else is on.
pub(crate) const NODE_IP: &str = "10.200.0.1";

/// Run as the first process of the namespaces, which then waits.
const SETUP: &str = "\
mount -t tmpfs run /run && mount -t tmpfs log /var/log &&
ip link set lo up && ip link add node0 type bridge && ip addr add 10.200.0.1/24 dev node0 && ip link set node0 up &&
echo 1 > /proc/sys/net/ipv4/ip_forward && : > \"$2\" && exec \"$1\"
";

/// Namespaces, held for as long as this lives if it made them.
#[derive(Debug)]
pub struct Namespaces {
    /// The process through which they are entered.
    pid: i32,
    /// The same, if it is ours to end.
    holder: Option<Process>,
}

/// Which of the namespaces a program enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Enter {
    /// The network only.
    Network,
    /// All three, as what runs containers must.
    All,
}

impl Namespaces {
    /// Creates them; `pause` is a static program that waits, `dir` takes a log.
    pub(crate) async fn create(pause: &Path, dir: &Path) -> Result<Self> {
        let done = dir.join("namespaces.ready");
        let args =
            ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--", "/bin/sh", "-c", SETUP];
        let mut args: Vec<String> = args.map(str::to_owned).to_vec();
        args.extend(["sh".to_owned(), pause.display().to_string(), done.display().to_string()]);
        let log = dir.join("namespaces.log");
        let holder = Program { path: super::support::program("unshare")?, args, env: Vec::new(), log: log.clone() };
        let holder = holder.start()?;
        wait::until("the node's namespaces", || async {
            ensure!(holder.ended().is_none(), "they cannot be set up: {}", tail(&log, 5));
            ensure!(done.exists(), "not set up yet");
            Ok(())
        })
        .await?;
        Ok(Self { pid: holder.pid(), holder: Some(holder) })
    }

    /// Those that another process holds.
    pub(crate) fn held_by(pid: i32) -> Self {
        Self { pid, holder: None }
    }

    /// The process through which they are entered.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// `program`, to be started inside.
    pub(crate) fn inside(&self, enter: Enter, program: Program) -> Result<Program> {
        let of = |kind: &str, name: &str| format!("--{kind}=/proc/{}/ns/{name}", self.pid);
        let mut args = vec![of("net", "net")];
        if enter == Enter::All {
            args.extend([of("mount", "mnt"), of("pid", "pid_for_children")]);
        }
        args.push("--".to_owned());
        args.push(program.path.display().to_string());
        args.extend(program.args);
        Ok(Program { path: super::support::program("nsenter")?, args, ..program })
    }

    /// The network namespace, as a file.
    pub(crate) fn network(&self) -> Result<std::fs::File> {
        let path = format!("/proc/{}/ns/net", self.pid);
        std::fs::File::open(&path).with_context(|| format!("cannot open {path}"))
    }

    /// Ends everything inside, and waits until the holder is gone.
    pub(crate) fn end(&self) {
        if let Some(holder) = &self.holder {
            holder.kill_blocking();
        }
    }
}
