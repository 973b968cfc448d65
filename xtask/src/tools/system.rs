//! What a real node needs of the system, installed where that is possible, so that nobody has to know the list.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use crate::step;

/// A program that must be in `PATH` or where root's programs are, and the Debian package that brings it.
const PROGRAMS: [(&str, &str); 5] =
    [("cc", "gcc"), ("pkg-config", "pkg-config"), ("unshare", "util-linux"), ("ip", "iproute2"), ("nft", "nftables")];
/// What runc is built with, as `pkg-config` calls it, and its package.
const SECCOMP: (&str, &str) = ("libseccomp", "libseccomp-dev");

/// Sees to it that the programs of a real node can be built and run; the error says what a person can do.
pub(crate) fn prepare() -> Result<()> {
    ensure!(is_root(), "a real node needs root: namespaces, mounts and control groups are made for it");
    let path = search_path();
    let missing = missing(|name| has_program(&path, name), has_library);
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    ensure!(has_program(&path, "apt-get"), "a real node needs what Debian calls {names}: install it");
    step::measured(&format!("install {names}"), || {
        let _ = apt(&["update"]); // an old list may do; if it does not, the next command says what is wrong
        ensure!(
            apt(&[&["install", "--yes", "--no-install-recommends"], &missing[..]].concat()),
            "apt-get could not install {names}; see its words above"
        );
        Ok(())
    })
}

fn apt(args: &[&str]) -> bool {
    let mut apt = Command::new("apt-get");
    apt.arg("--quiet").args(args).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null()).stdout(Stdio::null());
    apt.status().is_ok_and(|status| status.success())
}

/// Packages that bring what is not there.
fn missing(has_program: impl Fn(&str) -> bool, has_library: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let programs = PROGRAMS.into_iter().filter(|(program, _)| !has_program(program));
    let library = Some(SECCOMP).filter(|(library, _)| !has_library(library));
    programs.chain(library).map(|(_, package)| package).collect()
}

fn has_program(path: &[PathBuf], name: &str) -> bool {
    path.iter().any(|dir| dir.join(name).is_file())
}

fn has_library(name: &str) -> bool {
    let mut asked = Command::new("pkg-config");
    asked.args(["--exists", name]).stdin(Stdio::null()).stderr(Stdio::null());
    asked.status().is_ok_and(|status| status.success())
}

/// `PATH`, and where root's programs are whoever's `PATH` this is.
fn search_path() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from)).collect()
}

/// The owner of our own `/proc` entry is who we are; no call into libc needed.
pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packages_that_bring_something_are_asked_for() {
        assert_eq!(missing(|_| true, |_| true), [""; 0]);
        assert_eq!(
            missing(|name| name != "nft" && name != "ip", |_| false),
            ["iproute2", "nftables", "libseccomp-dev"]
        );
    }
}
