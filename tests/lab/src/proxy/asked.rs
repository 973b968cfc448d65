//! What a request asks for, and who asks: the words that rules are written in. They are those of the audit log.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, USER_AGENT};
use http::{HeaderMap, Method, Uri};
use serde::Deserialize;

/// One request, before anything is done about it. Texts that do not apply are empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: &'static str,
    /// API group, empty for the core group.
    pub group: String,
    /// Plural resource name; empty for what is not a resource, such as `/readyz`.
    pub resource: String,
    /// `status`, `token`, …
    pub subresource: String,
    /// Namespace.
    pub namespace: String,
    /// Object name, also of a list or watch of one name.
    pub name: String,
    /// Path and query.
    pub uri: String,
    /// What the client calls itself.
    pub agent: String,
    /// Service account of the caller's token, `NAMESPACE:NAME`.
    pub account: String,
    /// Name of the pod that the caller's token is bound to.
    pub pod: String,
    /// Where the connection comes from. Pods on loopback share one address: tell them by `pod`.
    pub source: SocketAddr,
}

impl Asked {
    pub(super) fn of(method: &Method, uri: &Uri, headers: &HeaderMap, source: SocketAddr) -> Self {
        let path = Path::of(uri.path());
        let query = |name: &str| {
            let mut pairs = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
            pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
        };
        let watch = matches!(query("watch").as_deref(), Some("true" | "1"));
        let verb = match (method, path.name.is_empty() && !path.resource.is_empty()) {
            (&Method::GET, _) if watch => "watch",
            (&Method::GET, true) => "list",
            (&Method::DELETE, true) => "deletecollection",
            (&Method::DELETE, false) => "delete",
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::PATCH, _) => "patch",
            _ => "get",
        };
        let selected = query("fieldSelector").and_then(|all| all.strip_prefix("metadata.name=").map(str::to_owned));
        let claims = Claims::of(headers).unwrap_or_default();
        Self {
            verb,
            group: path.group.to_owned(),
            resource: path.resource.to_owned(),
            subresource: path.subresource.to_owned(),
            namespace: path.namespace.to_owned(),
            name: if path.name.is_empty() { selected.unwrap_or_default() } else { path.name.to_owned() },
            uri: uri.to_string(),
            agent: text(headers, USER_AGENT).unwrap_or_default().to_owned(),
            account: claims.account(),
            pod: claims.kubernetes.pod.name,
            source,
        }
    }

    /// About objects of this resource, not about a subresource of theirs.
    pub fn on(&self, resource: &str) -> bool {
        self.resource == resource && self.subresource.is_empty()
    }

    /// About the status subresource of this resource.
    pub fn on_status_of(&self, resource: &str) -> bool {
        self.resource == resource && self.subresource == "status"
    }

    /// By a service account of this name, in whatever namespace.
    pub fn by(&self, service_account: &str) -> bool {
        self.account.split_once(':').is_some_and(|(_, name)| name == service_account)
    }

    /// Reads a collection, at once or for ever.
    pub fn is_read_of_many(&self) -> bool {
        matches!(self.verb, "list" | "watch")
    }
}

/// The parts of a path that the API server reads a request from.
#[derive(Debug, Default)]
struct Path<'a> {
    group: &'a str,
    namespace: &'a str,
    resource: &'a str,
    name: &'a str,
    subresource: &'a str,
}

impl<'a> Path<'a> {
    fn of(path: &'a str) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, rest) = match parts.as_slice() {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => return Self::default(),
        };
        let (namespace, rest) = match rest {
            // What follows a namespace is a resource in it, unless it is one of the namespace's own subresources.
            ["namespaces", namespace, resource, ..] if !matches!(*resource, "status" | "finalize") => {
                (*namespace, &rest[2..])
            }
            _ => ("", rest),
        };
        let part = |index: usize| rest.get(index).copied().unwrap_or_default();
        Self { group, namespace, resource: part(0), name: part(1), subresource: part(2) }
    }
}

/// What a service account's token says of its bearer. It is read and not checked: the API server does that.
#[derive(Debug, Default, Deserialize)]
struct Claims {
    #[serde(rename = "kubernetes.io", default)]
    kubernetes: Bearer,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Bearer {
    namespace: String,
    serviceaccount: Named,
    pod: Named,
}

#[derive(Debug, Default, Deserialize)]
struct Named {
    name: String,
}

impl Claims {
    fn of(headers: &HeaderMap) -> Option<Self> {
        let token = text(headers, AUTHORIZATION)?.strip_prefix("Bearer ")?;
        let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
        serde_json::from_slice(&claims).ok()
    }

    fn account(&self) -> String {
        let bearer = &self.kubernetes;
        let account = &bearer.serviceaccount.name;
        if account.is_empty() { String::new() } else { format!("{}:{account}", bearer.namespace) }
    }
}

fn text(headers: &HeaderMap, name: http::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A request without a token.
    pub(in crate::proxy) fn asked(method: &Method, uri: &str) -> Asked {
        Asked::of(method, &uri.parse().unwrap(), &HeaderMap::new(), SocketAddr::from(([127, 0, 0, 1], 1)))
    }

    #[test]
    fn requests_are_read_as_the_api_server_reads_them() {
        let g = "/apis/config.ratify.dev/v2alpha1";
        let leases = "/apis/coordination.k8s.io/v1/namespaces/m/leases";
        for (method, uri, expected) in [
            (Method::GET, format!("{g}/executors?limit=500"), "list|config.ratify.dev|executors|||"),
            (Method::GET, format!("{g}/executors?watch=true"), "watch|config.ratify.dev|executors|||"),
            (Method::GET, format!("{g}/executors/a"), "get|config.ratify.dev|executors|||a"),
            (Method::PUT, format!("{g}/executors/a/status"), "update|config.ratify.dev|executors|status||a"),
            (
                Method::GET,
                format!("{leases}?watch=1&fieldSelector=metadata.name%3Dx"),
                "watch|coordination.k8s.io|leases||m|x",
            ),
            (Method::PATCH, "/api/v1/namespaces/m/pods/p".to_owned(), "patch||pods||m|p"),
            (Method::DELETE, "/api/v1/namespaces/m/pods".to_owned(), "deletecollection||pods||m|"),
            (Method::DELETE, "/api/v1/namespaces/m/pods/p".to_owned(), "delete||pods||m|p"),
            (
                Method::POST,
                "/api/v1/namespaces/m/serviceaccounts/s/token".to_owned(),
                "create||serviceaccounts|token|m|s",
            ),
            (Method::GET, "/api/v1/namespaces/m".to_owned(), "get||namespaces|||m"),
            (Method::GET, "/api/v1/namespaces/m/status".to_owned(), "get||namespaces|status||m"),
            (Method::GET, "/readyz".to_owned(), "get|||||"),
        ] {
            let Asked { verb, group, resource, subresource, namespace, name, .. } = asked(&method, &uri);
            assert_eq!([verb, &group, &resource, &subresource, &namespace, &name].join("|"), expected, "{uri}");
        }
    }

    #[test]
    fn a_bound_token_tells_the_pod() {
        let claims = r#"{"kubernetes.io":{"namespace":"m","pod":{"name":"p-1","uid":"u"},"serviceaccount":{"name":"s","uid":"v"}}}"#;
        let of = |token: &str| {
            let headers = [(AUTHORIZATION, format!("Bearer {token}").parse().unwrap())].into_iter().collect();
            Asked::of(&Method::GET, &"/version".parse().unwrap(), &headers, SocketAddr::from(([127, 0, 0, 1], 1)))
        };
        let bound = of(&format!("head.{}.signature", URL_SAFE_NO_PAD.encode(claims)));
        assert_eq!((bound.account.as_str(), bound.pod.as_str()), ("m:s", "p-1"));
        assert!(bound.by("s") && !bound.by("m"));
        let other = of("0123456789abcdef");
        assert_eq!((other.account.as_str(), other.pod.as_str()), ("", ""));
    }
}
