//! The body of an answer on its way to the client, and what may happen to it there.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::OptionFuture;
use futures::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, BodyStream, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use tokio::time::{Instant, sleep_until};

use super::answer::expired_event;
use super::running::{Interrupt, Ticket};

/// A body for the client. An error in it closes the connection.
pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Pieces that may be under way at a time while an answer lags.
const LAGGING: usize = 65_536;

/// A body that is complete.
pub(super) fn complete(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// What the server sends, each piece `lag` later.
pub(super) fn streamed(body: Incoming, lag: Option<Duration>) -> Body {
    let frames = BodyStream::new(body).map(|frame| frame.map_err(io::Error::other));
    let Some(lag) = lag else { return StreamBody::new(frames).boxed_unsync() };
    let later = frames.map(move |frame| {
        let due = Instant::now() + lag;
        async move {
            sleep_until(due).await;
            frame
        }
    });
    StreamBody::new(later.buffered(LAGGING)).boxed_unsync()
}

/// The same body, until a test steps in or `cut_at` comes. `is_watch` tells whether it is a stream of events.
pub(super) fn interruptible(body: Body, ticket: Ticket, is_watch: bool, cut_at: Option<Instant>) -> Body {
    let stream = stream::unfold(Some((BodyStream::new(body), ticket)), move |relayed| async move {
        let (mut frames, mut ticket) = relayed?;
        let interrupt = tokio::select! {
            biased;
            interrupt = ticket.interrupted() => interrupt,
            Some(()) = OptionFuture::from(cut_at.map(sleep_until)) => Interrupt::Cut,
            frame = frames.next() => return Some((frame?, Some((frames, ticket)))),
        };
        match interrupt {
            Interrupt::Silence => std::future::pending().await,
            Interrupt::Expired if is_watch => Some((Ok(Frame::data(expired_event())), None)),
            Interrupt::Expired | Interrupt::Cut => Some((Err(cut_error()), None)),
        }
    });
    StreamBody::new(stream).boxed_unsync()
}

fn cut_error() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "cut by a test")
}
