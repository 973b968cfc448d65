//! `cargo xtask image`: images of both programs, static, as OCI archives, without a container engine.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use muster_image::{AUTHORITIES, Image, libraries, write};

use crate::{step, workspace};

/// The programs that are shipped.
const PROGRAMS: [&str; 2] = ["muster-reconciler", "muster-aggregator"];
/// An image should be no burden on a node that pulls it, in bytes, compressed.
const LIMIT: u64 = 15 * 1_000_000;

/// Arguments of `image`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Tag of the images.
    #[arg(long, default_value = env!("CARGO_PKG_VERSION"))]
    tag: String,
    /// Bundle of certificate authorities that goes into them.
    #[arg(long, default_value = AUTHORITIES)]
    authorities: PathBuf,
}

impl Default for Args {
    fn default() -> Self {
        Self { tag: env!("CARGO_PKG_VERSION").to_owned(), authorities: AUTHORITIES.into() }
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    build(args).map(drop)
}

/// Builds both, says how large they are, and returns the folder they are in.
pub(crate) fn build(args: &Args) -> Result<PathBuf> {
    ensure!(
        args.authorities.is_file(),
        "{} is missing: install ca-certificates, or name another bundle with --authorities",
        args.authorities.display()
    );
    let programs = programs()?;
    let folder = workspace::target_dir().join("images");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for program in PROGRAMS {
        let archive = folder.join(format!("{program}.tar"));
        let weight = one(args, &programs.join(program), program, &archive)?;
        eprintln!("{}: {weight}", archive.display());
    }
    Ok(folder)
}

/// Static programs. The target is named although it is this machine's: its flags then leave build scripts alone.
fn programs() -> Result<PathBuf> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut cargo = workspace::cargo(["build", "--release", "--target", &target]);
    cargo.args(PROGRAMS.map(|program| format!("--bin={program}")));
    step::run("build static programs", cargo.env("RUSTFLAGS", "-C target-feature=+crt-static"))?;
    Ok(workspace::target_dir().join(target).join("release"))
}

fn one(args: &Args, program: &Path, name: &str, archive: &Path) -> Result<String> {
    let needs = libraries(program)?;
    ensure!(needs.is_empty(), "{name} is not static: it needs {needs:?}");
    let image = Image {
        name: &format!("{name}:{}", args.tag),
        program,
        authorities: Some(&args.authorities),
        version: env!("CARGO_PKG_VERSION"),
        compressed: true,
    };
    let written = write(archive, &image)?;
    ensure!(written.pulled <= LIMIT, "{name} has {} bytes compressed; the limit is {LIMIT}", written.pulled);
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    Ok(format!("{:.1} MB compressed, {:.1} MB on a node", megabytes(written.pulled), megabytes(written.unpacked)))
}
