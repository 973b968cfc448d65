//! What was asked: which API, which call, for which token.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{HeaderMap, Method};

/// A request that was read whole.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// Decoded segments of the path.
    pub(crate) path: Vec<String>,
    /// Path and query as sent.
    pub(crate) target: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Where the client reached us, for answers that hold their own address.
    pub(crate) base: String,
}

/// A call of one of the APIs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call {
    Control,
    AzureToken { tenant: String },
    ManagedIdentity,
    AzureSecret { name: String, version: Option<String> },
    AzureKey { name: String, version: Option<String> },
    FerrHealth,
    FerrExchange,
    FerrReveal { project: String, vault: String },
    Unknown,
}

impl Request {
    pub(crate) fn new(head: &http::request::Parts, body: Bytes, scheme: &str) -> Self {
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        let host = head.headers.get(http::header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
        Self {
            method: head.method.clone(),
            path: head.uri.path().split('/').filter(|part| !part.is_empty()).map(percent_decoded).collect(),
            query: form(head.uri.query().unwrap_or_default()),
            headers: head.headers.clone(),
            base: format!("{scheme}://{host}"),
            target,
            body,
        }
    }

    pub(crate) fn call(&self) -> Call {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        let owned = |text: &&str| (*text).to_owned();
        match (self.method.as_str(), path.as_slice()) {
            (_, ["_control", ..]) => Call::Control,
            ("POST", [tenant, "oauth2", "v2.0", "token"]) => Call::AzureToken { tenant: owned(tenant) },
            ("GET", ["metadata", "identity", "oauth2", "token"]) => Call::ManagedIdentity,
            ("GET", ["secrets", name, rest @ ..]) if rest.len() <= 1 => {
                Call::AzureSecret { name: owned(name), version: rest.first().map(owned) }
            }
            ("GET", ["keys", name, rest @ ..]) if rest.len() <= 1 => {
                Call::AzureKey { name: owned(name), version: rest.first().map(owned) }
            }
            ("GET", ["health"]) => Call::FerrHealth,
            ("POST", ["api", "v1", "clusters", "oidc-exchange"]) => Call::FerrExchange,
            ("GET", ["api", "v1", "orgs", _, "projects", project, "vaults", "by-name", vault, "secrets", "reveal"]) => {
                Call::FerrReveal { project: owned(project), vault: owned(vault) }
            }
            _ => Call::Unknown,
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(crate) fn bearer(&self) -> Option<&str> {
        self.header("authorization")?.strip_prefix("Bearer ").filter(|token| !token.is_empty())
    }

    /// The body as a form.
    pub(crate) fn form(&self) -> BTreeMap<String, String> {
        form(&String::from_utf8_lossy(&self.body))
    }
}

/// Fields of a query or of an `application/x-www-form-urlencoded` body.
fn form(text: &str) -> BTreeMap<String, String> {
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (percent_decoded(&name.replace('+', " ")), percent_decoded(&value.replace('+', " ")))
        })
        .collect()
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex =
            after.get(..2).and_then(|hex| str::from_utf8(hex).ok()).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match hex {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, uri: &str, body: &'static str) -> Request {
        let (head, ()) = http::Request::builder().method(method).uri(uri).body(()).unwrap().into_parts();
        Request::new(&head, Bytes::from_static(body.as_bytes()), "http")
    }

    #[test]
    fn calls_are_told_apart_by_method_and_path() {
        let call = |method, uri| request(method, uri, "").call();
        assert_eq!(call("GET", "/secrets/a"), Call::AzureSecret { name: "a".into(), version: None });
        assert_eq!(call("GET", "/keys/a/v1?x=y"), Call::AzureKey { name: "a".into(), version: Some("v1".into()) });
        assert_eq!(call("POST", "/t/oauth2/v2.0/token"), Call::AzureToken { tenant: "t".into() });
        assert_eq!(
            call("GET", "/api/v1/orgs/o/projects/p%2Fq/vaults/by-name/my%20vault/secrets/reveal?names=a,b"),
            Call::FerrReveal { project: "p/q".into(), vault: "my vault".into() }
        );
        assert_eq!(call("GET", "/secrets/a/b/c"), Call::Unknown);
        assert_eq!(call("PUT", "/secrets/a"), Call::Unknown);
    }

    #[test]
    fn forms_and_queries_are_decoded() {
        let request = request("POST", "/?names=a%2Cb,c&x", "scope=https%3A%2F%2Fv%2F.default&t=a+b%2B");
        assert_eq!(request.query["names"], "a,b,c");
        assert_eq!(request.query["x"], "");
        assert_eq!(request.form()["scope"], "https://v/.default");
        assert_eq!(request.form()["t"], "a b+");
    }
}
