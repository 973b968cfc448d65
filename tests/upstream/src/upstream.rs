//! A running upstream and the handle that tests hold on it.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::behaviour::{Behaviour, Config};
use crate::clock::Clock;
use crate::journal::{Counts, Entry, Journal, Outcome};
use crate::meter::Meter;
use crate::request::Request;
use crate::{server, tls};

/// A running upstream. It stops when this handle is dropped.
#[derive(Debug)]
pub struct Upstream {
    shared: Arc<Shared>,
    http: SocketAddr,
    https: Option<SocketAddr>,
    ca_pem: Option<String>,
    stop: CancellationToken,
}

/// Why an upstream did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address could not be listened on.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// No certificate could be made.
    #[error("cannot make a certificate")]
    Certificate(#[from] tls::Error),
    /// The speed of time is not above zero.
    #[error("scaled seconds per second must be above zero, not {0}")]
    Scale(f64),
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    state: Mutex<State>,
    /// Moves with each arrival and each answer.
    moved: watch::Sender<u64>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) behaviour: Behaviour,
    pub(crate) meters: HashMap<String, Meter>,
    pub(crate) journal: Journal,
    issued: HashMap<String, Issued>,
}

#[derive(Debug)]
struct Issued {
    /// What the token was issued for.
    name: String,
    expires: Duration,
}

impl Upstream {
    /// Listens and answers from now on.
    pub async fn start(config: impl Into<Config>) -> Result<Self, Error> {
        let Config { http, https, names, scale, behaviour } = config.into();
        if scale.is_nan() || scale <= 0.0 {
            return Err(Error::Scale(scale));
        }
        let state = State { behaviour, meters: HashMap::new(), journal: Journal::default(), issued: HashMap::new() };
        let shared =
            Arc::new(Shared { clock: Clock::new(scale), state: Mutex::new(state), moved: watch::Sender::new(0) });
        let stop = CancellationToken::new();
        let listen = async |address| {
            let bound = server::bind(address).await.and_then(|listener| Ok((listener.local_addr()?, listener)));
            bound.map_err(|source| Error::Bind { address, source })
        };
        let (http, listener) = listen(http).await?;
        tokio::spawn(server::serve(listener, None, Arc::clone(&shared), stop.clone()));
        let (mut https_at, mut ca_pem) = (None, None);
        if let Some(address) = https {
            let identity = tls::Identity::new(names)?;
            let (address, listener) = listen(address).await?;
            tokio::spawn(server::serve(listener, Some(identity.acceptor), Arc::clone(&shared), stop.clone()));
            (https_at, ca_pem) = (Some(address), Some(identity.ca_pem));
        }
        Ok(Self { shared, http, https: https_at, ca_pem, stop })
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.http)
    }

    /// `https://localhost:PORT`, if HTTPS is served.
    pub fn https_url(&self) -> Option<String> {
        self.https.map(|address| format!("https://localhost:{}", address.port()))
    }

    /// Certificate of the authority that signed the one HTTPS is served with.
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    /// Changes the behaviour from now on.
    pub fn change(&self, change: impl FnOnce(&mut Behaviour)) {
        self.shared.write(|state| change(&mut state.behaviour));
    }

    /// All calls so far, oldest first.
    pub fn log(&self) -> Vec<Entry> {
        self.shared.read(|state| state.journal.entries().to_vec())
    }

    /// Calls by token; those without a token are under the empty name.
    pub fn counts(&self) -> BTreeMap<String, Counts> {
        self.shared.read(|state| state.journal.counts().clone())
    }

    /// Calls of one token.
    pub fn count(&self, token: &str) -> Counts {
        self.shared.read(|state| state.journal.counts().get(token).copied().unwrap_or_default())
    }

    /// All calls together.
    pub fn total(&self) -> Counts {
        self.counts().into_values().fold(Counts::default(), Counts::and)
    }

    /// Calls of a token in each scaled second in which there were any.
    pub fn per_second(&self, token: &str) -> BTreeMap<u64, u64> {
        self.shared.read(|state| state.journal.per_second(token))
    }

    /// Scaled time since start, on which [`Entry::at`] lies.
    pub fn now(&self) -> Duration {
        self.shared.clock.now()
    }

    /// Forgets all calls; buckets and tokens stay as they are.
    pub fn forget_calls(&self) {
        self.shared.write(|state| state.journal.reset());
    }

    /// Withdraws every access token that was issued: a new one has to be asked for.
    pub fn expire_tokens(&self) {
        self.shared.write(|state| state.issued.values_mut().for_each(|issued| issued.expires = Duration::ZERO));
    }

    /// Waits until `reached` holds for the calls so far; false if it does not within `limit` of real time.
    pub async fn wait_for(&self, limit: Duration, reached: impl Fn(&[Entry]) -> bool) -> bool {
        let mut moved = self.shared.moved.subscribe();
        let wait = async {
            while !self.shared.read(|state| reached(state.journal.entries())) {
                if moved.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(limit, wait).await.is_ok()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Shared {
    pub(crate) fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.lock())
    }

    pub(crate) fn write<T>(&self, write: impl FnOnce(&mut State) -> T) -> T {
        write(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A test that panicked while changing the behaviour fails anyway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of the token that a request is counted for.
    pub(crate) fn token_of(&self, request: &Request) -> Option<String> {
        let bearer = request.bearer()?;
        Some(self.read(|state| state.issued.get(bearer).map_or(bearer, |issued| &issued.name).to_owned()))
    }

    /// Whether the request's token was issued here and is still good.
    pub(crate) fn is_issued(&self, request: &Request) -> bool {
        let now = self.clock.now();
        let issued = |bearer| self.read(|state| state.issued.get(bearer).is_some_and(|issued| issued.expires > now));
        request.bearer().is_some_and(issued)
    }

    /// A new token for `name`, good for so many scaled seconds.
    pub(crate) fn issue(&self, prefix: &str, name: &str, seconds: u64) -> String {
        let expires = self.clock.now() + Duration::from_secs(seconds);
        self.write(|state| {
            let token = format!("{prefix}issued-{}-{name}", state.issued.len() + 1);
            state.issued.insert(token.clone(), Issued { name: name.to_owned(), expires });
            token
        })
    }

    pub(crate) fn sent(&self, request: &Request, token: Option<String>) -> usize {
        let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let entry = Entry {
            at: self.clock.now().as_secs_f64(),
            method: request.method.to_string(),
            target: request.target.clone(),
            token,
            headers: request.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
            body: String::from_utf8_lossy(&request.body).into_owned(),
            outcome: Outcome::Open,
            status: None,
        };
        let number = self.write(|state| state.journal.sent(entry));
        self.moved.send_modify(|moved| *moved += 1);
        number
    }

    pub(crate) fn answered(&self, number: usize, token: Option<&str>, outcome: Outcome, status: Option<u16>) {
        self.write(|state| state.journal.answered(number, token, outcome, status));
        self.moved.send_modify(|moved| *moved += 1);
    }
}
