//! Bodies that are wrong: how each [`Fault`] looks on the wire.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;

use crate::behaviour::Fault;

/// Body of an answer. It may end in an error, which cuts the connection.
pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// What a fault does to an answer that is right otherwise.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Alteration<'a>(pub(crate) Option<&'a Fault>);

/// Bytes that are no UTF-8, no JSON and no PEM.
const JUNK: &[u8] = b"\x00\xff\xfe\x80 not what was asked for \xc3\x28";

const ERROR_PAGE: &str = "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head>\
    <body><h1>502 Bad Gateway</h1><p>request id 8f14e45f</p></body></html>";

impl<'a> Alteration<'a> {
    /// The value of a secret.
    pub(crate) fn value(self, value: &str) -> &str {
        match self.0 {
            Some(Fault::TruncatedValue) => {
                value.char_indices().nth(value.chars().count() / 2).map_or("", |(half, _)| value.split_at(half).0)
            }
            _ => value,
        }
    }

    /// The content type of a secret.
    pub(crate) fn content_type(self, right: Option<&'a str>) -> Option<&'a str> {
        match self.0 {
            Some(Fault::ContentType(wrong)) => Some(wrong),
            _ => right,
        }
    }
}

/// Content type, announced length and body of a fault that replaces a 200; `None` if this fault does something else.
pub(crate) fn body(fault: &Fault) -> Option<(&'static str, Option<u64>, Body)> {
    let json = "application/json";
    Some(match fault {
        Fault::Junk => (json, None, full(JUNK)),
        Fault::Html => ("text/html", None, full(ERROR_PAGE)),
        Fault::Huge(bytes) => (json, Some(*bytes), streamed(spaces(*bytes))),
        Fault::Cut => {
            let start = stream::once(async { Ok(Bytes::from_static(b"{\"value\": \"-----BEGIN CERTIFICATE-----")) });
            let end = stream::once(async {
                // Pausing once lets the start be written before the connection is cut.
                tokio::task::yield_now().await;
                Err(io::Error::from(io::ErrorKind::ConnectionReset))
            });
            (json, Some(4_096), streamed(start.chain(end).boxed()))
        }
        Fault::Drip => (json, None, streamed(drip())),
        Fault::Hang
        | Fault::Close
        | Fault::Status { .. }
        | Fault::Echo(_)
        | Fault::TruncatedValue
        | Fault::ContentType(_) => {
            return None;
        }
    })
}

/// A body that is complete.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

fn streamed(chunks: BoxStream<'static, io::Result<Bytes>>) -> Body {
    StreamBody::new(chunks.map(|chunk| chunk.map(Frame::data))).boxed_unsync()
}

/// So many bytes of white space in chunks: a body that any JSON parser reads to its end.
fn spaces(bytes: u64) -> BoxStream<'static, io::Result<Bytes>> {
    static CHUNK: [u8; 16_384] = [b' '; 16_384];
    stream::unfold(bytes, |left| async move {
        let size = left.min(CHUNK.len() as u64);
        let chunk = CHUNK.get(..usize::try_from(size).ok()?)?;
        (size > 0).then(|| (Ok(Bytes::from_static(chunk)), left - size))
    })
    .boxed()
}

fn drip() -> BoxStream<'static, io::Result<Bytes>> {
    stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Some((Ok(Bytes::from_static(b" ")), ()))
    })
    .boxed()
}
