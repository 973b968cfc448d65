//! The tower layer around each call: asks the server to answer in time, gives up if it does not, translates pushback into
//! a form kube can read, and reports the outcome.
//!
//! The body of an ordinary answer counts against the deadline too, so it is collected here; kube would collect it anyway,
//! but for ever. A watch only has to begin in time: its stream is guarded by the watcher.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use http_body::Body;
use http_body_util::{BodyExt as _, Full};
use tower::{BoxError, Layer, Service};
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use super::{AnswerBody, Call, Options, Verb, pushback};
use crate::args::{ClientArgs, shown};

/// How long the kinds of calls may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// A call on one object, answer included.
    pub single: Duration,
    /// One page of a list; also how long a watch may take to begin.
    pub list: Duration,
}

/// How a call ended, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The server answered with this HTTP status.
    Code(u16),
    /// No answer within the deadline.
    Late,
    /// The connection could not be made or broke.
    Broken,
}

/// Told the outcome of each call and the time it took.
pub type Observer = Arc<dyn Fn(&Call, Answer, Duration) + Send + Sync>;

/// No answer came within the deadline; whether the server acted is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call}: no answer within {}", shown(*after))]
pub struct NoAnswer {
    /// What was asked.
    pub call: Call,
    /// The deadline.
    pub after: Duration,
}

/// Makes [`CallService`]s.
#[derive(Clone)]
pub struct CallLayer(Options);

/// See the module's documentation.
#[derive(Clone)]
pub struct CallService<S> {
    inner: S,
    options: Options,
}

impl Deadlines {
    /// The deadline of a call by its verb.
    pub const fn of(&self, verb: Verb) -> Duration {
        match verb {
            Verb::List | Verb::Watch | Verb::DeleteCollection => self.list,
            _ => self.single,
        }
    }
}

impl From<&ClientArgs> for Deadlines {
    fn from(args: &ClientArgs) -> Self {
        Self { single: args.request_timeout.get(), list: args.list_timeout.get() }
    }
}

impl Answer {
    /// The value of a metric's `code` label: a closed set.
    pub fn label(self) -> String {
        match self {
            Self::Code(code) => code.to_string(),
            Self::Late => "timeout".to_owned(),
            Self::Broken => "broken".to_owned(),
        }
    }
}

impl CallLayer {
    /// A layer with these deadlines, clock and observer.
    pub const fn new(options: Options) -> Self {
        Self(options)
    }
}

impl<S> Layer<S> for CallLayer {
    type Service = CallService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        CallService { inner, options: self.0.clone() }
    }
}

impl<S, In, Out> Service<Request<In>> for CallService<S>
where
    S: Service<Request<In>, Response = Response<Out>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    Out: Body<Data = Bytes> + Send + 'static,
    Out::Error: Into<BoxError>,
{
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<In>) -> Self::Future {
        let call = Call::of(request.method(), request.uri());
        let limit = self.options.deadlines.of(call.verb);
        if call.verb != Verb::Watch {
            *request.uri_mut() = with_server_timeout(request.uri(), limit);
        }
        let answer = self.inner.call(request);
        let options = self.options.clone();
        let span = tracing::info_span!("api", otel.name = %call, otel.kind = "client", code = Empty);
        let counted = async move {
            let begun = options.clock.now();
            let result = match tokio::time::timeout(limit, answered(&call, answer, &options)).await {
                Ok(result) => result,
                Err(_elapsed) => Err(NoAnswer { call: call.clone(), after: limit }.into()),
            };
            let outcome = match &result {
                Ok(response) => Answer::Code(response.status().as_u16()),
                Err(error) if error.is::<NoAnswer>() => Answer::Late,
                Err(_) => Answer::Broken,
            };
            let took = options.clock.now().saturating_sub(begun);
            let code = outcome.label();
            Span::current().record("code", &code);
            tracing::trace!(%call, code, millis = took.as_millis(), "API call");
            if let Some(observer) = &options.observer {
                observer(&call, outcome, took);
            }
            result
        };
        Box::pin(counted.instrument(span))
    }
}

/// Waits for the head of the answer and, unless it is a watch that began, for its body.
async fn answered<Out, E>(
    call: &Call,
    answer: impl Future<Output = Result<Response<Out>, E>>,
    options: &Options,
) -> Result<Response<AnswerBody>, BoxError>
where
    Out: Body<Data = Bytes> + Send + 'static,
    Out::Error: Into<BoxError>,
    E: Into<BoxError>,
{
    let (mut head, body) = answer.await.map_err(Into::into)?.into_parts();
    let failed = head.status.is_client_error() || head.status.is_server_error();
    if call.verb == Verb::Watch && !failed {
        return Ok(Response::from_parts(head, body.map_err(Into::into).boxed_unsync()));
    }
    let mut bytes = body.collect().await.map_err(Into::into)?.to_bytes();
    if failed && let Some(rewritten) = pushback::readable(&head, &bytes, options.clock.wall()) {
        head.headers.remove(http::header::CONTENT_LENGTH);
        bytes = rewritten;
    }
    Ok(Response::from_parts(head, Full::new(bytes).map_err(|never| match never {}).boxed_unsync()))
}

/// Appends `timeout=`: the server gives up a second before we do, and its fairness queue after a quarter of that, so that
/// a 429 reaches us as a 429 and not as our own deadline.
fn with_server_timeout(uri: &Uri, limit: Duration) -> Uri {
    let seconds = limit.as_secs().saturating_sub(1).max(1);
    let path = uri.path();
    let query = uri.query().filter(|query| !query.is_empty()).map_or(String::new(), |query| format!("{query}&"));
    let mut parts = uri.clone().into_parts();
    let Ok(extended) = format!("{path}?{query}timeout={seconds}s").parse() else {
        return uri.clone();
    };
    parts.path_and_query = Some(extended);
    Uri::from_parts(parts).unwrap_or_else(|_| uri.clone())
}
