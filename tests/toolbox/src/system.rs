//! What a real node needs of the system: `xtask` installs it, and the lab says what is missing.

use std::path::PathBuf;

/// Programs that a node runs or is built with, and the Debian packages that bring them.
pub const NODE_PROGRAMS: [(&str, &str); 6] = [
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("mount", "mount"),
    ("ip", "iproute2"),
    ("nft", "nftables"),
    ("cc", "gcc"),
];

/// Path of a program of the system, in `PATH` or where root's programs are, whoever's `PATH` this is.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).map(|dir| dir.join(name)).find(|file| file.is_file())
}
