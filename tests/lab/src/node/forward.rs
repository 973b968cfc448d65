//! A door into the node's network: who connects to an address of this machine is connected to one in there.
//!
//! A socket belongs to the network its thread is in when it is made, so one thread moves into the node's network and makes
//! the outgoing ones, while the listener was made before, outside.

use std::net::{SocketAddr, TcpListener};
use std::thread;

use anyhow::{Context, Result, anyhow};
use nix::sched::{CloneFlags, setns};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::namespaces::Namespaces;

/// Open until it is dropped.
#[derive(Debug)]
pub struct Forward {
    _open: oneshot::Sender<()>,
}

/// Connects whoever comes to `from`, on this machine, with `to`, in the node's network.
pub(crate) fn forward(namespaces: &Namespaces, from: SocketAddr, to: SocketAddr) -> Result<Forward> {
    let listener = TcpListener::bind(from).with_context(|| format!("cannot listen on {from}"))?;
    listener.set_nonblocking(true).context("cannot listen without blocking")?;
    let network = namespaces.network()?;
    let (open, closed) = oneshot::channel();
    let (entered, outcome) = std::sync::mpsc::sync_channel(1);
    thread::Builder::new()
        .name("forward".to_owned())
        .spawn(move || {
            let runtime = setns(network, CloneFlags::CLONE_NEWNET)
                .map_err(std::io::Error::from)
                .and_then(|()| tokio::runtime::Builder::new_current_thread().enable_all().build());
            match runtime {
                Ok(runtime) => {
                    let _ = entered.send(Ok(())); // the caller waits for it
                    runtime.block_on(async {
                        tokio::select! {
                            _ = closed => {}
                            () = serve(listener, to) => {}
                        }
                    });
                }
                Err(error) => {
                    let _ = entered.send(Err(error)); // the caller waits for it
                }
            }
        })
        .context("cannot start a thread")?;
    outcome.recv().map_err(|_| anyhow!("the forwarding thread ended"))?.context("cannot enter the node's network")?;
    Ok(Forward { _open: open })
}

async fn serve(listener: TcpListener, to: SocketAddr) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    while let Ok((mut outside, _)) = listener.accept().await {
        tokio::spawn(async move {
            // Who is refused inside sees its connection closed, and tries again.
            if let Ok(mut inside) = TcpStream::connect(to).await {
                let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
            }
        });
    }
}
