//! A stretch of network that can fall silent: connections stay open and nothing passes, as behind a dead switch.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Whether anything passes. Clones are the same valve.
#[derive(Clone)]
pub(crate) struct Valve(watch::Sender<bool>);

impl Valve {
    pub(crate) fn open() -> Self {
        Self(watch::Sender::new(true))
    }

    /// From now on nothing passes, until told otherwise.
    pub(crate) fn set(&self, open: bool) {
        self.0.send_replace(open);
    }

    /// Relays connections to `outer` on to `inner`, for as long as the runtime lives.
    pub(crate) fn connect(&self, outer: SocketAddr, inner: SocketAddr) {
        let open = self.0.subscribe();
        tokio::spawn(async move {
            // A pod that cannot be reached shows as that.
            let _ended: Result<()> = relay(outer, inner, open).await;
        });
    }
}

async fn relay(outer: SocketAddr, inner: SocketAddr, open: watch::Receiver<bool>) -> Result<()> {
    let listener = TcpListener::bind(outer).await.with_context(|| format!("cannot listen on {outer}"))?;
    loop {
        let (near, _) = listener.accept().await?;
        let open = open.clone();
        tokio::spawn(async move {
            let far = TcpStream::connect(inner).await?;
            let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
            tokio::select! {
                ended = copy(near_read, far_write, open.clone()) => ended,
                ended = copy(far_read, near_write, open) => ended,
            }
        });
    }
}

/// Copies until either side ends, and holds back whatever comes while the valve is shut.
async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut open: watch::Receiver<bool>) -> Result<()> {
    let mut buffer = vec![0; 16 * 1_024];
    loop {
        let read = from.read(&mut buffer).await?;
        open.wait_for(|open| *open).await?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..read]).await?;
    }
}
