//! A forward proxy that only tunnels: enough to prove that a client goes through its proxy, and past it where told to.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::upstream::Error;

/// Longest request head that is read, in bytes.
const MOST_READ: usize = 8_192;

/// A running proxy. It stops when this handle is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    targets: Arc<Mutex<Vec<String>>>,
    stop: CancellationToken,
}

impl Proxy {
    /// Listens on a free loopback port.
    pub async fn start() -> Result<Self, Error> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let bound = TcpListener::bind(address).await.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = bound.map_err(|source| Error::Bind { address, source })?;
        let (targets, stop) = (Arc::new(Mutex::new(Vec::new())), CancellationToken::new());
        let (seen, stopped) = (Arc::clone(&targets), stop.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
            loop {
                let Ok((client, _)) = listener.accept().await else { continue };
                tokio::spawn(stopped.clone().run_until_cancelled_owned(tunnel(client, Arc::clone(&seen))));
            }
        }));
        Ok(Self { address, targets, stop })
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// `host:port` of every tunnel that was asked for, oldest first.
    pub fn targets(&self) -> Vec<String> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// One `CONNECT host:port`, and then bytes both ways. Anything that fails ends the tunnel, as with a real proxy.
async fn tunnel(mut client: TcpStream, targets: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < MOST_READ {
        match client.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8_lossy(&head);
    let Some(target) = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()) else {
        let _ = client.write_all(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n").await;
        return;
    };
    targets.lock().unwrap_or_else(PoisonError::into_inner).push(target.to_owned());
    let Ok(mut server) = TcpStream::connect(target).await else {
        let _ = client.write_all(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n").await;
        return;
    };
    if client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.is_ok() {
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    }
}
