//! Addresses made of a spec's words, and files that hold tokens.

use std::path::Path;

use reqwest::Url;
use tokio::io::AsyncReadExt as _;
use zeroize::Zeroizing;

use super::error::LoadError;
use crate::compile::Secret;
use crate::words::quote;

/// Largest token that is read from a file, in bytes. A service account's has about 1 KiB.
const TOKEN_MAX: u64 = 64 << 10;

/// An address whose path grows segment by segment, each escaped.
pub(super) struct Segments(Url);

/// An address that begins with `http://` or `https://` and names a host.
pub(super) fn parse(text: &str) -> Result<Url, LoadError> {
    let invalid = || LoadError::Invalid { what: format!("address {}", quote(text)), problem: "is not valid" };
    let url = Url::parse(text).map_err(|_| invalid())?;
    let usable = matches!(url.scheme(), "http" | "https") && url.has_host();
    let plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
    if usable && plain { Ok(url) } else { Err(invalid()) }
}

impl Segments {
    pub(super) fn of(base: &Url) -> Self {
        Self(base.clone())
    }

    pub(super) fn push(mut self, segment: &str) -> Self {
        // An address with a host has a path to push to.
        if let Ok(mut segments) = self.0.path_segments_mut() {
            segments.pop_if_empty().push(segment);
        }
        self
    }

    /// Adds a name out of a spec. `.` and `..` would vanish from the path and make it another one.
    pub(super) fn name(self, what: &str, name: &str) -> Result<Self, LoadError> {
        if name.is_empty() || matches!(name, "." | "..") {
            return Err(LoadError::Invalid { what: format!("{what} {}", quote(name)), problem: "is not valid" });
        }
        Ok(self.push(name))
    }

    pub(super) fn url(self) -> Url {
        self.0
    }
}

/// The token in a file, without white space around it. It is read each time: such files are replaced while we run.
pub(super) async fn token_file(path: &Path) -> Result<Secret, LoadError> {
    let unreadable = || LoadError::TokenUnreadable { token: format!("file {}", quote(&path.display().to_string())) };
    let file = tokio::fs::File::open(path).await.map_err(|_| unreadable())?;
    let mut text = Zeroizing::new(String::new());
    file.take(TOKEN_MAX).read_to_string(&mut text).await.map_err(|_| unreadable())?;
    match text.trim() {
        "" => Err(unreadable()),
        token => Ok(Secret::new(token)),
    }
}
