//! What can be wrong with trust material: with one item, and with a whole load.
//!
//! Both are closed lists. The texts hold names that the spec or a file gives and nothing that changes by itself, because
//! they become part of a status, where a text that differs each time means a write each time (C11).

use std::fmt;
use std::time::Duration;

use muster_api::Reason;

use super::http::BadBody;
use crate::words::quote;

/// What is wrong with one item. The texts continue a sentence that begins with where it was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MaterialError {
    /// Text without any PEM block.
    #[error("has no PEM block")]
    NoBlock,
    /// A block that begins and does not end.
    #[error("has no line \"-----END {label}-----\"")]
    NoEnd {
        /// Label of the line that begins it.
        label: String,
    },
    /// A block that ends as something else than it began.
    #[error("begins as {label} and ends as something else")]
    OtherEnd {
        /// Label of the line that begins it.
        label: String,
    },
    /// A block whose body is not base64.
    #[error("is not base64 between its BEGIN and END lines")]
    NotBase64,
    /// A block of another kind than the provider was asked for.
    #[error("is {label}, not a {wanted}")]
    OtherKind {
        /// Label of the block.
        label: String,
        /// What was asked for.
        wanted: &'static str,
    },
    /// Bytes that are no certificate.
    #[error("is no X.509 certificate in DER")]
    NotACertificate,
    /// Bytes that are no public key.
    #[error("is no public key in DER")]
    NotAKey,
    /// A key of a kind that no verifier can use.
    #[error("is a public key of an unknown algorithm, known are RSA, ECDSA (P-256, P-384, P-521) and Ed25519")]
    UnknownAlgorithm,
    /// A certificate that may not anchor trust.
    #[error("is {certificate}, neither a CA nor self-signed, and cannot be a trust anchor")]
    NotAnAnchor {
        /// Subject and fingerprint.
        certificate: String,
    },
    /// A file that is larger than any certificate bundle.
    #[error("is larger than {max} bytes")]
    TooLarge {
        /// The limit.
        max: u64,
    },
    /// A file that leads out of the trust directory.
    #[error("leads out of the trust directory")]
    Outside,
    /// A file that is there and cannot be read.
    #[error("cannot be read")]
    Unreadable,
    /// An item that its vault has switched off.
    #[error("is disabled")]
    Disabled,
    /// A vault's answer that is not one.
    #[error("was answered with {body}")]
    BadAnswer {
        /// What it is instead.
        body: BadBody,
    },
    /// A secret that says to be something else than a certificate.
    #[error("has {found}, neither application/x-pem-file nor application/x-pkcs12")]
    ContentType {
        /// `content type "text/plain"`, `no content type`.
        found: String,
    },
    /// Something that should be an archive of a certificate and its key.
    #[error("is no PKCS#12 archive in base64 with an empty password")]
    NotPkcs12,
    /// An archive without certificates.
    #[error("holds no certificate")]
    NoCertificate,
    /// The first item that was not read, because there are too many.
    #[error("and everything after it is not read: there are more than 512 items")]
    TooMany,
}

/// One item that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where it was found.
    pub origin: String,
    /// What is wrong.
    pub error: MaterialError,
}

impl fmt::Display for Fault {
    /// `ca.pem block 2 is no X.509 certificate in DER`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.origin, self.error)
    }
}

/// Why a provider has nothing to hand over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// A path that the spec names is not there. It may come: a mounted volume is filled after the spec is written.
    #[error("file {} is not there", quote(.path))]
    FileMissing {
        /// The path as the spec has it.
        path: String,
    },
    /// A path that the spec names is there and cannot be read.
    #[error("file {} cannot be read", quote(.path))]
    FileUnreadable {
        /// The path as the spec has it.
        path: String,
    },
    /// A path that leads out of the trust directory.
    #[error("file {} leads out of the trust directory", quote(.path))]
    OutsideTrustDir {
        /// The path as the spec has it.
        path: String,
    },
    /// More than any trust store needs.
    #[error("there are more than {max} {what}")]
    TooMuch {
        /// What there is too much of: `files`, `bytes`, `levels of directories`.
        what: &'static str,
        /// The limit.
        max: u64,
    },
    /// The upstream asks to slow down.
    #[error("{upstream} refuses calls for now")]
    RateLimited {
        /// Host of the upstream.
        upstream: String,
        /// Its wish, if it had a valid one; no part of the text.
        retry_after: Option<Duration>,
    },
    /// There is no such vault.
    #[error("vault {} does not exist at {upstream}", quote(.vault))]
    VaultNotFound {
        /// Host of the upstream.
        upstream: String,
        /// Name of the vault.
        vault: String,
    },
    /// The vault lacks items that the spec names.
    #[error("{upstream} has no {items}")]
    MissingItems {
        /// Host of the upstream.
        upstream: String,
        /// What is missing, as a list for people.
        items: String,
    },
    /// The upstream refuses the credential.
    #[error("{upstream} refuses the credential")]
    AuthFailed {
        /// Host of the upstream.
        upstream: String,
    },
    /// The credential cannot be read, so nothing was sent.
    #[error("{token} cannot be read")]
    TokenUnreadable {
        /// The token: `key "token" of Secret "vault"`.
        token: String,
    },
    /// The upstream does not answer, or answers with a server error.
    #[error("{upstream} does not answer")]
    Unreachable {
        /// Host of the upstream.
        upstream: String,
    },
    /// The upstream answers with a status that means nothing here.
    #[error("{upstream} answers with HTTP status {status}")]
    UnexpectedStatus {
        /// Host of the upstream.
        upstream: String,
        /// The status.
        status: u16,
    },
    /// The upstream answers with a body that is not what was asked for.
    #[error("{upstream} answers with {body}")]
    BadAnswer {
        /// Host of the upstream.
        upstream: String,
        /// What it is instead.
        body: BadBody,
    },
    /// A Secret that this replica has no right to read.
    #[error("Secret {secret} may not be read by this replica")]
    SecretForbidden {
        /// Name of the Secret, quoted.
        secret: String,
    },
    /// A parameter that only the provider itself can find fault with.
    #[error("{what} {problem}")]
    Invalid {
        /// The parameter and its value.
        what: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The provider was switched off after the spec was compiled.
    #[error("the provider is not built in")]
    NotBuiltIn,
}

impl LoadError {
    /// The reason to report.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::FileMissing { .. } | Self::FileUnreadable { .. } => Reason::FileMissing,
            Self::OutsideTrustDir { .. } | Self::TooMuch { .. } | Self::BadAnswer { .. } => Reason::BadMaterial,
            Self::RateLimited { .. } => Reason::RateLimited,
            Self::VaultNotFound { .. } => Reason::VaultNotFound,
            Self::MissingItems { .. } => Reason::MissingKeys,
            Self::AuthFailed { .. } | Self::SecretForbidden { .. } => Reason::AuthFailed,
            Self::TokenUnreadable { .. } => Reason::TokenUnreadable,
            Self::Unreachable { .. } | Self::UnexpectedStatus { .. } => Reason::Unreachable,
            Self::Invalid { .. } | Self::NotBuiltIn => Reason::InvalidSpec,
        }
    }

    /// The upstream's wish for a pause, if it had one.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
