//! `files`: certificates and keys below the trust directory, the only part of the file system that a spec can name.
//!
//! Directories are walked and links are followed, because that is what a mounted ConfigMap or Secret is made of; but
//! wherever a link leads, the file must be below the trust directory. Names that begin with two dots are skipped: such a
//! volume keeps its own versions there.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use futures::future::{BoxFuture, FutureExt as _};
use sha2::{Digest as _, Sha256};

use super::error::{LoadError, MaterialError};
use super::{Certificate, Digest, Loaded, Material, TrustProvider};
use crate::compile::{Files, Provider, TrustRequest, Want};
use crate::words::quote;

/// Most files of one load.
const FILES_MAX: u64 = 256;

/// Largest file, in bytes: a bundle of all public authorities has some 250 KiB.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Most bytes of one load.
const BYTES_MAX: u64 = 8 << 20;

/// Most directories within each other.
const DEPTH_MAX: u64 = 8;

/// The provider.
#[derive(Clone, Copy, Debug)]
pub struct FilesProvider;

impl TrustProvider for FilesProvider {
    fn load<'a>(&'a self, request: &'a TrustRequest) -> BoxFuture<'a, Result<Loaded, LoadError>> {
        async move { read_apart(request, load).await }.boxed()
    }

    fn digest<'a>(&'a self, request: &'a TrustRequest) -> BoxFuture<'a, Result<Option<Digest>, LoadError>> {
        async move { read_apart(request, |files, _| read(files).map(|found| Some(digest(&found)))).await }.boxed()
    }
}

/// One file below the trust directory, with what reading it gave.
struct Found {
    name: String,
    contents: Result<Vec<u8>, MaterialError>,
}

/// One walk.
struct Walk<'a> {
    root: &'a Path,
    seen: BTreeSet<PathBuf>,
    found: Vec<Found>,
    bytes: u64,
}

/// Runs `read` where blocking is allowed.
async fn read_apart<T: Send + 'static>(
    request: &TrustRequest,
    read: fn(&Files, Want) -> Result<T, LoadError>,
) -> Result<T, LoadError> {
    let Provider::Files(files) = &request.provider else { return Err(LoadError::NotBuiltIn) };
    let (files, want) = (files.clone(), request.want);
    let root = files.root.display().to_string();
    let task = tokio::task::spawn_blocking(move || read(&files, want));
    task.await.unwrap_or(Err(LoadError::FileUnreadable { path: root }))
}

fn load(files: &Files, want: Want) -> Result<Loaded, LoadError> {
    let found = read(files)?;
    let mut loaded = Loaded { digest: Some(digest(&found)), ..Loaded::default() };
    for Found { name, contents } in found {
        let place = quote(&name);
        match contents {
            Ok(bytes) => read_material(&mut loaded, &bytes, want, &place),
            Err(error) => loaded.push(place, Err(error)),
        }
    }
    Ok(loaded)
}

/// PEM text, or one certificate in DER.
pub(super) fn read_material(loaded: &mut Loaded, bytes: &[u8], want: Want, place: &str) {
    match std::str::from_utf8(bytes) {
        Ok(text) => loaded.read_pem(text, want, place),
        Err(_) if want == Want::Certificates => {
            loaded.push(place.to_owned(), Certificate::from_der(bytes).map(Material::Certificate));
        }
        Err(_) => loaded.push(place.to_owned(), Err(MaterialError::NoBlock)),
    }
}

/// Digest of names and contents, and of what cannot be read.
fn digest(found: &[Found]) -> Digest {
    let mut hash = Sha256::new();
    for Found { name, contents } in found {
        hash.update(name);
        // A name cannot hold it, so names and contents cannot run into each other.
        hash.update([0]);
        match contents {
            Ok(bytes) => hash.update(Sha256::digest(bytes)),
            Err(error) => hash.update(error.to_string()),
        }
        hash.update([0]);
    }
    hash.finalize().into()
}

/// Reads everything that `files` names, in the order of the spec and then of the names.
fn read(files: &Files) -> Result<Vec<Found>, LoadError> {
    let missing = |path: &Path| LoadError::FileMissing { path: path.display().to_string() };
    let root = files.root.canonicalize().map_err(|_| missing(&files.root))?;
    let mut walk = Walk { root: &root, seen: BTreeSet::new(), found: Vec::new(), bytes: 0 };
    for path in &files.paths {
        let shown = || files.root.join(path).display().to_string();
        let real = match root.join(path).canonicalize() {
            Ok(real) => real,
            Err(error) if is_absence(error.kind()) => return Err(missing(&files.root.join(path))),
            Err(_) => return Err(LoadError::FileUnreadable { path: shown() }),
        };
        if !real.starts_with(&root) {
            return Err(LoadError::OutsideTrustDir { path: shown() });
        }
        match fs::metadata(&real) {
            Ok(kind) if kind.is_dir() => walk.directory(&real, path, 0).map_err(|error| match error {
                Failure::Limit(error) => error,
                Failure::Unreadable => LoadError::FileUnreadable { path: shown() },
            })?,
            Ok(_) => walk.file(&real, path)?,
            Err(_) => return Err(missing(&files.root.join(path))),
        }
    }
    Ok(walk.found)
}

/// A path through a file is as absent as one through nothing.
fn is_absence(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

enum Failure {
    Limit(LoadError),
    Unreadable,
}

impl Walk<'_> {
    /// `real` is where it is, `name` how the spec leads there.
    fn directory(&mut self, real: &Path, name: &Path, depth: u64) -> Result<(), Failure> {
        if depth == DEPTH_MAX {
            let error = LoadError::TooMuch { what: "levels of directories", max: DEPTH_MAX };
            return Err(Failure::Limit(error));
        }
        // A link may lead back to where the walk came from.
        if !self.seen.insert(real.to_owned()) {
            return Ok(());
        }
        let entries = fs::read_dir(real).map_err(|_| Failure::Unreadable)?;
        let mut names = BTreeSet::new();
        for entry in entries {
            names.insert(entry.map_err(|_| Failure::Unreadable)?.file_name());
            if names.len() as u64 > FILES_MAX {
                return Err(Failure::Limit(LoadError::TooMuch { what: "files", max: FILES_MAX }));
            }
        }
        for entry in names.iter().filter(|name| !name.as_encoded_bytes().starts_with(b"..")) {
            let name = name.join(entry);
            // A link into nowhere is an entry that cannot be read; so is one that vanishes while it is looked at.
            let Ok(real) = real.join(entry).canonicalize() else {
                self.push(&name, Err(MaterialError::Unreadable)).map_err(Failure::Limit)?;
                continue;
            };
            if !real.starts_with(self.root) {
                self.push(&name, Err(MaterialError::Outside)).map_err(Failure::Limit)?;
            } else if real.is_dir() {
                self.directory(&real, &name, depth + 1)?;
            } else {
                self.file(&real, &name).map_err(Failure::Limit)?;
            }
        }
        Ok(())
    }

    /// A file that two names lead to is read once.
    fn file(&mut self, real: &Path, name: &Path) -> Result<(), LoadError> {
        if !self.seen.insert(real.to_owned()) {
            return Ok(());
        }
        let contents = read_file(real);
        self.bytes += contents.as_ref().map_or(0, |bytes| bytes.len() as u64);
        if self.bytes > BYTES_MAX {
            return Err(LoadError::TooMuch { what: "bytes", max: BYTES_MAX });
        }
        self.push(name, contents)
    }

    fn push(&mut self, name: &Path, contents: Result<Vec<u8>, MaterialError>) -> Result<(), LoadError> {
        if self.found.len() as u64 == FILES_MAX {
            return Err(LoadError::TooMuch { what: "files", max: FILES_MAX });
        }
        self.found.push(Found { name: name.display().to_string(), contents });
        Ok(())
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, MaterialError> {
    // Opening a pipe or a device could wait for ever.
    if !path.is_file() {
        return Err(MaterialError::Unreadable);
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|_| MaterialError::Unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|_| MaterialError::Unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(MaterialError::TooLarge { max: FILE_BYTES_MAX });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
