//! What a gate is for: one credential at one upstream.

use std::fmt;
use std::sync::Arc;

use muster_core::text::single_line;
use reqwest::Url;
use sha2::{Digest as _, Sha256};

/// An upstream and an identity there. Two are the same if the upstream would count them as one caller.
///
/// A token itself is known here only by its hash: another token is another credential, and passes another gate; the same
/// token in two Secrets is one.
#[derive(Clone)]
pub struct Credential(Arc<Inner>);

struct Inner {
    upstream: String,
    host: String,
    identity: Identity,
    label: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Identity {
    /// By the name that the upstream knows it by, whatever token it shows.
    Named(String),
    /// By the SHA-256 of a token that does not change.
    Token([u8; 32]),
}

impl Credential {
    /// An identity with a name, at the upstream of this address.
    pub fn named(upstream: &Url, identity: &str) -> Self {
        Self::new(upstream, Identity::Named(identity.to_owned()), identity)
    }

    /// A token found at `place`, which is all that is ever shown of it.
    pub fn token(upstream: &Url, token: &str, place: &str) -> Self {
        Self::new(upstream, Identity::Token(Sha256::digest(token).into()), place)
    }

    fn new(upstream: &Url, identity: Identity, shown: &str) -> Self {
        let host = upstream.host_str().unwrap_or_default().to_owned();
        let upstream = upstream.origin().ascii_serialization();
        let label = single_line(&format!("{upstream}, {shown}"));
        Self(Arc::new(Inner { upstream, host, identity, label }))
    }

    /// Host of the upstream, as texts name it: without a port, which may differ from run to run.
    pub fn host(&self) -> &str {
        &self.0.host
    }

    /// For people: the upstream and who it is there.
    pub fn label(&self) -> &str {
        &self.0.label
    }

    fn key(&self) -> (&str, &Identity) {
        (&self.0.upstream, &self.0.identity)
    }
}

impl PartialEq for Credential {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Credential {}

impl PartialOrd for Credential {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Credential {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({})", self.label())
    }
}
