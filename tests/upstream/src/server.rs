//! Listens, reads one request after another, and answers each: record, wait, check the token, meter, misbehave, answer.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::Timestamp;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::behaviour::{Fault, Limit, RetryAfter};
use crate::fault::{self, Alteration, Body};
use crate::journal::Outcome;
use crate::meter::Verdict;
use crate::request::{Call, Request};
use crate::upstream::Shared;
use crate::{azure, control, ferrvault};

/// Largest request that is read, in bytes.
const MOST_READ: usize = 1 << 20;

/// An answer before it is on the wire.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) retry_after: Vec<String>,
    content_type: &'static str,
    length: Option<u64>,
    body: Body,
}

/// The connection is to be closed without an answer.
#[derive(Debug, thiserror::Error)]
#[error("told to close the connection")]
struct Closed;

impl Reply {
    pub(crate) fn json(status: u16, value: &Value) -> Self {
        let body = fault::full(value.to_string().into_bytes());
        Self { status, retry_after: Vec::new(), content_type: "application/json", length: None, body }
    }

    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(self.body);
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::IM_A_TEAPOT);
        let headers = response.headers_mut();
        headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(self.content_type));
        if let Some(length) = self.length {
            headers.insert(http::header::CONTENT_LENGTH, length.into());
        }
        for value in self.retry_after {
            if let Ok(value) = http::HeaderValue::from_bytes(value.as_bytes()) {
                headers.append(http::header::RETRY_AFTER, value);
            }
        }
        response
    }
}

/// Serves until `stop`; each connection is a task of its own.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    shared: Arc<Shared>,
    stop: CancellationToken,
) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        // A client that left before it was accepted is no reason to stop.
        let Ok((stream, _)) = accepted else { continue };
        let (tls, shared, stop) = (tls.clone(), Arc::clone(&shared), stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = connection(stream, tls, shared) => {}
            }
        });
    }
}

async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    let Some(tls) = tls else { return requests(stream, "http", shared).await };
    if let Ok(stream) = tls.accept(stream).await {
        requests(stream, "https", shared).await;
    }
}

async fn requests(stream: impl AsyncRead + AsyncWrite + Unpin, scheme: &'static str, shared: Arc<Shared>) {
    let service = service_fn(move |request: http::Request<Incoming>| {
        let shared = Arc::clone(&shared);
        async move {
            let (head, body) = request.into_parts();
            let body = Limited::new(body, MOST_READ)
                .collect()
                .await
                .map_or_else(|_| Bytes::new(), http_body_util::Collected::to_bytes);
            answer(&shared, &Request::new(&head, body, scheme)).await
        }
    });
    // An error here is the client leaving, or our own fault closing the connection.
    let _ = http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(shared: &Shared, request: &Request) -> Result<Response<Body>, Closed> {
    let call = request.call();
    if call == Call::Control {
        return Ok(control::answer(shared, request).into_response());
    }
    let token = shared.token_of(request);
    let number = shared.sent(request, token.clone());
    let done = |outcome, status| shared.answered(number, token.as_deref(), outcome, status);
    shared.clock.wait(shared.read(|state| state.behaviour.latency)).await;

    if let Some(refusal) = unauthorized(shared, &call, request, token.as_deref()) {
        done(Outcome::Admitted, Some(refusal.status));
        return Ok(refusal.into_response());
    }
    if let Some(token) = token.as_deref()
        && let Some(refusal) = refused(shared, &call, token)
    {
        done(Outcome::Refused, Some(refusal.status));
        return Ok(refusal.into_response());
    }
    let fault = shared.write(|state| state.behaviour.fault(&request.target, token.as_deref()));
    let reply = match &fault {
        None | Some(Fault::TruncatedValue | Fault::ContentType(_)) => right(shared, &call, request, fault.as_ref()),
        Some(Fault::Hang) => {
            done(Outcome::Faulted, None);
            std::future::pending::<Infallible>().await;
            return Err(Closed);
        }
        Some(Fault::Status { code, retry_after }) => {
            let mut reply = error(&call, *code, "Told", "told to fail, request 8f14e45f");
            reply.retry_after.extend(retry_after.clone());
            reply
        }
        Some(Fault::Echo(code)) => {
            let sent = String::from_utf8_lossy(&request.body);
            let shown = request.header("authorization").unwrap_or_default();
            error(&call, *code, "Told", &format!("cannot accept {shown} {sent}"))
        }
        Some(other) => {
            let Some((content_type, length, body)) = fault::body(other) else {
                done(Outcome::Faulted, None);
                return Err(Closed);
            };
            Reply { status: 200, retry_after: Vec::new(), content_type, length, body }
        }
    };
    done(if fault.is_some() { Outcome::Faulted } else { Outcome::Admitted }, Some(reply.status));
    Ok(reply.into_response())
}

/// The answer of an upstream in order.
fn right(shared: &Shared, call: &Call, request: &Request, fault: Option<&Fault>) -> Reply {
    let alter = Alteration(fault);
    match call {
        Call::AzureSecret { name, version } => {
            shared.read(|state| azure::secret(&state.behaviour.azure, request, name, version.as_deref(), alter))
        }
        Call::AzureKey { name, version } => {
            shared.read(|state| azure::key(&state.behaviour.azure, request, name, version.as_deref()))
        }
        Call::AzureToken { .. } => azure::token_client(request).map_or_else(
            |refusal| refusal,
            |client| {
                let seconds = shared.read(|state| state.behaviour.azure.token_seconds);
                azure::token(&shared.issue("aad.", &client, seconds), seconds)
            },
        ),
        Call::ManagedIdentity => azure::identity_client(request).map_or_else(
            |refusal| refusal,
            |client| {
                let seconds = shared.read(|state| state.behaviour.azure.token_seconds);
                let token = shared.issue("aad.", &client, seconds);
                azure::identity_token(&token, request, &client, seconds, shared.clock.wall().as_second())
            },
        ),
        Call::FerrHealth => Reply::json(200, &serde_json::json!({"status": "ok"})),
        Call::FerrExchange => ferrvault::exchange_cluster(request).map_or_else(
            |refusal| refusal,
            |(cluster, _)| {
                let seconds = shared.read(|state| state.behaviour.ferrvault.token_seconds);
                let until = shared.clock.wall().checked_add(Duration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
                ferrvault::exchanged(&shared.issue("ffclust_", &cluster, seconds), until)
            },
        ),
        Call::FerrReveal { project, vault } => {
            shared.read(|state| ferrvault::reveal(&state.behaviour.ferrvault, request, project, vault, alter))
        }
        Call::Control | Call::Unknown => error(call, 404, "NotFound", "no such resource"),
    }
}

/// A call without a token that would be accepted.
fn unauthorized(shared: &Shared, call: &Call, request: &Request, token: Option<&str>) -> Option<Reply> {
    let is_refused = |name: &str| shared.read(|state| state.behaviour.refused.iter().any(|refused| refused == name));
    match call {
        Call::AzureSecret { .. } | Call::AzureKey { .. } => {
            let good = token.is_some_and(|name| shared.is_issued(request) && !is_refused(name));
            (!good).then(|| azure::error(401, "Unauthorized", "AKV10000: Request is missing a Bearer or PoP token."))
        }
        Call::FerrReveal { .. } => {
            let issued = token.is_none_or(|name| request.bearer() == Some(name)) || shared.is_issued(request);
            let good = issued && token.is_some_and(|name| !is_refused(name));
            (!good).then(|| ferrvault::error(401, "unauthorized"))
        }
        Call::AzureToken { .. } => {
            let form = request.form();
            ["client_id", "client_assertion"]
                .iter()
                .any(|field| form.get(*field).is_some_and(|name| is_refused(name)))
                .then(|| {
                    azure::oauth_error(
                        401,
                        "invalid_client",
                        "AADSTS70021: No matching federated identity record found.",
                    )
                })
        }
        Call::FerrExchange => {
            let (cluster, token) = ferrvault::exchange_cluster(request).ok()?;
            (is_refused(&cluster) || is_refused(&token)).then(|| ferrvault::error(401, "token not accepted"))
        }
        Call::Control | Call::ManagedIdentity | Call::FerrHealth | Call::Unknown => None,
    }
}

/// The limit's refusal, in the form of the API that was called.
fn refused(shared: &Shared, call: &Call, token: &str) -> Option<Reply> {
    let now = shared.clock.now();
    let (verdict, retry_after) = shared.write(|state| {
        let limit = state.behaviour.limit_of(token);
        let retry_after = match limit {
            Limit::Unlimited => RetryAfter::None,
            Limit::Bucket { retry_after, .. } | Limit::Window { retry_after, .. } => retry_after.clone(),
        };
        (state.meters.entry(token.to_owned()).or_default().call(limit, now), retry_after)
    });
    let Verdict::Refuse { status, wait } = verdict else { return None };
    let mut reply = error(call, status, "Throttled", "request was throttled: too many requests were received");
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    reply.retry_after = match retry_after {
        RetryAfter::None => Vec::new(),
        RetryAfter::Seconds => vec![seconds.to_string()],
        // A date has no fractions: one more second, so that it is never early.
        RetryAfter::Date => vec![http_date(shared.clock.wall(), Duration::from_secs(seconds + 1))],
        RetryAfter::Raw(values) => values,
    };
    Some(reply)
}

fn http_date(now: Timestamp, wait: Duration) -> String {
    httpdate::fmt_http_date(std::time::SystemTime::from(now.checked_add(wait).unwrap_or(now)))
}

/// An error in the form of the API that was called.
fn error(call: &Call, status: u16, code: &str, message: &str) -> Reply {
    match call {
        Call::FerrExchange | Call::FerrHealth | Call::FerrReveal { .. } => ferrvault::error(status, message),
        Call::AzureToken { .. } | Call::ManagedIdentity => {
            azure::oauth_error(status, "temporarily_unavailable", message)
        }
        Call::AzureKey { .. } | Call::AzureSecret { .. } | Call::Control | Call::Unknown => {
            azure::error(status, code, message)
        }
    }
}

/// The listening socket of an address.
pub(crate) async fn bind(address: std::net::SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}
