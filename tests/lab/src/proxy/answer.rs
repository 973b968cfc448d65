//! Answers that the API server did not give, in the forms in which it would have.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{Response, StatusCode};
use serde_json::json;

/// An answer to give instead of the server's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    code: u16,
    retry_after: Option<String>,
    body: Body,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Body {
    /// A `Status` with this message.
    Status(String),
    Plain(String),
}

impl Answer {
    /// A `Status` in JSON, with the reason that belongs to `code`: what the API server itself answers.
    pub fn status(code: u16) -> Self {
        Self { code, retry_after: None, body: Body::Status("made up by a test".to_owned()) }
    }

    /// A `Status` with this message.
    pub fn saying(code: u16, message: &str) -> Self {
        Self { code, retry_after: None, body: Body::Status(message.to_owned()) }
    }

    /// Plain text: what proxies, and some parts of the API server, answer.
    pub fn plain(code: u16, text: &str) -> Self {
        Self { code, retry_after: None, body: Body::Plain(text.to_owned()) }
    }

    /// The refusal of priority and fairness, word for word: 429 in plain text.
    pub fn too_many_requests() -> Self {
        Self::plain(429, "Too many requests, please try again later.")
    }

    /// With a header `Retry-After`: seconds, or a date.
    #[must_use]
    pub fn retry_after(mut self, value: impl Into<String>) -> Self {
        self.retry_after = Some(value.into());
        self
    }

    pub(super) fn response(&self) -> http::Result<Response<Bytes>> {
        let (kind, body) = match &self.body {
            Body::Status(message) => ("application/json", status(self.code, message)),
            Body::Plain(text) => ("text/plain; charset=utf-8", text.clone()),
        };
        let mut response = Response::builder().status(self.code).header(CONTENT_TYPE, kind);
        if let Some(value) = &self.retry_after {
            response = response.header(RETRY_AFTER, value);
        }
        response.body(Bytes::from(body))
    }
}

/// The event with which the API server ends a watch whose resourceVersion is too old. The HTTP status was 200.
pub(super) fn expired_event() -> Bytes {
    let object = status(410, "too old resource version: 1 (2)");
    Bytes::from(format!("{{\"type\":\"ERROR\",\"object\":{object}}}\n"))
}

/// The whole answer to a watch that fails in this way from the beginning.
pub(super) fn expired() -> http::Result<Response<Bytes>> {
    Response::builder().status(StatusCode::OK).header(CONTENT_TYPE, "application/json").body(expired_event())
}

fn status(code: u16, message: &str) -> String {
    let reason = match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    status.to_string()
}
