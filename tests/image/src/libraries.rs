//! What a program needs beside itself to start.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The loader and the shared libraries of `program`, as the loader itself finds them; none for a static one.
pub fn of(program: &Path) -> Result<Vec<PathBuf>> {
    let answer = Command::new("ldd").arg(program).output().context("cannot start ldd")?;
    let text = String::from_utf8_lossy(&answer.stdout);
    let words = String::from_utf8_lossy(&answer.stderr);
    if text.contains("statically linked") || words.contains("not a dynamic executable") {
        return Ok(Vec::new());
    }
    ensure!(answer.status.success(), "ldd {}: {}", program.display(), words.trim());
    ensure!(!text.contains("not found"), "{} lacks libraries:\n{text}", program.display());
    Ok(paths(&text))
}

/// A line is `name => path (address)`, or `path (address)` for the loader, or `name (address)` for the kernel's own.
fn paths(text: &str) -> Vec<PathBuf> {
    text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_and_libraries_are_named_and_the_kernels_own_is_not() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x0000)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x0000)\n";
        let wanted = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(paths(text), wanted);
    }

    #[test]
    fn this_test_itself_is_not_static() {
        let found = of(&std::env::current_exe().unwrap()).unwrap();
        assert!(found.iter().any(|path| path.to_string_lossy().contains("libc.so")), "{found:?}");
    }
}
