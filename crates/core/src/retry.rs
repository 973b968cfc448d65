//! What an answer asks for, as data apart from any error text.
//!
//! Whoever speaks to the API server or an upstream maps its errors into [`Retry`] once, at the edge; everything behind
//! decides by this closed list. The marks by which the API server's answers are told apart (two permanent 500s, four
//! kinds of 403, two kinds of 404 and of 409) are the edge's business, their consequences are here.

use std::time::Duration;

/// Class of a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retry {
    /// 409: the object changed since it was read, or has another UID now. Reading again cures it.
    Conflict,
    /// 409 with the cause `FieldManagerConflict`: another manager owns a field. Reading again does not cure it.
    FieldOwned,
    /// 409 on create: it exists, perhaps because an earlier answer was lost (C35).
    AlreadyExists,
    /// 404 as a `Status`: this object is not there (any more).
    NotFound,
    /// 404 as plain text: the kind is not served; its CRD is missing or was removed.
    KindMissing,
    /// 410, or an `ERROR` event with that code in a watch: the resourceVersion has expired; list again.
    Gone,
    /// 429, or 503 with `Retry-After`, or a 403 that says so: slow down.
    Throttled {
        /// The server's wish, already bounded by [`crate::retry_after`]; `None` if it sent no valid one.
        retry_after: Option<Duration>,
    },
    /// 401: the credential is not accepted, for example just rotated.
    Unauthorized,
    /// 403 by RBAC: a right is missing; somebody may grant it at any time.
    Forbidden,
    /// 403 or 422 by an admission policy or webhook; somebody may change it at any time.
    Denied,
    /// 403 `exceeded quota`: passes again as soon as the quota is lifted (C29).
    QuotaExceeded,
    /// 403 with the cause `NamespaceTerminating`: creates will fail until the namespace is gone.
    NamespaceTerminating,
    /// 400 or 422: this body is wrong and stays wrong.
    Invalid,
    /// 500 `field not declared in schema`: the installed CRD is older than this program.
    SchemaOutdated,
    /// 413, or 500 `etcdserver: request is too large`: this body is too big and stays too big.
    TooLarge,
    /// No answer, or one that was cut short: refused connection, TLS, reset, unreadable body.
    Unreachable,
    /// Our own deadline passed; the server may or may not have acted.
    Timeout,
    /// Any other 5xx.
    ServerError,
}

/// What to do about a [`Retry`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Read the object and decide again, at once. Whoever loops on it counts: a second one in a row waits.
    Reread,
    /// Start again from a list, with the watch's own jittered pause.
    Relist,
    /// Try again after the backoff's wait, and not before `floor` has passed.
    Wait {
        /// The least time to wait.
        floor: Option<Duration>,
    },
    /// Sending the same again cannot succeed. Decide again when what would be sent has changed, or on the next relist
    /// (every change of a CRD causes one).
    Stop,
}

impl Retry {
    /// Class of an HTTP status when nothing else is known about the answer. `retry_after` is the parsed header.
    pub const fn of_status(status: u16, retry_after: Option<Duration>) -> Self {
        match (status, retry_after) {
            (429, _) | (503, Some(_)) => Self::Throttled { retry_after },
            (401, _) => Self::Unauthorized,
            (403, _) => Self::Forbidden,
            (404, _) => Self::NotFound,
            (408 | 504, _) => Self::Timeout,
            (409, _) => Self::Conflict,
            (410, _) => Self::Gone,
            (413, _) => Self::TooLarge,
            (500.., _) => Self::ServerError,
            (..200, _) => Self::Unreachable,
            // A redirect that was not followed is as final as a bad request: the address is wrong.
            _ => Self::Invalid,
        }
    }

    /// What to do next.
    pub const fn step(self) -> Step {
        match self {
            Self::Conflict | Self::AlreadyExists | Self::NotFound => Step::Reread,
            Self::Gone => Step::Relist,
            Self::Throttled { retry_after } => Step::Wait { floor: retry_after },
            Self::Invalid | Self::SchemaOutdated | Self::TooLarge => Step::Stop,
            Self::FieldOwned
            | Self::KindMissing
            | Self::Unauthorized
            | Self::Forbidden
            | Self::Denied
            | Self::QuotaExceeded
            | Self::NamespaceTerminating
            | Self::Unreachable
            | Self::Timeout
            | Self::ServerError => Step::Wait { floor: None },
        }
    }

    /// True if the request may have been carried out although no good answer came: a create may find its object, a
    /// guarded write may conflict with itself.
    pub const fn may_have_acted(self) -> bool {
        matches!(self, Self::Unreachable | Self::Timeout | Self::ServerError)
    }

    /// Stable word for metrics and logs.
    pub const fn category(self) -> &'static str {
        match self {
            Self::Conflict => "Conflict",
            Self::FieldOwned => "FieldOwned",
            Self::AlreadyExists => "AlreadyExists",
            Self::NotFound => "NotFound",
            Self::KindMissing => "KindMissing",
            Self::Gone => "Gone",
            Self::Throttled { .. } => "Throttled",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::Denied => "Denied",
            Self::QuotaExceeded => "QuotaExceeded",
            Self::NamespaceTerminating => "NamespaceTerminating",
            Self::Invalid => "Invalid",
            Self::SchemaOutdated => "SchemaOutdated",
            Self::TooLarge => "TooLarge",
            Self::Unreachable => "Unreachable",
            Self::Timeout => "Timeout",
            Self::ServerError => "ServerError",
        }
    }
}

#[cfg(test)]
mod tests;
