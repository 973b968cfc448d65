//! Makes the server's pushback readable. Fairness answers 429 as plain text with a `Retry-After` header; kube turns that
//! into an error without the wait. Rewriting the body into the `Status` the API server itself uses elsewhere lets kube
//! carry `retryAfterSeconds` to whoever decides about the next attempt.

use bytes::Bytes;
use http::header::{DATE, RETRY_AFTER};
use http::response::Parts;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use kube::core::Status;
use kube::core::response::{StatusDetails, reason};
use muster_core::{retry_after, text};

/// A plain-text answer of a proxy can be a whole page; its beginning says what it is.
const MAX_TEXT: usize = 512;

/// The body to hand to kube instead of `body`, or `None` if it is fine as it is.
///
/// `now` serves a `Retry-After` date only if the answer carries no `Date` of its own: the server's clock is compared with
/// itself, so that our wall clock may be wrong (C54).
pub(super) fn readable(head: &Parts, body: &[u8], now: Timestamp) -> Option<Bytes> {
    let wait = wait_seconds(&head.headers, now);
    let pushback = matches!(head.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    let mut status = match told(body) {
        Told::Status(status) if wait.is_some() && retry_after_seconds(&status) == 0 => *status,
        Told::Json => Status::failure(&told_text(body), reason_of(head.status)),
        Told::Text if pushback || wait.is_some() => Status::failure(&told_text(body), reason_of(head.status)),
        Told::Status(_) | Told::Text => return None,
    };
    status.code = head.status.as_u16();
    if let Some(wait) = wait {
        status.details.get_or_insert_with(no_details).retry_after_seconds = wait;
    }
    serde_json::to_vec(&status).ok().map(Bytes::from)
}

/// What an error body is. Every field of kube's `Status` is optional, so any JSON object would pass for one, with code 0.
enum Told {
    Status(Box<Status>),
    Json,
    Text,
}

fn told(body: &[u8]) -> Told {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(body) else {
        return Told::Text;
    };
    if value.get("kind").and_then(serde_json::Value::as_str) != Some("Status") {
        return if value.is_object() { Told::Json } else { Told::Text };
    }
    serde_json::from_value(value).map_or(Told::Json, |status| Told::Status(Box::new(status)))
}

/// Whole seconds, rounded up: returning early would be refused again.
fn wait_seconds(headers: &HeaderMap, now: Timestamp) -> Option<u32> {
    let date = headers.get(DATE).and_then(|date| date.to_str().ok());
    let server_now = date.and_then(|date| rfc2822::parse(date).ok()).map(|date| date.timestamp());
    let wait = retry_after::longest(headers.get_all(RETRY_AFTER), server_now.unwrap_or(now))?;
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    u32::try_from(seconds).ok()
}

fn retry_after_seconds(status: &Status) -> u32 {
    status.details.as_ref().map_or(0, |details| details.retry_after_seconds)
}

/// The API server's own reason for these codes; none for others.
const fn reason_of(code: StatusCode) -> &'static str {
    match code {
        StatusCode::TOO_MANY_REQUESTS => reason::TOO_MANY_REQUESTS,
        StatusCode::SERVICE_UNAVAILABLE => reason::SERVICE_UNAVAILABLE,
        StatusCode::UNAUTHORIZED => reason::UNAUTHORIZED,
        StatusCode::FORBIDDEN => reason::FORBIDDEN,
        StatusCode::GATEWAY_TIMEOUT => reason::TIMEOUT,
        _ => reason::UNKNOWN,
    }
}

fn told_text(body: &[u8]) -> String {
    text::cut(&text::single_line(&String::from_utf8_lossy(body)), MAX_TEXT).into_owned()
}

const fn no_details() -> StatusDetails {
    StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-30T12:00:00Z";

    fn check(code: u16, headers: &[(&str, &str)], body: &str) -> Option<Status> {
        let mut response = http::Response::builder().status(code);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        let (head, ()) = response.body(()).unwrap().into_parts();
        let rewritten = readable(&head, body.as_bytes(), NOW.parse().unwrap())?;
        Some(serde_json::from_slice(&rewritten).unwrap())
    }

    #[test]
    fn c33_fairness_429_as_plain_text_keeps_its_wait() {
        let told = "Too many requests, please try again later.";
        let status = check(429, &[("retry-after", "2")], told).unwrap();
        assert_eq!((status.code, status.reason.as_str(), status.message.as_str()), (429, "TooManyRequests", told));
        assert_eq!(retry_after_seconds(&status), 2);

        let without = check(429, &[], told).unwrap();
        assert_eq!((without.code, retry_after_seconds(&without)), (429, 0));
    }

    #[test]
    fn a_date_is_measured_by_the_servers_own_clock() {
        let date = ("retry-after", "Mon, 30 Nov 2026 12:00:30 GMT");
        assert_eq!(retry_after_seconds(&check(503, &[date], "busy").unwrap()), 30);
        // The server's clock is ten minutes behind ours, and its answer means five seconds.
        let skewed = [("retry-after", "Mon, 30 Nov 2026 11:50:05 GMT"), ("date", "Mon, 30 Nov 2026 11:50:00 GMT")];
        assert_eq!(retry_after_seconds(&check(503, &skewed, "busy").unwrap()), 5);
    }

    #[test]
    fn a_status_of_the_server_is_kept_and_only_completed() {
        let told = r#"{"kind":"Status","code":429,"message":"storage is (re)initializing","reason":"TooManyRequests","details":{"retryAfterSeconds":1}}"#;
        assert_eq!(check(429, &[("retry-after", "9")], told), None);
        let bare = r#"{"kind":"Status","code":504,"message":"m","reason":"Timeout"}"#;
        let status = check(504, &[("retry-after", "1")], bare).unwrap();
        assert_eq!((status.reason.as_str(), retry_after_seconds(&status)), ("Timeout", 1));
        assert_eq!(check(409, &[], r#"{"kind":"Status","code":409,"reason":"Conflict"}"#), None);
    }

    #[test]
    fn json_of_a_proxy_does_not_become_a_status_with_code_0() {
        let status = check(502, &[], r#"{"error":"bad gateway"}"#).unwrap();
        assert_eq!(status.code, 502);
        assert!(status.message.contains("bad gateway"));
    }

    #[test]
    fn plain_text_without_pushback_is_left_to_kube() {
        assert_eq!(check(404, &[], "404 page not found"), None);
        assert_eq!(check(500, &[], "boom"), None);
    }
}
