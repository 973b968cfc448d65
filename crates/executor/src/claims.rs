//! What a spec claims of the lookups of its bucket, and what is said where somebody else holds a claimed scope.
//!
//! Who holds a scope is decided from all objects of a bucket, by whoever keeps them.

use muster_api::{ExecutorSpec, Reason};

use crate::scope::Scope;
use crate::words::quote;

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

/// The scopes that this spec claims: those that can be read. What cannot be read claims nothing, and the rest of the spec
/// does not matter.
pub fn claimed_scopes(spec: &ExecutorSpec) -> Vec<Scope> {
    spec.scopes.iter().filter_map(|scope| scope.parse().ok()).collect()
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
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_claims_nothing() {
        let spec: ExecutorSpec = serde_json::from_value(serde_json::json!({
            "scopes": ["*", "reg.io", "", "reg.io/App", "*.reg.io"], "verifiers": [], "stores": [],
        }))
        .unwrap();
        let claimed: Vec<_> = claimed_scopes(&spec).iter().map(ToString::to_string).collect();
        assert_eq!(claimed, ["reg.io", "*.reg.io"]);
    }

    #[test]
    fn the_sentence_names_the_scope_and_its_holder() {
        let blocked = Claim::Blocked { scope: "reg.io/app".parse().unwrap(), holder: "old".to_owned() };
        assert_eq!(blocked.to_string(), "scope \"reg.io/app\" belongs to executor old, created earlier");
    }
}
