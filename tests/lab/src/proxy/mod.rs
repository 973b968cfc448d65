//! A proxy in front of the real API server that lets a test spoil what passes: refuse, delay, hang, cut, forget.
//!
//! It speaks TLS with the API server's own certificate and forwards each client's own token, so a pod reaches the server
//! through it by another URL and nothing else:
//!
//! ```no_run
//! # use std::time::Duration;
//! # use muster_lab::{control_plane::ControlPlane, kubelet::Kubelet};
//! # use muster_lab::proxy::{Answer, Fault, Interrupt, Proxy, Rule};
//! # async fn example(plane: &ControlPlane, kubelet: &Kubelet) -> anyhow::Result<()> {
//! let proxy = Proxy::start(plane).await?;
//! let url = proxy.url();
//! kubelet.customise(move |_pod, launch| launch.api_server = url.clone());
//! // The next renewal of a Lease is stored, and its author never hears of it.
//! let lost = proxy.rule(Rule::new(Fault::Hang, |asked| asked.verb == "update" && asked.on("leases")).times(1));
//! // Running watches end with 410, and new ones are refused.
//! proxy.rule(Rule::new(Fault::Answer(Answer::too_many_requests().retry_after("2")), |asked| asked.verb == "watch"));
//! proxy.interrupt(Interrupt::Expired, |asked| asked.verb == "watch");
//! // Whatever is idle for 20 s is forgotten without a word.
//! proxy.forget_idle(Some(Duration::from_secs(20)));
//! assert!(lost.struck() <= 1);
//! # Ok(()) }
//! ```
//!
//! Rules can change at any time, and concern requests that come later; [`Proxy::interrupt`] is for those that are being
//! answered. Dropping the proxy closes everything.

mod answer;
mod asked;
mod connection;
mod relay;
mod rule;
mod running;
mod tls;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use kube::{Client, Config};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use crate::control_plane::ControlPlane;
use crate::net::API_SERVER_PORT;
use connection::{Shared, serve};

pub use answer::Answer;
pub use asked::Asked;
pub use rule::{Fault, Rule};
pub use running::Interrupt;

/// A running proxy.
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    server_name: String,
    /// Whether connections are to be accepted, and whether they are.
    wanted: watch::Sender<bool>,
    open: watch::Receiver<bool>,
    _door: AbortOnDropHandle<()>,
}

/// A rule that was given to a proxy. It stays in force when this is dropped.
#[derive(Clone)]
pub struct Active {
    id: u64,
    struck: Arc<AtomicU64>,
    shared: Arc<Shared>,
}

/// A request that came, and what went wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// What was asked.
    pub asked: Arc<Asked>,
    /// `None`: it was forwarded as it is.
    pub fault: Option<Fault>,
}

impl Seen {
    /// Whether it went to the API server.
    pub fn is_forwarded(&self) -> bool {
        self.fault.as_ref().is_none_or(Fault::forwards)
    }
}

impl Proxy {
    /// Starts one, on an address of its own in the plane's network. Nothing goes wrong yet.
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
        let acceptor = tls::acceptor(&plane.server_certificate(), &plane.server_key())?;
        let connector = tls::connector(&plane.ca_file())?;
        let address = SocketAddr::from((plane.net().next_ip(), API_SERVER_PORT));
        let server = plane.net().api_server();
        let shared = Arc::new(Shared::new(acceptor, connector, server));
        let (wanted, is_open) = (watch::Sender::new(true), watch::Sender::new(false));
        let open = is_open.subscribe();
        let door = keep_door(address, shared.clone(), wanted.subscribe(), is_open);
        let door = AbortOnDropHandle::new(tokio::spawn(async move {
            if let Err(error) = door.await {
                tracing::error!("proxy: {error:#}");
            }
        }));
        let proxy = Self { shared, address, server_name: server.ip().to_string(), wanted, open, _door: door };
        proxy.open().await?;
        Ok(proxy)
    }

    /// URL for a client that trusts the API server's authority. The certificate names the API server's address: see
    /// [`Self::config`]; pods get it right by themselves.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Configuration of a client with `token` that comes through here.
    pub fn config(&self, plane: &ControlPlane, token: &str) -> Result<Config> {
        let mut config = plane.config(token)?;
        config.cluster_url = self.url().parse().context("a URL of our own")?;
        config.tls_server_name = Some(self.server_name.clone());
        Ok(config)
    }

    /// A client with all rights that comes through here.
    pub fn client(&self, plane: &ControlPlane) -> Result<Client> {
        Client::try_from(self.config(plane, plane.admin_token())?).context("cannot make a client")
    }

    /// From now on this goes wrong. The newest rule that applies decides.
    pub fn rule(&self, rule: Rule) -> Active {
        let (id, struck) = self.shared.book().add(rule);
        Active { id, struck, shared: self.shared.clone() }
    }

    /// No more rules.
    pub fn clear(&self) {
        self.shared.book().clear();
    }

    /// Steps into requests that are being answered, open watches among them; returns in how many.
    pub fn interrupt(&self, interrupt: Interrupt, when: impl Fn(&Asked) -> bool) -> usize {
        self.shared.running.interrupt(interrupt, when)
    }

    /// How many requests for which `when` holds are being answered at present.
    pub fn running(&self, when: impl Fn(&Asked) -> bool) -> usize {
        self.shared.running.count(when)
    }

    /// From now on forgets connections over which nothing went for so long: neither side hears of an end, and what is
    /// sent arrives nowhere. `None`: no more are forgotten; those that were stay so.
    pub fn forget_idle(&self, limit: Option<Duration>) {
        self.shared.idle.set(limit);
    }

    /// Refuses connections and closes all that are open; returns when that is done.
    pub async fn close(&self) -> Result<()> {
        self.set_open(false).await
    }

    /// Accepts connections again, on the same address; returns when it does.
    pub async fn open(&self) -> Result<()> {
        self.set_open(true).await
    }

    async fn set_open(&self, wanted: bool) -> Result<()> {
        self.wanted.send_replace(wanted);
        let mut open = self.open.clone();
        open.wait_for(|open| *open == wanted).await.context("the proxy has failed; its log says why")?;
        Ok(())
    }

    /// Everything that came so far, in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen().clone()
    }

    /// How many requests came so far for which `pick` holds.
    pub fn count(&self, pick: impl Fn(&Seen) -> bool) -> usize {
        self.shared.seen().iter().filter(|seen| pick(seen)).count()
    }
}

impl Active {
    /// How many requests it struck so far.
    pub fn struck(&self) -> u64 {
        self.struck.load(Ordering::Relaxed)
    }

    /// Takes it back. Requests that hang because of it go on hanging.
    pub fn remove(&self) {
        self.shared.book().remove(self.id);
    }
}

/// Accepts connections while that is wanted; dropped, it takes them with it.
async fn keep_door(
    address: SocketAddr,
    shared: Arc<Shared>,
    mut wanted: watch::Receiver<bool>,
    is_open: watch::Sender<bool>,
) -> Result<()> {
    loop {
        wanted.wait_for(|wanted| *wanted).await?;
        let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
        is_open.send_replace(true);
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let (stream, client) = accepted.context("cannot accept")?;
                    connections.spawn(serve(stream, client, shared.clone()));
                }
                Some(_) = connections.join_next() => {}
                closing = wanted.wait_for(|wanted| !*wanted) => {
                    closing?;
                    break;
                }
            }
        }
        drop(listener);
        connections.shutdown().await;
        is_open.send_replace(false);
    }
}
