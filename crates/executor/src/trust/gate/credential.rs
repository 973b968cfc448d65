//! What a gate is for: one credential at one upstream.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

/// An upstream and an identity there. Two are the same if the upstream would count them as one caller.
///
/// A token itself is known here only by its hash: another token is another credential, and passes another gate; the same
/// token in two Secrets is one.
#[derive(Clone)]
pub struct Credential(Arc<Inner>);

struct Inner {
    upstream: String,
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
    /// An identity with a name. `upstream` is scheme, host and port.
    pub fn named(upstream: impl Into<String>, identity: impl Into<String>) -> Self {
        let (upstream, identity) = (upstream.into(), identity.into());
        let label = format!("{upstream}, {identity}");
        Self(Arc::new(Inner { upstream, identity: Identity::Named(identity), label }))
    }

    /// A token found at `place`, which is all that is ever shown of it.
    pub fn token(upstream: impl Into<String>, token: &str, place: &str) -> Self {
        let upstream = upstream.into();
        let label = format!("{upstream}, {place}");
        Self(Arc::new(Inner { upstream, identity: Identity::Token(Sha256::digest(token).into()), label }))
    }

    /// Scheme, host and port of the upstream.
    pub fn upstream(&self) -> &str {
        &self.0.upstream
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
