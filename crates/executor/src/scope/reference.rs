//! References to artifacts: `registry/repository[:tag][@digest]`, read as the registry client of Ratify reads them.

use super::label_stripped;
use crate::words::quote;

/// Longest reference that is read, in bytes. The distribution specification allows 255 for a name and 128 for a tag; the
/// longest digest has 135. What is longer is not worth a hash.
const REFERENCE_MAX: usize = 1_024;

/// A reference, taken apart without copying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference<'a> {
    name: &'a str,
    registry: &'a str,
    tag: Option<&'a str>,
    digest: Option<&'a str>,
}

/// Why a text is no [`Reference`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// Longer than any valid reference can be.
    #[error("the reference is longer than 1024 bytes")]
    TooLong,
    /// No `/`, so there is no registry. Short names are never completed: whoever pulls may complete them differently.
    #[error("the reference {} names no registry", quote(.reference))]
    NoRegistry {
        /// What was read.
        reference: String,
    },
    /// The part before the first `/` is no host name with an optional port.
    #[error("the reference {} has an invalid registry", quote(.reference))]
    Registry {
        /// What was read.
        reference: String,
    },
    /// The path is not made of lower-case segments.
    #[error("the reference {} has an invalid repository", quote(.reference))]
    Repository {
        /// What was read.
        reference: String,
    },
    /// The tag has other characters than letters, digits, `_`, `.` and `-`, or is longer than 128.
    #[error("the reference {} has an invalid tag", quote(.reference))]
    Tag {
        /// What was read.
        reference: String,
    },
    /// The digest is not `sha256:`, `sha384:` or `sha512:` with its lower-case hexadecimal digits.
    #[error("the reference {} has an invalid digest", quote(.reference))]
    Digest {
        /// What was read.
        reference: String,
    },
}

impl ReferenceError {
    /// Stable word for this kind of error.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::TooLong => "TooLong",
            Self::NoRegistry { .. } => "NoRegistry",
            Self::Registry { .. } => "Registry",
            Self::Repository { .. } => "Repository",
            Self::Tag { .. } => "Tag",
            Self::Digest { .. } => "Digest",
        }
    }
}

impl<'a> Reference<'a> {
    /// Reads a reference. With a digest, a tag before it is dropped unread, as registry clients do.
    pub fn parse(text: &'a str) -> Result<Self, ReferenceError> {
        let reference = || text.to_owned();
        if text.len() > REFERENCE_MAX {
            return Err(ReferenceError::TooLong);
        }
        let Some((registry, path)) = text.split_once('/') else {
            return Err(ReferenceError::NoRegistry { reference: reference() });
        };
        let (path, digest) = path.split_once('@').map_or((path, None), |(path, digest)| (path, Some(digest)));
        let (path, tag) = path.split_once(':').map_or((path, None), |(path, tag)| (path, Some(tag)));
        let tag = tag.filter(|_| digest.is_none());
        if !is_registry(registry) {
            return Err(ReferenceError::Registry { reference: reference() });
        }
        if !is_repository(path) {
            return Err(ReferenceError::Repository { reference: reference() });
        }
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(ReferenceError::Tag { reference: reference() });
        }
        if digest.is_some_and(|digest| !is_digest(digest)) {
            return Err(ReferenceError::Digest { reference: reference() });
        }
        let name = text.get(..registry.len() + 1 + path.len()).unwrap_or(text);
        Ok(Self { name, registry, tag, digest })
    }

    /// `registry/repository`, without tag and digest.
    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// The registry, with its port if it has one.
    pub const fn registry(&self) -> &'a str {
        self.registry
    }

    /// The tag, unless there is a digest.
    pub const fn tag(&self) -> Option<&'a str> {
        self.tag
    }

    /// The digest, with its algorithm.
    pub const fn digest(&self) -> Option<&'a str> {
        self.digest
    }

    /// The registry without its first label: what a wildcard scope is compared with.
    pub fn wildcard(&self) -> Option<&'a str> {
        label_stripped(self.registry)
    }
}

/// A host name or address with an optional port.
pub(super) fn is_registry(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, "")) => return is_address(address),
        Some((address, rest)) => match rest.strip_prefix(':') {
            Some(port) if is_address(address) => return is_port(port),
            _ => return false,
        },
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    !host.is_empty()
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
        && port.is_none_or(is_port)
}

fn is_address(text: &str) -> bool {
    text.parse::<std::net::Ipv6Addr>().is_ok()
}

fn is_port(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Path segments of lower-case letters and digits, which `.`, `_`, `__` or any number of `-` may separate
/// (distribution specification, "Pulling manifests").
pub(super) fn is_repository(path: &str) -> bool {
    path.split('/').all(is_segment)
}

fn is_segment(segment: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let border = |byte: Option<&u8>| byte.is_some_and(alphanumeric);
    let bytes = segment.as_bytes();
    border(bytes.first())
        && border(bytes.last())
        && bytes.split(alphanumeric).all(|separator| {
            matches!(separator, b"" | b"." | b"_" | b"__") || separator.iter().all(|byte| *byte == b'-')
        })
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, encoded)) = digest.split_once(':') else { return false };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    encoded.len() == length && encoded.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
