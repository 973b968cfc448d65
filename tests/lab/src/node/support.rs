//! Whether this machine can have a real node, told in words before anything is started.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use muster_toolbox::{NODE_PROGRAMS, find_program};
use nix::unistd::geteuid;

/// What a throw-away namespace must allow: what CNI, Services and images do later.
const TRIAL: &str = "\
ip link add name trial0 type bridge || { echo 'no network bridges (CONFIG_BRIDGE)'; exit 1; }
ip link add name trial1 type veth peer name trial2 || { echo 'no virtual Ethernet (CONFIG_VETH)'; exit 1; }
nft add table ip t && nft add chain ip t c '{ type nat hook output priority -100; }' \
|| { echo 'no address translation by nftables (CONFIG_NFT_NAT)'; exit 1; }
mount -t tmpfs t /mnt && mkdir /mnt/l /mnt/u /mnt/w /mnt/m \
&& mount -t overlay o -o lowerdir=/mnt/l,upperdir=/mnt/u,workdir=/mnt/w /mnt/m \
|| { echo 'no overlay file system (CONFIG_OVERLAY_FS)'; exit 1; }
";

/// An error that says what is missing; nothing is left of the trial.
pub fn check() -> Result<()> {
    ensure!(geteuid().is_root(), "a real node needs root: namespaces, mounts and control groups are made for it");
    for (name, package) in NODE_PROGRAMS {
        program(name).with_context(|| format!("a real node needs it (Debian: {package})"))?;
    }
    ensure!(Path::new("/sys/fs/cgroup").is_dir(), "a real node needs control groups at /sys/fs/cgroup");
    let trial = Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--", "/bin/sh", "-c", TRIAL])
        .stdin(Stdio::null())
        .output()
        .context("cannot start unshare")?;
    if !trial.status.success() {
        let said = [trial.stdout, trial.stderr].concat();
        bail!("this kernel cannot run a real node: {}", String::from_utf8_lossy(&said).trim());
    }
    Ok(())
}

/// Path of a program of the system.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    find_program(name).with_context(|| format!("{name} is missing"))
}
