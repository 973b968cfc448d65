//! What a real node needs of the system, installed where that is possible, so that nobody has to know the list.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use muster_toolbox::{NODE_PROGRAMS, find_program};

use crate::step;

/// What else runc is built with: the program that finds libraries.
const PKG_CONFIG: (&str, &str) = ("pkg-config", "pkg-config");
/// What runc is built with, as `pkg-config` calls it, and its package.
const SECCOMP: (&str, &str) = ("libseccomp", "libseccomp-dev");

/// Sees to it that the programs of a real node can be built and run; the error says what a person can do.
pub(crate) fn prepare() -> Result<()> {
    ensure!(is_root(), "a real node needs root: namespaces, mounts and control groups are made for it");
    let has_program = |name: &str| find_program(name).is_some();
    let missing = missing(has_program, has_library);
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    ensure!(has_program("apt-get"), "a real node needs what Debian calls {names}: install it");
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
    let programs = NODE_PROGRAMS.into_iter().chain([PKG_CONFIG]).filter(|(program, _)| !has_program(program));
    let library = Some(SECCOMP).filter(|(library, _)| !has_library(library));
    let mut packages: Vec<_> = programs.chain(library).map(|(_, package)| package).collect();
    packages.dedup(); // programs of one package stand together
    packages
}

fn has_library(name: &str) -> bool {
    let mut asked = Command::new("pkg-config");
    asked.args(["--exists", name]).stdin(Stdio::null()).stderr(Stdio::null());
    asked.status().is_ok_and(|status| status.success())
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
