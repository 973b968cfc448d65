//! Whatever ends a test or the program, no server is left behind.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use muster_lab::control_plane::{ControlPlane, Controllers, Options};
use muster_lab::kubelet::Signal;
use muster_lab::{process, wait};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// `muster-lab cluster up`, when it has said that it is up.
struct Up {
    program: Child,
    lines: Lines<BufReader<ChildStdout>>,
    folder: PathBuf,
    servers: Vec<i32>,
}

impl Up {
    async fn start() -> Result<Self> {
        let mut program = Command::new(env!("CARGO_BIN_EXE_muster-lab"))
            .args(["cluster", "up", "--control-plane"])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut lines = BufReader::new(program.stdout.take().context("no output")?).lines();
        let folder = loop {
            let line = lines.next_line().await?.context("it ended")?;
            if let Some(kubeconfig) = line.trim().strip_prefix("export KUBECONFIG=") {
                break Path::new(kubeconfig).parent().context("no folder")?.to_owned();
            }
        };
        let pid = i32::try_from(program.id().context("it ended")?)?;
        let servers = children(pid);
        assert_eq!(servers.len(), 3, "etcd, API server and controller manager: {servers:?}");
        Ok(Self { program, lines, folder, servers })
    }

    async fn all_gone(&self) -> Result<()> {
        wait::until("all servers to be gone", || async {
            let left: Vec<_> = self.servers.iter().filter(|pid| parent(**pid).is_some()).collect();
            ensure!(left.is_empty(), "{left:?} live on");
            anyhow::Ok(())
        })
        .await
    }
}

fn children(of: i32) -> Vec<i32> {
    let pids = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|pid| parent(*pid) == Some(of)).collect()
}

/// Parent of a process that runs; `None` for one that is gone, or waits as a zombie to be reaped by whoever took it over.
fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    (fields.next()? != "Z").then(|| fields.next()?.parse().ok()).flatten()
}

#[tokio::test]
async fn a_kill_takes_all_servers_along() -> Result<()> {
    let mut up = Up::start().await?;
    up.program.kill().await?;
    up.all_gone().await?;
    fs::remove_dir_all(&up.folder)?;
    Ok(())
}

#[tokio::test]
async fn sigterm_ends_it_cleanly_and_removes_everything() -> Result<()> {
    let mut up = Up::start().await?;
    let pid = i32::try_from(up.program.id().context("it ended")?)?;
    process::signal(pid, Signal::SIGTERM)?;
    while up.lines.next_line().await?.is_some() {}
    assert!(up.program.wait().await?.success());
    up.all_gone().await?;
    assert!(!up.folder.exists());
    Ok(())
}

#[test]
fn a_panic_ends_the_servers_and_keeps_the_logs() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut seen = None;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            let options = Options { controllers: Controllers::None, ..Options::default() };
            let plane = ControlPlane::start(options).await.unwrap();
            seen = Some((plane.root().to_owned(), plane.api_server().pid().unwrap()));
            panic!("as a failed assertion would");
        });
    }));
    assert!(outcome.is_err());
    let (root, pid) = seen.unwrap();
    assert_eq!(parent(pid), None);
    assert!(fs::metadata(root.join("logs/kube-apiserver.log")).unwrap().len() > 0);
    fs::remove_dir_all(root).unwrap();
}
