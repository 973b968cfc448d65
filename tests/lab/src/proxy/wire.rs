//! A client's connection below TLS, as a balancer treats it: left idle too long it is forgotten without a word. What is
//! sent then, by either side, arrives nowhere, and neither side hears of an end.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// How long a connection may be idle; shared by all connections of a proxy and changed at any time.
#[derive(Debug, Clone)]
pub(super) struct IdleLimit(Arc<AtomicU64>);

/// One connection.
#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    limit: IdleLimit,
    used: Instant,
    forgotten: bool,
}

impl IdleLimit {
    /// For ever.
    pub(super) fn none() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }

    pub(super) fn set(&self, limit: Option<Duration>) {
        let millis = limit.map_or(u64::MAX, |limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        self.0.store(millis, Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

impl Wire {
    pub(super) fn new(stream: TcpStream, limit: IdleLimit) -> Self {
        Self { stream, limit, used: Instant::now(), forgotten: false }
    }

    /// Whether it was forgotten before the bytes that come now; if not, they keep it alive.
    fn is_forgotten(&mut self) -> bool {
        let now = Instant::now();
        self.forgotten |= now.duration_since(self.used) > self.limit.get();
        self.used = now;
        self.forgotten
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let before = buf.filled().len();
            ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
            // The client's own end is passed on: it frees what is held for it, and the client is none the wiser.
            if buf.filled().len() == before || !self.is_forgotten() {
                return Poll::Ready(Ok(()));
            }
            buf.set_filled(before);
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_forgotten() {
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.forgotten {
            return Poll::Pending; // the end is not heard either
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::time::{sleep, timeout};

    use super::*;

    #[tokio::test]
    async fn a_connection_in_use_lives_and_an_idle_one_is_forgotten() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let limit = IdleLimit::none();
        limit.set(Some(Duration::from_millis(400)));
        let mut wire = Wire::new(listener.accept().await.unwrap().0, limit);
        for _ in 0..6 {
            sleep(Duration::from_millis(100)).await;
            client.write_all(b"x").await.unwrap();
            wire.read_u8().await.unwrap();
        }
        sleep(Duration::from_millis(600)).await;
        wire.write_all(b"lost").await.unwrap();
        client.write_all(b"lost").await.unwrap();
        let moment = Duration::from_millis(200);
        assert!(timeout(moment, client.read_u8()).await.is_err(), "neither bytes nor an end");
        assert!(timeout(moment, wire.read_u8()).await.is_err());
        drop(client);
        assert_eq!(wire.read_u8().await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
