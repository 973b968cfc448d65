//! What a process costs: the bytes it exchanges with the API server, its processor time and its memory.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use kube::{Client, Config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

use crate::control_plane::ControlPlane;
use crate::net::API_SERVER_PORT;

/// Kernel ticks in a second of processor time; the same on every architecture that Rust's standard library supports.
const TICKS: f64 = 100.0;

/// A way to the API server that counts the bytes that pass, as they are on the wire. It closes with this value.
pub(super) struct Meter {
    address: SocketAddr,
    server_name: String,
    counts: Arc<Counts>,
    _relay: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Counts {
    sent: AtomicU64,
    received: AtomicU64,
}

/// What a process has used since it began.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Usage {
    /// Processor time in seconds.
    pub(super) cpu_seconds: f64,
    /// Most memory that was resident at a time, in MiB.
    pub(super) peak_mib: f64,
}

impl Meter {
    /// Opens one, on an address of its own in the plane's network.
    pub(super) async fn open(plane: &ControlPlane) -> Result<Self> {
        let (address, server) = (SocketAddr::from((plane.net().next_ip(), API_SERVER_PORT)), plane.net().api_server());
        let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
        let counts = Arc::<Counts>::default();
        let counting = counts.clone();
        let relay = AbortOnDropHandle::new(tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                let counts = counting.clone();
                connections.spawn(async move {
                    // Either side may leave at any time.
                    let _ended = relay(near, server, &counts).await;
                });
                while connections.try_join_next().is_some() {}
            }
        }));
        Ok(Self { address, server_name: server.ip().to_string(), counts, _relay: relay })
    }

    /// URL for a client that trusts the API server's authority.
    pub(super) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// A client with all rights that comes through here.
    pub(super) fn client(&self, plane: &ControlPlane) -> Result<Client> {
        let mut config: Config = plane.config(plane.admin_token())?;
        config.cluster_url = self.url().parse().context("a URL of our own")?;
        config.tls_server_name = Some(self.server_name.clone());
        Client::try_from(config).context("cannot make a client")
    }

    /// Bytes that clients received so far.
    pub(super) fn received(&self) -> u64 {
        self.counts.received.load(Ordering::Relaxed)
    }

    /// Bytes both ways so far.
    pub(super) fn bytes(&self) -> u64 {
        self.received() + self.counts.sent.load(Ordering::Relaxed)
    }
}

async fn relay(near: TcpStream, server: SocketAddr, counts: &Counts) -> std::io::Result<()> {
    let far = TcpStream::connect(server).await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let ((mut near_read, mut near_write), (mut far_read, mut far_write)) = (near.into_split(), far.into_split());
    tokio::try_join!(
        copy(&mut near_read, &mut far_write, &counts.sent),
        copy(&mut far_read, &mut near_write, &counts.received)
    )?;
    Ok(())
}

async fn copy(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    count: &AtomicU64,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 * 1_024];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
        count.fetch_add(read as u64, Ordering::Relaxed);
    }
}

impl Usage {
    /// Of the process with this number, up to now.
    pub(super) fn of(pid: i32) -> Result<Self> {
        let read = |file: &str| {
            let path = format!("/proc/{pid}/{file}");
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
        };
        Self::parse(&read("stat")?, &read("status")?).with_context(|| format!("of process {pid}"))
    }

    /// From `/proc/PID/stat` and `/proc/PID/status`, see proc(5).
    fn parse(stat: &str, status: &str) -> Result<Self> {
        // The second field is a name in brackets, which may hold anything; user and system time are fields 14 and 15.
        let (_, fields) = stat.rsplit_once(')').context("no name in stat")?;
        let mut fields = fields.split_whitespace().skip(11);
        let mut ticks = || fields.next().and_then(|field| field.parse::<f64>().ok()).context("no times in stat");
        let cpu_seconds = (ticks()? + ticks()?) / TICKS;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM in status")?;
        let kib = peak.trim().trim_end_matches("kB").trim().parse::<f64>().context("VmHWM is no number")?;
        Ok(Self { cpu_seconds, peak_mib: kib / 1_024.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_memory_are_found_whatever_the_process_is_called() {
        let stat = "17 (a) b (c) S 1 17 17 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 100 1000 10";
        let usage = Usage::parse(stat, "Name:\ta\nVmHWM:\t   20480 kB\nVmRSS:\t 10 kB\n").unwrap();
        assert!((usage.cpu_seconds - 3.0).abs() < 1e-9 && (usage.peak_mib - 20.0).abs() < 1e-9, "{usage:?}");
        assert!(Usage::parse(stat, "").is_err());
    }
}
