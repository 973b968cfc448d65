//! The one layer of an image: a tar archive whose bytes depend on its content only.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use tar::{Builder, EntryType, Header};

use crate::{Image, USER, libraries};

/// Folder of the program, and all of `PATH`.
pub(crate) const PROGRAMS: &str = "usr/local/bin";
/// Where most TLS libraries look for authorities.
pub(crate) const BUNDLE: &str = "etc/ssl/certs/ca-certificates.crt";

/// The layer's tar archive, uncompressed.
pub(crate) fn pack(image: &Image<'_>) -> Result<Vec<u8>> {
    let mut layer = Layer { tar: Builder::new(Vec::new()), folders: BTreeSet::new() };
    let name = image.program.file_name().context("a program without a name")?;
    layer.copy(image.program, &Path::new(PROGRAMS).join(name), 0o755)?;
    for library in libraries::of(image.program)? {
        layer.copy(&library, library.strip_prefix("/").unwrap_or(&library), 0o755)?;
    }
    if let Some(authorities) = image.authorities {
        layer.copy(authorities, Path::new(BUNDLE), 0o644)?;
    }
    let passwd = format!("root:x:0:0:root:/:/sbin/nologin\nmuster:x:{USER}:{USER}:muster:/:/sbin/nologin\n");
    layer.file(Path::new("etc/passwd"), passwd.as_bytes(), 0o644)?;
    layer.file(Path::new("etc/group"), format!("root:x:0:\nmuster:x:{USER}:\n").as_bytes(), 0o644)?;
    layer.file(Path::new("etc/nsswitch.conf"), b"hosts: files dns\n", 0o644)?;
    layer.tar.into_inner().context("cannot finish a layer")
}

struct Layer {
    tar: Builder<Vec<u8>>,
    folders: BTreeSet<String>,
}

impl Layer {
    fn copy(&mut self, from: &Path, to: &Path, mode: u32) -> Result<()> {
        let content = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        self.file(to, &content, mode)
    }

    fn file(&mut self, path: &Path, content: &[u8], mode: u32) -> Result<()> {
        let parents = path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
        for folder in parents.collect::<Vec<_>>().into_iter().rev() {
            if self.folders.insert(folder.display().to_string()) {
                self.entry(folder, EntryType::Directory, &[], 0o755)?;
            }
        }
        self.entry(path, EntryType::Regular, content, mode)
    }

    fn entry(&mut self, path: &Path, kind: EntryType, content: &[u8], mode: u32) -> Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(mode);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        self.tar.append_data(&mut header, path, content).with_context(|| format!("cannot pack {}", path.display()))
    }
}
