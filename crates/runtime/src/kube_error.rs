//! What the API server meant. kube hands over a code, a reason and a text; the same code can ask for opposite reactions
//! (a 409 to read again or to give up, a 500 that no repetition cures), so every error is classed here once.

use std::time::Duration;

use kube::core::Status;
use muster_core::retry::Retry;
use muster_core::text;

use crate::client::NoAnswer;

/// Longest sentence of [`Verdict::sentence`], in bytes; it goes into readiness, logs and Events.
const MAX_SENTENCE: usize = 300;

/// An error of the API server, classed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What it asks for.
    pub retry: Retry,
    /// One line: what happened and, where somebody can do something, what.
    pub sentence: String,
}

impl Verdict {
    /// Stable name for metrics, readiness and Events.
    pub const fn category(&self) -> &'static str {
        self.retry.category()
    }

    /// True if it will not pass by itself: somebody has to grant a right, apply a CRD, change a policy or a quota.
    pub const fn needs_somebody(&self) -> bool {
        matches!(
            self.retry,
            Retry::Forbidden
                | Retry::Denied
                | Retry::QuotaExceeded
                | Retry::NamespaceTerminating
                | Retry::KindMissing
                | Retry::SchemaOutdated
                | Retry::TooLarge
                | Retry::Invalid
        )
    }

    /// A deadline of our own that was shorter than the client's.
    pub fn no_answer(call: &str, after: Duration) -> Self {
        let after = crate::args::shown(after);
        Self::new(Retry::Timeout, &format!("the API server does not answer: {call}: no answer within {after}"))
    }

    fn new(retry: Retry, sentence: &str) -> Self {
        Self { retry, sentence: text::cut(&text::single_line(sentence), MAX_SENTENCE).into_owned() }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.sentence)
    }
}

/// Classes an error of kube's client.
pub fn classify(error: &kube::Error) -> Verdict {
    match error {
        kube::Error::Api(status) => classify_status(status),
        kube::Error::Auth(source) => {
            Verdict::new(Retry::Unauthorized, &format!("cannot read or renew the credential: {}", chain(source)))
        }
        other => transport(other),
    }
}

/// Classes an error of a watch.
pub fn classify_watch(error: &kube::runtime::watcher::Error) -> Verdict {
    use kube::runtime::watcher::Error;
    match error {
        Error::InitialListFailed(source) | Error::WatchStartFailed(source) | Error::WatchFailed(source) => {
            classify(source)
        }
        Error::WatchError(status) => classify_status(status),
        Error::NoResourceVersion => {
            Verdict::new(Retry::ServerError, "the API server sent a list or event without resourceVersion")
        }
    }
}

/// Classes a `Status` of the API server, whether it came as an answer or inside a watch.
pub fn classify_status(status: &Status) -> Verdict {
    let message = status.message.as_str();
    let retry_after = retry_after(status);
    match status.code {
        401 => Verdict::new(
            Retry::Unauthorized,
            "the API server does not accept this credential (401): the pod or its service account may be gone",
        ),
        403 => forbidden(status),
        404 if status.reason != "NotFound" => {
            Verdict::new(Retry::KindMissing, "the API server does not serve this kind (404): apply Muster's CRDs")
        }
        404 => Verdict::new(Retry::NotFound, message),
        409 if status.reason == "AlreadyExists" => Verdict::new(Retry::AlreadyExists, message),
        409 if has_cause(status, "FieldManagerConflict") => {
            Verdict::new(Retry::FieldOwned, &format!("another field manager owns a field we write: {message}"))
        }
        409 => Verdict::new(Retry::Conflict, message),
        410 => Verdict::new(Retry::Gone, "the resourceVersion has expired (410); listing again"),
        413 => Verdict::new(Retry::TooLarge, &format!("the object is too large for the API server: {message}")),
        422 | 400 if is_denial(message) => denied(message),
        429 => Verdict::new(Retry::Throttled { retry_after }, &throttled(message)),
        503 if retry_after.is_some() => {
            Verdict::new(Retry::Throttled { retry_after }, &format!("the API server is not available (503): {message}"))
        }
        500 if is_schema_outdated(message) => Verdict::new(
            Retry::SchemaOutdated,
            &format!("the installed CRD is older than this program; apply the CRDs of this release: {message}"),
        ),
        500 if is_too_large(message) => {
            Verdict::new(Retry::TooLarge, &format!("the object is too large for etcd: {message}"))
        }
        500 if is_malformed_apply(message) => {
            Verdict::new(Retry::Invalid, &format!("the API server cannot apply this: {message}"))
        }
        504 => Verdict::new(Retry::Timeout, &format!("the API server did not answer in time (504): {message}")),
        code => {
            Verdict::new(Retry::of_status(code, retry_after), &format!("the API server answered {code}: {message}"))
        }
    }
}

/// The four kinds of 403, told apart by their marks.
fn forbidden(status: &Status) -> Verdict {
    let message = status.message.as_str();
    if has_cause(status, "NamespaceTerminating") {
        return Verdict::new(Retry::NamespaceTerminating, "the namespace is being deleted and accepts nothing new");
    }
    if message.contains("exceeded quota") {
        return Verdict::new(Retry::QuotaExceeded, &format!("a ResourceQuota refuses the object; raise it: {message}"));
    }
    if is_denial(message) {
        return denied(message);
    }
    match missing_right(message) {
        Some(right) => Verdict::new(
            Retry::Forbidden,
            &format!("RBAC does not allow to {right}; grant it in the Role or ClusterRole"),
        ),
        None => Verdict::new(Retry::Forbidden, &format!("the API server forbids it (403): {message}")),
    }
}

fn denied(message: &str) -> Verdict {
    Verdict::new(Retry::Denied, &format!("an admission policy or webhook denies it: {message}"))
}

/// `cannot patch resource "executors/status" in API group "config.ratify.dev" in the namespace "a"` becomes
/// `patch executors/status in namespace a`.
fn missing_right(message: &str) -> Option<String> {
    let (_, rest) = message.split_once(" cannot ")?;
    let (verb, rest) = rest.split_once(" resource \"")?;
    let (resource, rest) = rest.split_once('"')?;
    let namespace = rest.split_once("in the namespace \"").and_then(|(_, rest)| rest.split_once('"'));
    Some(match namespace {
        Some((namespace, _)) => format!("{verb} {resource} in namespace {namespace}"),
        None => format!("{verb} {resource}"),
    })
}

/// ValidatingAdmissionPolicies and webhooks both say this, with 403, 422 or 400 as their authors chose.
fn is_denial(message: &str) -> bool {
    message.contains("denied request:")
        || message.contains("denied the request")
        || message.contains("ValidatingAdmissionPolicy '")
}

fn is_schema_outdated(message: &str) -> bool {
    message.contains("field not declared in schema")
}

/// A list-map with a duplicate or missing key: permanent as well, but a fault of the body, not of the CRD.
fn is_malformed_apply(message: &str) -> bool {
    message.contains("failed to create typed patch object")
}

fn is_too_large(message: &str) -> bool {
    message.contains("request is too large") || message.contains("trying to send message larger than max")
}

fn throttled(message: &str) -> String {
    if message.contains("storage is (re)initializing") {
        return "the API server is still loading this kind (429)".to_owned();
    }
    format!("the API server asks to slow down (429): {message}")
}

fn has_cause(status: &Status, reason: &str) -> bool {
    status.details.iter().flat_map(|details| &details.causes).any(|cause| cause.reason == reason)
}

fn retry_after(status: &Status) -> Option<Duration> {
    let seconds = u64::from(status.details.as_ref()?.retry_after_seconds);
    (seconds > 0).then(|| Duration::from_secs(seconds).min(muster_core::retry_after::MAX))
}

/// Everything below HTTP.
fn transport(error: &kube::Error) -> Verdict {
    if let kube::Error::Service(source) = error
        && let Some(late) = source.downcast_ref::<NoAnswer>()
    {
        return Verdict::new(Retry::Timeout, &format!("the API server does not answer: {late}"));
    }
    let io = causes(error).find_map(|cause| cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind));
    let detail = chain(error);
    let sentence = match io {
        Some(std::io::ErrorKind::ConnectionRefused) => "the API server refuses connections".to_owned(),
        Some(std::io::ErrorKind::TimedOut) => "the API server cannot be reached: connecting timed out".to_owned(),
        _ => format!("the API server cannot be reached: {detail}"),
    };
    match error {
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => {
            Verdict::new(Retry::Unreachable, &format!("the API server's answer cannot be read: {detail}"))
        }
        kube::Error::BuildRequest(_) | kube::Error::HttpError(_) => {
            Verdict::new(Retry::Invalid, &format!("the request cannot be built: {detail}"))
        }
        _ => Verdict::new(Retry::Unreachable, &sentence),
    }
}

fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source()).take(16)
}

/// The innermost causes only: kube's and hyper's wrappers repeat each other.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let texts: Vec<String> = causes(error).map(ToString::to_string).collect();
    let own = texts.len().saturating_sub(2);
    texts[own..].join(": ")
}

#[cfg(test)]
mod tests;
