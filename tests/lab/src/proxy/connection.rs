//! One client's connection: each request is read, judged by the rules, and forwarded on a connection of its own to the
//! API server, so that whatever happens to one client happens to no other.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::{CONNECTION, TRANSFER_ENCODING};
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::task::AbortOnDropHandle;

use super::Seen;
use super::answer::{Answer, expired};
use super::asked::Asked;
use super::relay::{Body, complete, interruptible, streamed};
use super::rule::{Book, Fault};
use super::running::{Interrupt, Running};
use super::wire::{IdleLimit, Wire};

/// What all connections share.
pub(super) struct Shared {
    pub(super) acceptor: TlsAcceptor,
    pub(super) connector: TlsConnector,
    /// The API server.
    pub(super) server: SocketAddr,
    pub(super) idle: IdleLimit,
    pub(super) running: Running,
    book: Mutex<Book>,
    seen: Mutex<Vec<Seen>>,
}

/// A connection to the API server, opened when it is first needed.
#[derive(Default)]
struct Upstream(Option<(SendRequest<Incoming>, AbortOnDropHandle<()>)>);

impl Shared {
    pub(super) fn new(acceptor: TlsAcceptor, connector: TlsConnector, server: SocketAddr) -> Self {
        let (idle, running) = (IdleLimit::none(), Running::default());
        Self { acceptor, connector, server, idle, running, book: Mutex::default(), seen: Mutex::default() }
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves one connection to its end.
pub(super) async fn serve(stream: TcpStream, client: SocketAddr, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true); // slower at worst
    let wire = Wire::new(stream, shared.idle.clone());
    let Ok(tls) = shared.acceptor.accept(wire).await else { return };
    let upstream = Arc::new(tokio::sync::Mutex::new(Upstream::default()));
    let service = service_fn(move |request| {
        let (shared, upstream) = (shared.clone(), upstream.clone());
        async move { handle(request, client, &shared, &mut *upstream.lock().await).await }
    });
    if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(tls), service).await {
        tracing::debug!(%client, "connection: {error}");
    }
}

async fn handle(
    request: Request<Incoming>,
    client: SocketAddr,
    shared: &Shared,
    upstream: &mut Upstream,
) -> io::Result<Response<Body>> {
    let asked = Arc::new(Asked::of(request.method(), request.uri(), request.headers(), client));
    let fault = shared.book().strike(&asked);
    shared.seen().push(Seen { asked: asked.clone(), fault: fault.clone() });
    let mut ticket = shared.running.enter(asked.clone());
    let response = tokio::select! {
        biased;
        interrupt = ticket.interrupted() => match interrupt {
            Interrupt::Silence => std::future::pending().await,
            Interrupt::Cut | Interrupt::Expired => return Err(cut()),
        },
        response = answer(request, fault.as_ref(), shared, upstream) => response?,
    };
    let cut_at = match fault {
        Some(Fault::CutAfter(after)) => Some(Instant::now() + after),
        _ => None,
    };
    Ok(response.map(|body| interruptible(body, ticket, asked.verb == "watch", cut_at)))
}

/// The answer to a request under this fault. An error closes the connection.
async fn answer(
    request: Request<Incoming>,
    fault: Option<&Fault>,
    shared: &Shared,
    upstream: &mut Upstream,
) -> io::Result<Response<Body>> {
    match fault {
        None | Some(Fault::CutAfter(_)) => forward(request, shared, upstream, None).await,
        Some(Fault::Lag(lag)) => forward(request, shared, upstream, Some(*lag)).await,
        Some(Fault::DelayRequest(delay)) => {
            sleep(*delay).await;
            forward(request, shared, upstream, None).await
        }
        Some(Fault::DelayAnswer(delay)) => {
            let response = forward(request, shared, upstream, None).await?;
            sleep(*delay).await;
            Ok(response)
        }
        Some(Fault::StoreThen(instead)) => {
            let stored = forward(request, shared, upstream, None).await?;
            stored.into_body().collect().await?;
            made_up(instead)
        }
        Some(Fault::Answer(instead)) => made_up(instead),
        Some(Fault::Expired) => expired().map(|response| response.map(complete)).map_err(io::Error::other),
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::Cut) => Err(cut()),
    }
}

fn made_up(answer: &Answer) -> io::Result<Response<Body>> {
    answer.response().map(|response| response.map(complete)).map_err(io::Error::other)
}

async fn forward(
    mut request: Request<Incoming>,
    shared: &Shared,
    upstream: &mut Upstream,
    lag: Option<Duration>,
) -> io::Result<Response<Body>> {
    strip(request.headers_mut());
    let sender = upstream.connected(shared).await?;
    let mut response = sender.send_request(request).await.map_err(io::Error::other)?;
    strip(response.headers_mut());
    Ok(response.map(|body| streamed(body, lag)))
}

/// Headers that are about one connection and not about the request.
fn strip(headers: &mut HeaderMap) {
    headers.remove(CONNECTION);
    headers.remove(TRANSFER_ENCODING);
}

impl Upstream {
    async fn connected(&mut self, shared: &Shared) -> io::Result<&mut SendRequest<Incoming>> {
        if let Some((sender, _)) = &mut self.0
            && sender.ready().await.is_err()
        {
            self.0 = None; // the server has closed it
        }
        let (sender, _) = match self.0.take() {
            Some(kept) => self.0.insert(kept),
            None => self.0.insert(open(shared).await?),
        };
        Ok(sender)
    }
}

async fn open(shared: &Shared) -> io::Result<(SendRequest<Incoming>, AbortOnDropHandle<()>)> {
    let stream = TcpStream::connect(shared.server).await?;
    stream.set_nodelay(true)?;
    let tls = shared.connector.connect(ServerName::from(shared.server.ip()), stream).await?;
    let (sender, connection) = handshake(TokioIo::new(tls)).await.map_err(io::Error::other)?;
    let driver = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!("connection to the API server: {error}");
        }
    });
    Ok((sender, AbortOnDropHandle::new(driver)))
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "cut by a test")
}
