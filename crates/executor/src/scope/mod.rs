//! What an executor is responsible for, and which of several scopes wins.
//!
//! The rules are those that Ratify v2 compiles its executors by: a pattern with a `/` is one exact repository, one without
//! is a registry (port included) or a wildcard for exactly one label. Repositories are no prefixes. Names are compared as
//! they are written.

mod reference;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

pub use reference::{Reference, ReferenceError};
use reference::{is_registry, is_repository};

use crate::words::quote;

/// What one executor, store or policy is responsible for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// `registry.io:5000/team/app`: exactly this repository.
    Repository(String),
    /// `registry.io:5000`: every repository of this registry.
    Registry(String),
    /// `*.registry.io`: every repository of every registry whose name is one label and then this. Held without `*.`.
    Wildcard(String),
}

/// Why a text is no [`Scope`]. Every text says what was found; [`ScopeError::expected`] says what would do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// Nothing at all.
    #[error("an empty scope")]
    Empty,
    /// `*` and nothing else: one executor for everything is no scope.
    #[error("the bare wildcard \"*\"")]
    BareWildcard,
    /// A `*` elsewhere than as the whole first label of a registry.
    #[error("{}, with a wildcard where none can be", quote(.scope))]
    MisplacedWildcard {
        /// What was read.
        scope: String,
    },
    /// `registry/repository:tag`.
    #[error("{}, with a tag", quote(.scope))]
    Tag {
        /// What was read.
        scope: String,
    },
    /// `registry/repository@sha256:…`.
    #[error("{}, with a digest", quote(.scope))]
    Digest {
        /// What was read.
        scope: String,
    },
    /// The part before the first `/` is no registry.
    #[error("{}, whose registry is not a host name with an optional port", quote(.scope))]
    Registry {
        /// What was read.
        scope: String,
    },
    /// The part behind the first `/` is no repository.
    #[error("{}, whose repository is not lower-case path segments", quote(.scope))]
    Repository {
        /// What was read.
        scope: String,
    },
}

impl ScopeError {
    /// What every scope looks like.
    pub const fn expected() -> &'static str {
        "a repository (registry.io/team/app), a registry (registry.io:5000) or a wildcard for one label (*.registry.io)"
    }

    /// Stable word for this kind of error.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::BareWildcard => "BareWildcard",
            Self::MisplacedWildcard { .. } => "MisplacedWildcard",
            Self::Tag { .. } => "Tag",
            Self::Digest { .. } => "Digest",
            Self::Registry { .. } => "Registry",
            Self::Repository { .. } => "Repository",
        }
    }
}

impl FromStr for Scope {
    type Err = ScopeError;

    fn from_str(text: &str) -> Result<Self, ScopeError> {
        let scope = || text.to_owned();
        if text.is_empty() {
            return Err(ScopeError::Empty);
        }
        if text == "*" {
            return Err(ScopeError::BareWildcard);
        }
        if let Some((registry, path)) = text.split_once('/') {
            return repository(text, registry, path);
        }
        let (suffix, wildcard) = text.strip_prefix("*.").map_or((text, false), |suffix| (suffix, true));
        if suffix.contains('*') {
            return Err(ScopeError::MisplacedWildcard { scope: scope() });
        }
        if !is_registry(suffix) {
            return Err(ScopeError::Registry { scope: scope() });
        }
        Ok(if wildcard { Self::Wildcard(suffix.to_owned()) } else { Self::Registry(suffix.to_owned()) })
    }
}

fn repository(text: &str, registry: &str, path: &str) -> Result<Scope, ScopeError> {
    let scope = || text.to_owned();
    if text.contains('*') {
        return Err(ScopeError::MisplacedWildcard { scope: scope() });
    }
    if path.contains('@') {
        return Err(ScopeError::Digest { scope: scope() });
    }
    if path.contains(':') {
        return Err(ScopeError::Tag { scope: scope() });
    }
    if !is_registry(registry) {
        return Err(ScopeError::Registry { scope: scope() });
    }
    if !is_repository(path) {
        return Err(ScopeError::Repository { scope: scope() });
    }
    Ok(Scope::Repository(scope()))
}

impl Scope {
    /// True if everything that `other` is responsible for is within this scope too.
    pub fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Registry(registry), Self::Repository(name)) => registry_of(name) == registry,
            (Self::Wildcard(suffix), Self::Repository(name)) => label_stripped(registry_of(name)) == Some(suffix),
            (Self::Wildcard(suffix), Self::Registry(registry)) => label_stripped(registry) == Some(suffix),
            _ => self == other,
        }
    }

    /// True if some artifact could be within both scopes.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other) || other.contains(self)
    }

    /// True if `reference` names an artifact within this scope.
    pub fn covers(&self, reference: &Reference<'_>) -> bool {
        match self {
            Self::Repository(name) => name == reference.name(),
            Self::Registry(registry) => registry == reference.registry(),
            Self::Wildcard(suffix) => reference.wildcard() == Some(suffix),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repository(text) | Self::Registry(text) => f.write_str(text),
            Self::Wildcard(suffix) => write!(f, "*.{suffix}"),
        }
    }
}

fn registry_of(name: &str) -> &str {
    name.split_once('/').map_or(name, |(registry, _)| registry)
}

/// `b.c` of `a.b.c`: what a wildcard for exactly one label is compared with.
fn label_stripped(registry: &str) -> Option<&str> {
    registry.split_once('.').map(|(_, rest)| rest)
}
