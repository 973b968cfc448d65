//! An API server in memory for this crate's tests: get, list in pages, watch, PUT with the real one's guards, and one
//! rule that may spoil any request. What it answers is what was seen of a real one.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use http::{Request, Response, Uri};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tower::{Layer as _, service_fn};

use crate::client::{Call, CallLayer, Deadlines, Options, Verb};
use crate::clock::Clock;

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;
type Rule = Box<dyn FnMut(&Seen) -> Option<Fault> + Send>;

/// The server. Clones are the same one.
#[derive(Clone)]
pub(crate) struct FakeApi(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    history: Vec<(u64, String, Value)>,
    version: u64,
    /// Watches from below this version are refused with 410.
    oldest: u64,
    rule: Option<Rule>,
    seen: Vec<Seen>,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Whose client sent it.
    pub(crate) from: &'static str,
    pub(crate) call: Call,
    pub(crate) uri: Uri,
    pub(crate) at: Instant,
}

/// What spoils a request.
pub(crate) enum Fault {
    /// This answer instead.
    Answer(Answer),
    /// No answer, nothing done.
    Hang,
    /// Done, but answered this much later.
    Late(Duration),
    /// A watch that begins and never says anything.
    Silence,
}

impl Seen {
    /// The value of a query parameter.
    pub(crate) fn query(&self, key: &str) -> Option<String> {
        let pairs = self.uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(name, _)| *name == key).map(|(_, value)| value.replace("%3D", "=")).next()
    }
}

impl FakeApi {
    pub(crate) fn new() -> Self {
        let state = State { version: 100, oldest: 100, ..State::default() };
        Self(Arc::new(Inner { state: Mutex::new(state), changed: watch::Sender::new(0) }))
    }

    /// A client as processes have it, with deadlines of 10 s and 30 s.
    pub(crate) fn client(&self, clock: &Clock) -> Client {
        self.client_of("", options(clock))
    }

    /// A client whose requests can be told from those of others.
    pub(crate) fn client_of(&self, from: &'static str, options: Options) -> Client {
        let server = self.clone();
        let service = service_fn(move |request| server.clone().answer(from, request));
        Client::new(CallLayer::new(options).layer(service), "default")
    }

    /// Spoils requests from now on, instead of the rule before.
    pub(crate) fn spoil(&self, rule: impl FnMut(&Seen) -> Option<Fault> + Send + 'static) {
        self.state().rule = Some(Box::new(rule));
    }

    /// Spoils nothing any more.
    pub(crate) fn mend(&self) {
        self.state().rule = None;
    }

    /// Every request so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state().seen.clone()
    }

    /// The requests with this verb.
    pub(crate) fn seen_of(&self, verb: Verb) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.call.verb == verb).collect()
    }

    /// Stores an object under its path, as somebody else would.
    pub(crate) fn put(&self, path: &str, object: Value) -> Value {
        let stored = self.state().store(path, object);
        self.notify();
        stored
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.state().objects.get(path).cloned()
    }

    pub(crate) fn delete(&self, path: &str) {
        self.state().remove(path);
        self.notify();
    }

    /// Ends all watches and expires their versions, as a change of a CRD does.
    pub(crate) fn expire(&self) {
        {
            let mut state = self.state();
            state.version += 1;
            state.oldest = state.version;
        }
        self.notify();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    fn notify(&self) {
        self.0.changed.send_modify(|count| *count += 1);
    }

    fn answer(self, from: &'static str, request: Request<Body>) -> BoxFuture<'static, Result<Answer, Infallible>> {
        async move {
            let call = Call::of(request.method(), request.uri());
            let seen = Seen { from, call, uri: request.uri().clone(), at: Instant::now() };
            let fault = {
                let mut state = self.state();
                state.seen.push(seen.clone());
                state.rule.as_mut().and_then(|rule| rule(&seen))
            };
            Ok(match fault {
                Some(Fault::Answer(answer)) => answer,
                Some(Fault::Hang) => std::future::pending().await,
                Some(Fault::Silence) => Response::new(StreamBody::new(stream::pending()).boxed_unsync()),
                Some(Fault::Late(delay)) => {
                    let answer = self.act(&seen, request).await;
                    tokio::time::sleep(delay).await;
                    answer
                }
                None => self.act(&seen, request).await,
            })
        }
        .boxed()
    }

    async fn act(&self, seen: &Seen, request: Request<Body>) -> Answer {
        let path = seen.uri.path().to_owned();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let answer = match seen.call.verb {
            Verb::Get => match self.get(&path) {
                Some(object) => respond(200, &object),
                None => status(404, "NotFound", &format!("{path} not found")),
            },
            Verb::List => self.state().list(&path, seen),
            Verb::Watch => self.clone().watch(path, seen),
            Verb::Update => self.state().update(&path, serde_json::from_slice(&body).unwrap()),
            verb => status(405, "MethodNotAllowed", verb.as_str()),
        };
        self.notify();
        answer
    }

    fn watch(self, path: String, seen: &Seen) -> Answer {
        let from: u64 = seen.query("resourceVersion").unwrap().parse().unwrap();
        let seconds: u64 = seen.query("timeoutSeconds").unwrap().parse().unwrap();
        let only = seen.query("fieldSelector");
        let end = Instant::now() + Duration::from_secs(seconds);
        let changed = self.0.changed.subscribe();
        let lines = stream::unfold(Some((self, changed, from)), move |watching| {
            let (path, only) = (path.clone(), only.clone());
            async move {
                let (server, mut changed, from) = watching?;
                loop {
                    changed.borrow_and_update();
                    let next = server.state().event_after(from, &path, only.as_deref());
                    if let Some((version, event)) = next {
                        return Some((event, version.map(|version| (server, changed, version))));
                    }
                    tokio::select! {
                        _ = changed.changed() => {}
                        () = tokio::time::sleep_until(end) => return None,
                    }
                }
            }
        });
        let frames = lines.map(|event| Ok(Frame::data(Bytes::from(format!("{event}\n")))));
        Response::new(StreamBody::new(frames).boxed_unsync())
    }
}

impl State {
    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        let known = self.objects.get(path).and_then(|before| before["metadata"]["uid"].as_str().map(str::to_owned));
        let kind = if known.is_some() { "MODIFIED" } else { "ADDED" };
        object["metadata"]["uid"] = known.unwrap_or_else(|| format!("uid-{}", self.version)).into();
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.objects.insert(path.to_owned(), object.clone());
        self.history.push((self.version, path.to_owned(), json!({"type": kind, "object": object})));
        object
    }

    fn remove(&mut self, path: &str) {
        if let Some(mut object) = self.objects.remove(path) {
            self.version += 1;
            object["metadata"]["resourceVersion"] = self.version.to_string().into();
            self.history.push((self.version, path.to_owned(), json!({"type": "DELETED", "object": object})));
        }
    }

    fn list(&self, path: &str, seen: &Seen) -> Answer {
        let only = seen.query("fieldSelector");
        let limit: usize = seen.query("limit").map_or(usize::MAX, |limit| limit.parse().unwrap());
        let start: usize = seen.query("continue").map_or(0, |token| token.parse().unwrap());
        let all: Vec<&Value> = self
            .objects
            .iter()
            .filter(|(at, _)| belongs(at, path, only.as_deref()))
            .map(|(_, object)| object)
            .collect();
        let page: Vec<&Value> = all.iter().copied().skip(start).take(limit).collect();
        let token = if start + page.len() < all.len() { (start + limit).to_string() } else { String::new() };
        respond(
            200,
            &json!({"kind": "List", "apiVersion": "v1", "items": page,
                "metadata": {"resourceVersion": self.version.to_string(), "continue": token}}),
        )
    }

    /// PUT as the real server does it for Leases: it creates what is absent.
    fn update(&mut self, path: &str, object: Value) -> Answer {
        let given = |key: &str| object["metadata"][key].as_str().filter(|text| !text.is_empty());
        let Some(present) = self.objects.get(path) else {
            if given("uid").is_some() {
                return status(409, "Conflict", "Precondition failed: UID in precondition");
            }
            return respond(201, &self.store(path, object));
        };
        let has = |key: &str| present["metadata"][key].as_str();
        match given("resourceVersion") {
            None => status(422, "Invalid", "metadata.resourceVersion: must be specified for an update"),
            version if version != has("resourceVersion") => {
                status(409, "Conflict", "the object has been modified; please apply your changes to the latest version")
            }
            _ if given("uid").is_some_and(|uid| Some(uid) != has("uid")) => {
                status(409, "Conflict", "Precondition failed: UID in precondition")
            }
            _ => respond(200, &self.store(path, object)),
        }
    }

    /// The next event for a watcher at version `from`, and where it goes on; it goes on nowhere after a 410.
    fn event_after(&self, from: u64, path: &str, only: Option<&str>) -> Option<(Option<u64>, Value)> {
        if from < self.oldest {
            let gone = status_body(410, "Expired", &format!("too old resource version: {from}"));
            return Some((None, json!({"type": "ERROR", "object": gone})));
        }
        let mut events = self.history.iter().filter(|(version, at, _)| *version > from && belongs(at, path, only));
        events.next().map(|(version, _, event)| (Some(*version), event.clone()))
    }
}

/// Deadlines of 10 s and 30 s, and nobody told.
pub(crate) fn options(clock: &Clock) -> Options {
    let deadlines = Deadlines { single: Duration::from_secs(10), list: Duration::from_secs(30) };
    Options::with(deadlines, clock.clone())
}

fn belongs(object: &str, collection: &str, only: Option<&str>) -> bool {
    let name = object.strip_prefix(collection).and_then(|rest| rest.strip_prefix('/'));
    name.is_some_and(|name| !name.contains('/') && only.is_none_or(|only| only == format!("metadata.name={name}")))
}

/// An answer with a JSON body.
pub(crate) fn respond(code: u16, body: &Value) -> Answer {
    let body = Full::new(Bytes::from(body.to_string())).boxed_unsync();
    Response::builder().status(code).header("content-type", "application/json").body(body).unwrap()
}

/// A failure as the API server tells it.
pub(crate) fn status(code: u16, reason: &str, message: &str) -> Answer {
    respond(code, &status_body(code, reason, message))
}

/// An answer in plain text, as fairness gives it.
pub(crate) fn plain(code: u16, retry_after: Option<&str>, text: &'static str) -> Answer {
    let mut answer = Response::builder().status(code).header("content-type", "text/plain");
    if let Some(wait) = retry_after {
        answer = answer.header("retry-after", wait);
    }
    answer.body(Full::new(Bytes::from(text)).boxed_unsync()).unwrap()
}

fn status_body(code: u16, reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message})
}
