//! Who holds a scope when several executors of one bucket list it.
//!
//! The holder is the older object (creation time, then UID) that lists the scope *now*, valid or not. So the decision
//! depends on the objects alone: every replica, at any time and in any order of events, names the same holder, and an
//! executor never loses its scope because of somebody else's newer object. An executor that shares any scope with an
//! older one is blocked as a whole, and still holds its other scopes against younger ones.

use std::collections::HashMap;

use jiff::Timestamp;
use muster_api::{ExecutorSpec, Reason};

use crate::scope::Scope;
use crate::words::quote;

/// One executor of a bucket, as far as scopes go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimant {
    /// UID of the object.
    pub uid: String,
    /// Name of the object, for the sentence that names the holder.
    pub name: String,
    /// `metadata.creationTimestamp` (UTC, whole seconds).
    pub created: Timestamp,
    /// What it lists now: [`claimed_scopes`] of its spec.
    pub scopes: Vec<Scope>,
}

/// What one executor may do with its scopes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Nobody older lists any of them.
    Free,
    /// Somebody older lists one of them.
    Blocked {
        /// The first such scope, in the order of the spec.
        scope: Scope,
        /// Name of the executor that holds it.
        holder: String,
    },
}

/// The holders of all scopes of one bucket.
#[derive(Clone, Debug)]
pub struct Claims<'a> {
    holders: HashMap<&'a Scope, &'a Claimant>,
}

/// The scopes that this spec claims: those that can be read. What cannot be read claims nothing, and the rest of the spec
/// does not matter.
pub fn claimed_scopes(spec: &ExecutorSpec) -> Vec<Scope> {
    spec.scopes.iter().filter_map(|scope| scope.parse().ok()).collect()
}

impl<'a> Claims<'a> {
    /// Finds the holders among all executors of one bucket.
    pub fn of(bucket: impl IntoIterator<Item = &'a Claimant>) -> Self {
        let mut holders: HashMap<&'a Scope, &'a Claimant> = HashMap::new();
        for claimant in bucket {
            for scope in &claimant.scopes {
                let holder = holders.entry(scope).or_insert(claimant);
                if claimant.seniority() < holder.seniority() {
                    *holder = claimant;
                }
            }
        }
        Self { holders }
    }

    /// What `claimant`, one of the bucket, may do.
    pub fn verdict(&self, claimant: &Claimant) -> Claim {
        claimant
            .scopes
            .iter()
            .find_map(|scope| {
                let holder = self.holders.get(scope)?;
                (holder.seniority() < claimant.seniority())
                    .then(|| Claim::Blocked { scope: scope.clone(), holder: holder.name.clone() })
            })
            .unwrap_or(Claim::Free)
    }

    /// The executor that holds `scope`.
    pub fn holder(&self, scope: &Scope) -> Option<&'a Claimant> {
        self.holders.get(scope).copied()
    }
}

impl Claimant {
    /// Smaller is older.
    fn seniority(&self) -> (Timestamp, &str) {
        (self.created, &self.uid)
    }
}

impl Claim {
    /// `None` when free.
    pub const fn reason(&self) -> Option<Reason> {
        match self {
            Self::Free => None,
            Self::Blocked { .. } => Some(Reason::ScopeConflict),
        }
    }

    /// True when somebody else holds one of the scopes.
    pub const fn is_blocked(&self) -> bool {
        matches!(self, Self::Blocked { .. })
    }
}

impl std::fmt::Display for Claim {
    /// The sentence for a status; it changes only when the scope or the holder does.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Free => f.write_str("holds all its scopes"),
            Self::Blocked { scope, holder } => {
                write!(f, "scope {} belongs to executor {holder}, created earlier", quote(&scope.to_string()))
            }
        }
    }
}

#[cfg(test)]
mod tests;
