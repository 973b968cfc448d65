//! Why an outcome is what it is: one closed list of reasons, each with what to do about it.

use crate::open_enum::open_enum;

open_enum! {
    /// The reason of an outcome. The first group is reported by a replica about itself, the second concluded by the
    /// aggregator. Words are part of the interface: scripts, alerts and the documentation's anchors use them.
    pub enum Reason {
        /// The wanted generation is built and served.
        Built,
        /// The replica started and has no verdict on this executor yet.
        Starting,
        /// The spec can never be built; the text names the field, what it holds and what it should hold.
        InvalidSpec,
        /// Another, older executor of the same bucket lists one of the scopes.
        ScopeConflict,
        /// The upstream refuses calls for now; the replica waits at the credential's gate.
        RateLimited,
        /// The vault named by the spec does not exist.
        VaultNotFound,
        /// The vault exists, but not every certificate or key named by the spec.
        MissingKeys,
        /// The upstream refused the credential.
        AuthFailed,
        /// The credential itself cannot be read, so nothing was sent.
        TokenUnreadable,
        /// The upstream did not answer, or answered with a server error.
        Unreachable,
        /// A file named by the spec is not there.
        FileMissing,
        /// What was loaded is not the certificate or key it should be.
        BadMaterial,
        /// Every certificate that was loaded has expired.
        TrustExpired,
        /// The last refresh failed; the material of an earlier one is still good and serves.
        RefreshFailed,
        /// The replica's verdict is about an older generation.
        GenerationBehind,
        /// The replica is expected and has not reported on this executor.
        NotReported,
        /// The replica's pod cannot be scheduled.
        Unscheduled,
        /// The replica's health port does not answer.
        ReplicaUnreachable,
        /// The replica answers that it is not ready.
        NotServing,
        /// The replica's pod declares no port named `health`.
        NoHealthPort,
        /// Nobody serves: no replica is expected at all.
        NoReplicas,
    }
}

/// What has to happen before trying again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RetryClass {
    /// Nothing is wrong.
    None,
    /// Only a new spec can help: no retry until the generation moves.
    Permanent,
    /// Another object has to change first: decided again when any executor of the bucket changes.
    Blocked,
    /// The credential's gate decides when.
    Throttled,
    /// The named item is absent: 5 s doubling up to the refresh interval.
    Missing,
    /// May heal by itself: 5 s doubling to 5 min.
    Transient,
}

impl Reason {
    /// The retry class of this reason. A word that this version does not know is treated as transient: it is retried,
    /// slowly, and never taken for success.
    pub fn retry_class(&self) -> RetryClass {
        match self {
            Self::Built | Self::Starting => RetryClass::None,
            Self::InvalidSpec => RetryClass::Permanent,
            Self::ScopeConflict => RetryClass::Blocked,
            Self::RateLimited => RetryClass::Throttled,
            Self::VaultNotFound | Self::MissingKeys => RetryClass::Missing,
            Self::AuthFailed
            | Self::TokenUnreadable
            | Self::Unreachable
            | Self::FileMissing
            | Self::BadMaterial
            | Self::TrustExpired
            | Self::RefreshFailed
            | Self::GenerationBehind
            | Self::NotReported
            | Self::Unscheduled
            | Self::ReplicaUnreachable
            | Self::NotServing
            | Self::NoHealthPort
            | Self::NoReplicas
            | Self::Unrecognised(_) => RetryClass::Transient,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_round_trip_also_when_unknown() {
        for reason in Reason::ALL {
            assert_eq!(&Reason::from(reason.as_str()), reason);
        }
        let newer: Reason = serde_json::from_str("\"OfTomorrow\"").unwrap();
        assert_eq!(newer, Reason::Unrecognised("OfTomorrow".into()));
        assert_eq!(serde_json::to_string(&newer).unwrap(), "\"OfTomorrow\"");
    }

    #[test]
    fn an_unknown_reason_is_retried() {
        assert_eq!(Reason::from("OfTomorrow").retry_class(), RetryClass::Transient);
    }
}
