//! What the API server was asked, by whom, and what it answered: its audit log, read where it left off.
//!
//! `apiserver_request_total` knows no users and counts a full read through a watch as a watch; the audit log knows both.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use crate::wait;

/// The audit log of one API server.
#[derive(Debug, Clone)]
pub struct Audit {
    path: PathBuf,
}

/// A place in the log: everything answered after it was taken comes after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(u64);

/// One request, with its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// When it came, as the API server's clock has it.
    pub at: Option<Timestamp>,
    /// User name; of a service account `system:serviceaccount:NAMESPACE:NAME`.
    pub user: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// API group, empty for the core group.
    pub group: String,
    /// Plural resource name; empty for what is not a resource, such as `/readyz`.
    pub resource: String,
    /// `status`, `token`, …; empty for the object itself.
    pub subresource: String,
    /// Namespace, empty for cluster-scoped objects and reads across namespaces.
    pub namespace: String,
    /// Object name, empty for lists and for creates that leave the name to the server.
    pub name: String,
    /// HTTP status code of the answer.
    pub code: u16,
    /// Path and query.
    pub uri: String,
    /// What the client calls itself.
    pub agent: String,
}

impl Audit {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Before everything.
    pub const START: Mark = Mark(0);

    /// Now.
    pub fn mark(&self) -> Result<Mark> {
        match self.path.metadata() {
            Ok(meta) => Ok(Mark(meta.len())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::START),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", self.path.display())),
        }
    }

    /// Every request answered since `mark`; of a watch, whose answer began since then.
    pub fn since(&self, mark: Mark) -> Result<Vec<Request>> {
        self.read(mark).map(|(requests, _)| requests)
    }

    /// The requests since `mark` for which `pick` holds.
    pub fn matching(&self, mark: Mark, pick: impl Fn(&Request) -> bool) -> Result<Vec<Request>> {
        Ok(self.since(mark)?.into_iter().filter(pick).collect())
    }

    /// How many requests since `mark` `pick` holds for.
    pub fn count(&self, mark: Mark, pick: impl Fn(&Request) -> bool) -> Result<usize> {
        self.matching(mark, pick).map(|requests| requests.len())
    }

    /// Watches for `window`; fails, with a table, if there was any request that `pick` holds for.
    pub async fn assert_quiet(&self, window: Duration, pick: impl Fn(&Request) -> bool) -> Result<()> {
        let mark = self.mark()?;
        sleep(window).await;
        let seen = self.matching(mark, pick)?;
        ensure!(seen.is_empty(), "not quiet for {window:?}:\n{}", Tally::of(&seen));
        Ok(())
    }

    /// Waits until nothing that `pick` holds for was asked for `window`, for at most the usual patience beyond it.
    pub async fn await_quiet(&self, window: Duration, pick: impl Fn(&Request) -> bool) -> Result<()> {
        let (mut mark, mut since, mut last) = (self.mark()?, Instant::now(), String::new());
        let mut look = || -> Result<()> {
            let (seen, end) = self.read(mark)?;
            let seen: Vec<_> = seen.into_iter().filter(&pick).collect();
            if !seen.is_empty() {
                (mark, since, last) = (end, Instant::now(), Tally::of(&seen).to_string());
            }
            ensure!(since.elapsed() >= window, "quiet for {:?}, after:\n{last}", since.elapsed());
            Ok(())
        };
        let what = format!("{window:?} of quiet");
        wait::within(window + wait::patience(), what, || std::future::ready(look())).await
    }

    /// Requests since `mark`, and where the next read should start: a line that is still being written stays for it.
    fn read(&self, mark: Mark) -> Result<(Vec<Request>, Mark)> {
        let (mut text, mut start) = (String::new(), mark.0);
        match File::open(&self.path) {
            Ok(mut log) => {
                // A mark may have been set while a line was being written: that line was before it.
                let before = mark.0.saturating_sub(1);
                log.seek(SeekFrom::Start(before)).context("cannot seek in the audit log")?;
                let mut bytes = Vec::new();
                log.read_to_end(&mut bytes).context("cannot read the audit log")?;
                bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1));
                if mark != Self::START {
                    let line_end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |first| first + 1);
                    bytes.drain(..line_end);
                    start = before + line_end as u64;
                }
                text = String::from_utf8(bytes).context("the audit log is not UTF-8")?;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", self.path.display())),
        }
        let requests = text.lines().filter_map(|line| parse(line).transpose()).collect::<Result<_>>()?;
        Ok((requests, Mark(start + text.len() as u64)))
    }
}

impl Request {
    /// Asked by this service account.
    pub fn by(&self, namespace: &str, service_account: &str) -> bool {
        self.user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'))
            == Some((namespace, service_account))
    }

    /// About objects of this resource, not about a subresource of theirs.
    pub fn on(&self, resource: &str) -> bool {
        self.resource == resource && self.subresource.is_empty()
    }

    /// About the status subresource of this resource.
    pub fn on_status_of(&self, resource: &str) -> bool {
        self.resource == resource && self.subresource == "status"
    }

    /// Meant to change something, whether it succeeded or not. Questions that are asked by POST (who am I, may I, give me a
    /// token) do not count.
    pub fn is_write(&self) -> bool {
        let asks = matches!(self.group.as_str(), "authentication.k8s.io" | "authorization.k8s.io")
            || self.subresource == "token";
        !asks && matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    /// Read a whole collection: a list, or a watch that was asked for all that is there first.
    pub fn is_list(&self) -> bool {
        self.verb == "list" || (self.verb == "watch" && self.uri.contains("sendInitialEvents=true"))
    }

    /// About a Lease: the one thing that is written for ever in a quiet cluster.
    pub fn is_lease(&self) -> bool {
        self.group == "coordination.k8s.io" && self.resource == "leases"
    }
}

/// Requests counted by who, what and how it ended; its text is a table for a failed assertion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally(BTreeMap<String, usize>);

impl Tally {
    /// Counts them.
    pub fn of<'a>(requests: impl IntoIterator<Item = &'a Request>) -> Self {
        let mut counts = BTreeMap::new();
        for request in requests {
            *counts.entry(request.to_string()).or_default() += 1;
        }
        Self(counts)
    }
}

impl Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(what, count)| writeln!(f, "{count:>6}  {what}"))
    }
}

impl Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.user, self.verb)?;
        if self.resource.is_empty() {
            return write!(f, "{} -> {}", self.uri, self.code);
        }
        f.write_str(&self.resource)?;
        for part in [&self.subresource, &self.namespace, &self.name] {
            if !part.is_empty() {
                f.write_char('/')?;
                f.write_str(part)?;
            }
        }
        write!(f, " -> {}", self.code)
    }
}

/// An event of the log as the API server writes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    stage: String,
    #[serde(default)]
    request_received_timestamp: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    user: User,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectRef,
    response_status: Option<Status>,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
    api_group: String,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
}

/// A line as a request; `None` for the second line of a request that is in the log twice. A watch counts when its answer
/// begins, since it may never end; anything else when it is complete.
fn parse(line: &str) -> Result<Option<Request>> {
    let event: Event = serde_json::from_str(line).with_context(|| format!("not an audit event: {line}"))?;
    let counts = if event.verb == "watch" { "ResponseStarted" } else { "ResponseComplete" };
    let object = event.object_ref;
    Ok((event.stage == counts || event.stage == "Panic").then(|| Request {
        at: event.request_received_timestamp.parse().ok(),
        user: event.user.username,
        verb: event.verb,
        group: object.api_group,
        resource: object.resource,
        subresource: object.subresource,
        namespace: object.namespace,
        name: object.name,
        code: event.response_status.map_or(0, |status| status.code),
        uri: event.request_uri,
        agent: event.user_agent,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(stage: &str, verb: &str, uri: &str, object: &str) -> String {
        format!(
            r#"{{"kind":"Event","stage":"{stage}","requestReceivedTimestamp":"2026-11-30T12:00:00.25Z","requestURI":"{uri}","verb":"{verb}","userAgent":"a","user":{{"username":"system:serviceaccount:m:r"}},"objectRef":{object},"responseStatus":{{"metadata":{{}},"code":200}}}}"#
        )
    }

    #[test]
    fn a_watch_counts_once_when_it_begins_and_a_write_when_it_is_complete() {
        let leases = r#"{"resource":"leases","namespace":"m","name":"l","apiGroup":"coordination.k8s.io"}"#;
        let watch = |stage| parse(&line(stage, "watch", "/x?watch=true&sendInitialEvents=true", leases)).unwrap();
        assert!(watch("ResponseStarted").unwrap().is_list());
        assert_eq!(watch("ResponseComplete"), None);

        let write = |stage| parse(&line(stage, "update", "/x", leases)).unwrap();
        assert_eq!(write("ResponseStarted"), None);
        let write = write("ResponseComplete").unwrap();
        assert!(write.is_write() && write.is_lease() && write.on("leases") && write.by("m", "r"));
        assert_eq!(write.at, "2026-11-30T12:00:00.25Z".parse().ok());
        assert!(!write.by("m", "other") && !write.on_status_of("leases") && !write.is_list());
        assert_eq!(write.to_string(), "system:serviceaccount:m:r update leases/m/l -> 200");
    }

    #[test]
    fn questions_asked_by_post_are_not_writes() {
        let ask = |object: &str| parse(&line("ResponseComplete", "create", "/x", object)).unwrap().unwrap().is_write();
        assert!(!ask(r#"{"resource":"selfsubjectreviews","apiGroup":"authentication.k8s.io"}"#));
        assert!(!ask(r#"{"resource":"serviceaccounts","subresource":"token","name":"r"}"#));
        assert!(ask(r#"{"resource":"pods","subresource":"binding","name":"p"}"#));
    }

    #[test]
    fn reading_goes_on_where_it_left_off_and_leaves_half_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let audit = Audit::new(dir.path().join("audit.log"));
        assert_eq!((audit.mark().unwrap(), audit.since(Audit::START).unwrap().len()), (Audit::START, 0));

        let one = line("ResponseComplete", "get", "/a", "{}");
        let two = line("ResponseComplete", "get", "/b", "{}");
        std::fs::write(&audit.path, format!("{one}\n{}", &two[..20])).unwrap();
        let (first, end) = audit.read(Audit::START).unwrap();
        assert_eq!(first.len(), 1);

        let in_the_middle = audit.mark().unwrap();
        std::fs::write(&audit.path, format!("{one}\n{two}\n{one}\n")).unwrap();
        assert_eq!(audit.since(end).unwrap()[0].uri, "/b");
        assert_eq!(
            audit.since(in_the_middle).unwrap().len(),
            1,
            "the line that was begun before the mark is before it"
        );
        std::fs::write(&audit.path, format!("{one}\n{two}\n")).unwrap();
        assert_eq!(Tally::of(&audit.since(Audit::START).unwrap()).0.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn quiet_is_the_absence_of_what_was_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let audit = Audit::new(dir.path().join("audit.log"));
        let write = line("ResponseComplete", "create", "/x", r#"{"resource":"pods"}"#) + "\n";
        let second = Duration::from_secs(1);

        let noise = async {
            sleep(second / 2).await;
            std::fs::write(&audit.path, &write).unwrap();
        };
        let (seen, ()) = tokio::join!(audit.assert_quiet(second, Request::is_write), noise);
        assert!(seen.unwrap_err().to_string().contains("create pods"), "a write in the window must be seen");
        audit.assert_quiet(second, Request::is_write).await.unwrap();
        audit.await_quiet(second, Request::is_write).await.unwrap();
    }
}
