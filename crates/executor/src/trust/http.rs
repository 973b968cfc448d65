//! Calls to upstreams over HTTP: bounded in time and bytes, never repeated by the client itself, and each paid for with a
//! permit of a gate, so that no call can pass one by.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use muster_core::gate::Answer;
use muster_core::retry_after;
use muster_core::text::{cut, single_line};
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Method, NoProxy, Proxy, Url, redirect, retry};
use zeroize::Zeroizing;

use super::gate::Permit;
use super::time::Time;
use crate::compile::Secret;

/// Deadline of one call, its body included.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// Largest body that is read, in bytes. A vault's largest secret has 25 KiB.
const BODY_MAX: usize = 1 << 20;

/// Longest excerpt of an upstream's own words in the log, in bytes.
const WORDS_MAX: usize = 500;

/// How upstreams are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpOptions {
    /// Certificate authorities in PEM that are trusted besides the system's.
    pub authorities: Option<Vec<u8>>,
    /// Proxy for `https` addresses.
    pub https_proxy: Option<String>,
    /// Hosts that are reached without it: comma-separated names, domains and networks.
    pub no_proxy: Option<String>,
}

/// Why there is no HTTP client.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The authorities cannot be read.
    #[error("the certificate authorities for upstreams are not PEM")]
    Authorities(#[source] reqwest::Error),
    /// The proxy's address is none.
    #[error("the proxy for upstreams has no valid address")]
    Proxy(#[source] reqwest::Error),
    /// The client cannot be made.
    #[error("the HTTP client for upstreams cannot be made")]
    Client(#[source] reqwest::Error),
}

/// Is told of every call that was sent, for metrics.
pub trait Calls: Send + Sync {
    /// A call of this provider ended: it was `answered`, `throttled`, or it `failed`.
    fn ended(&self, provider: &'static str, outcome: &'static str, took: Duration);
}

/// The HTTP client of all providers.
#[derive(Clone)]
pub struct Http {
    client: Client,
    calls: Option<Arc<dyn Calls>>,
    time: Arc<dyn Time>,
    deadline: Duration,
}

/// What is to be sent.
pub(crate) struct Request {
    method: Method,
    url: Url,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Option<(&'static str, Zeroizing<String>)>,
    /// What must not be repeated in the log, should the upstream repeat it.
    secrets: Vec<Secret>,
}

/// What became of a call.
pub(crate) enum Sent {
    /// The upstream let it in and answered.
    Answered(Received),
    /// The upstream refused it because of its rate.
    Throttled,
    /// There was no answer, or a server error.
    Failed,
}

/// An answer.
pub(crate) struct Received {
    pub(crate) status: u16,
    content_type: String,
    /// `None` if there was more than is read.
    body: Option<Zeroizing<Vec<u8>>>,
}

/// A body that is not what was asked for; the text continues "… answers with".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBody {
    /// More than is read.
    #[error("more than 1 MiB")]
    TooLarge,
    /// An HTML page, most likely of something in between.
    #[error("an HTML page instead of JSON")]
    Html,
    /// Something else.
    #[error("something that is not the expected JSON")]
    NotJson,
}

impl Sent {
    const fn as_str(&self) -> &'static str {
        match self {
            Self::Answered(_) => "answered",
            Self::Throttled => "throttled",
            Self::Failed => "failed",
        }
    }
}

impl Http {
    /// A client. The process must have installed a TLS provider before.
    pub fn new(options: &HttpOptions, time: Arc<dyn Time>) -> Result<Self, HttpError> {
        let authorities = options.authorities.as_deref().unwrap_or_default();
        let authorities = reqwest::Certificate::from_pem_bundle(authorities).map_err(HttpError::Authorities)?;
        let proxy = options.https_proxy.as_ref().map(Proxy::https).transpose().map_err(HttpError::Proxy)?;
        let past = options.no_proxy.as_deref().and_then(NoProxy::from_string);
        let proxy = proxy.map(|proxy| proxy.no_proxy(past));
        let builder = || {
            let builder = Client::builder()
                .user_agent(concat!("muster/", env!("CARGO_PKG_VERSION")))
                .retry(retry::never())
                .redirect(redirect::Policy::none())
                .referer(false)
                .http1_only()
                .pool_idle_timeout(Duration::from_secs(15))
                .no_proxy();
            proxy.iter().fold(builder, |builder, proxy| builder.proxy(proxy.clone()))
        };
        let client = match builder().tls_certs_merge(authorities.clone()).build() {
            Ok(client) => client,
            Err(error) => {
                // Most likely the image has no bundle of authorities. That matters to whoever has https upstreams only.
                let error = causes(&error);
                tracing::warn!(error, "no certificate authorities of the system are trusted by upstream calls");
                builder().tls_certs_only(authorities).build().map_err(HttpError::Client)?
            }
        };
        Ok(Self { client, calls: None, time, deadline: DEADLINE })
    }

    /// The same with another deadline for each call.
    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// The same, and `calls` is told of each call.
    #[must_use]
    pub fn telling(self, calls: Arc<dyn Calls>) -> Self {
        Self { calls: Some(calls), ..self }
    }

    /// Sends one call of `provider` and gives its permit back with what came of it.
    pub(crate) async fn send(&self, permit: Permit, request: &Request, provider: &'static str) -> Sent {
        let begun = self.time.now();
        let sent = self.send_one(permit, request).await;
        if let Some(calls) = &self.calls {
            calls.ended(provider, sent.as_str(), self.time.now().saturating_sub(begun));
        }
        sent
    }

    async fn send_one(&self, permit: Permit, request: &Request) -> Sent {
        let answered = tokio::time::timeout(self.deadline, self.exchange(request)).await;
        let (received, wish) = match answered {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                // Its text has the causes, but never the address, in which a secret could be.
                let error = error.without_url();
                tracing::info!(upstream = request.host(), error = causes(&error), "upstream call failed");
                permit.answered(Answer::Failed);
                return Sent::Failed;
            }
            Err(_) => {
                tracing::info!(upstream = request.host(), deadline = ?self.deadline, "upstream call cut at its deadline");
                permit.answered(Answer::Failed);
                return Sent::Failed;
            }
        };
        let answer = Answer::classify(received.status, wish, received.says_throttled());
        permit.answered(answer);
        if received.status >= 300 {
            let words = request.without_secrets(&received.words());
            tracing::info!(upstream = request.host(), status = received.status, ?answer, words, "upstream answered");
        }
        match answer {
            Answer::Admitted => Sent::Answered(received),
            Answer::Throttled(_) => Sent::Throttled,
            Answer::Failed => Sent::Failed,
        }
    }

    async fn exchange(&self, request: &Request) -> reqwest::Result<(Received, Option<Duration>)> {
        let mut builder = self.client.request(request.method.clone(), request.url.clone());
        for (name, value) in &request.headers {
            builder = builder.header(name, value);
        }
        if let Some((content_type, body)) = &request.body {
            builder = builder.header(CONTENT_TYPE, *content_type).body(body.as_str().to_owned());
        }
        let mut response = builder.send().await?;
        let values = response.headers().get_all(RETRY_AFTER).iter().map(HeaderValue::as_bytes);
        let wish = retry_after::longest(values, self.time.wall());
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_ascii_lowercase();
        let status = response.status().as_u16();
        let mut body = Zeroizing::new(Vec::new());
        let announced = response.content_length().unwrap_or_default();
        let mut fits = announced <= BODY_MAX as u64;
        while fits && let Some(chunk) = response.chunk().await? {
            fits = body.len() + chunk.len() <= BODY_MAX;
            body.extend_from_slice(&chunk);
        }
        Ok((Received { status, content_type, body: fits.then_some(body) }, wish))
    }
}

impl Request {
    pub(crate) fn get(url: Url) -> Self {
        Self { method: Method::GET, url, headers: Vec::new(), body: None, secrets: Vec::new() }
    }

    pub(crate) fn post(url: Url, content_type: &'static str, body: Zeroizing<String>, secret: &Secret) -> Self {
        let body = Some((content_type, body));
        Self { method: Method::POST, url, headers: Vec::new(), body, secrets: vec![secret.clone()] }
    }

    /// Adds a header with a value that is no secret. One that no header can hold is left out.
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((HeaderName::from_static(name), value));
        }
        self
    }

    /// Shows `token` as the bearer's. False if no header can hold it.
    pub(crate) fn bearer(mut self, token: &Secret) -> Option<Self> {
        let text = Zeroizing::new(format!("Bearer {}", token.reveal()));
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        self.headers.push((reqwest::header::AUTHORIZATION, value));
        self.secrets.push(token.clone());
        Some(self)
    }

    fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    fn without_secrets(&self, words: &str) -> String {
        let hide = |text: String, secret: &Secret| text.replace(secret.reveal(), "[hidden]");
        let secrets = self.secrets.iter().filter(|secret| !secret.reveal().is_empty());
        cut(&secrets.fold(words.to_owned(), hide), WORDS_MAX).into_owned()
    }
}

impl Received {
    /// The body as JSON of this form.
    pub(crate) fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, BadBody> {
        let body = self.body.as_ref().ok_or(BadBody::TooLarge)?;
        let is_html = self.content_type.starts_with("text/html");
        serde_json::from_slice(body).map_err(|_| if is_html { BadBody::Html } else { BadBody::NotJson })
    }

    pub(crate) const fn is_success(&self) -> bool {
        matches!(self.status, 200..=299)
    }

    /// Whether the beginning of the body has this word, in any case.
    pub(crate) fn mentions(&self, word: &str) -> bool {
        self.words().to_ascii_lowercase().contains(word)
    }

    /// Whether the body of a refusal speaks of its rate: that is what sets a 403 because of too many calls apart from one
    /// because of rights (external-secrets/external-secrets #4107, and quotas).
    fn says_throttled(&self) -> bool {
        const WORDS: [&str; 5] = ["throttl", "quota", "too many requests", "rate limit", "ratelimit"];
        if self.status != 403 {
            return false;
        }
        WORDS.iter().any(|word| self.mentions(word))
    }

    /// The beginning of the body as text, if it is one.
    fn words(&self) -> String {
        let body = self.body.as_ref().map(|body| body.as_slice()).unwrap_or_default();
        single_line(&String::from_utf8_lossy(body.get(..body.len().min(8 * WORDS_MAX)).unwrap_or_default()))
    }
}

/// An error with its causes on one line.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    cut(&single_line(&text), WORDS_MAX).into_owned()
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
