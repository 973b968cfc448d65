//! What a request to the API server is about, read back from its method and URI: kube hands middleware nothing else, and
//! deadlines, metrics and error texts all need to know.

use http::{Method, Uri};

/// What the API server calls the verb of a request; RBAC uses the same words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// One object, or a path that is no resource.
    Get,
    /// A collection.
    List,
    /// A stream of changes.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
    /// DELETE of one object.
    Delete,
    /// DELETE of a collection.
    DeleteCollection,
    /// Any other method; never sent by us.
    Other,
}

/// A request's verb and resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The verb.
    pub verb: Verb,
    /// Plural resource with its subresource, such as `executors/status`; the empty string for a path that is none.
    pub resource: String,
}

impl Verb {
    /// The word RBAC rules, metrics and sentences use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Other => "other",
        }
    }
}

impl Call {
    /// Reads `/api/v1/…` and `/apis/GROUP/VERSION/…`, with or without a namespace.
    pub fn of(method: &Method, uri: &Uri) -> Self {
        let mut path = uri.path().split('/').filter(|part| !part.is_empty());
        let known = match path.next() {
            Some("api") => path.next().is_some(),
            Some("apis") => path.next().is_some() && path.next().is_some(),
            _ => false,
        };
        let rest: Vec<&str> = if known { path.collect() } else { Vec::new() };
        let (resource, name, subresource) = match rest.as_slice() {
            ["namespaces", _, resource, tail @ ..] if !is_namespace_subresource(resource) => {
                (*resource, tail.first().copied(), tail.get(1).copied())
            }
            [resource, tail @ ..] => (*resource, tail.first().copied(), tail.get(1).copied()),
            [] => ("", Some(""), None),
        };
        let verb = match *method {
            Method::GET if is_watch(uri) => Verb::Watch,
            Method::GET if name.is_none() => Verb::List,
            Method::GET => Verb::Get,
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE if name.is_none() => Verb::DeleteCollection,
            Method::DELETE => Verb::Delete,
            _ => Verb::Other,
        };
        let resource = subresource.map_or_else(|| resource.to_owned(), |sub| format!("{resource}/{sub}"));
        Self { verb, resource }
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let resource = if self.resource.is_empty() { "API server" } else { &self.resource };
        write!(f, "{} {resource}", self.verb.as_str())
    }
}

/// `/api/v1/namespaces/NAME/status` is about the namespace, not about a resource called `status`.
fn is_namespace_subresource(part: &str) -> bool {
    matches!(part, "status" | "finalize")
}

fn is_watch(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_and_resources_are_those_of_rbac() {
        let g = "/apis/config.ratify.dev/v2alpha1";
        for (method, uri, expected) in [
            (Method::GET, format!("{g}/executors?&limit=500"), "list executors"),
            (Method::GET, format!("{g}/executors?&watch=true&timeoutSeconds=50"), "watch executors"),
            (Method::GET, format!("{g}/executors/strict"), "get executors"),
            (Method::PUT, format!("{g}/executors/strict/status?"), "update executors/status"),
            (Method::PATCH, format!("{g}/namespaces/a/executorpodstatuses/x?&force=true"), "patch executorpodstatuses"),
            (Method::DELETE, format!("{g}/namespaces/a/executorpodstatuses/x?"), "delete executorpodstatuses"),
            (Method::DELETE, format!("{g}/namespaces/a/executorpodstatuses"), "deletecollection executorpodstatuses"),
            (Method::GET, "/api/v1/namespaces/a/pods".into(), "list pods"),
            (Method::GET, "/api/v1/namespaces/a".into(), "get namespaces"),
            (Method::GET, "/api/v1/namespaces/a/status".into(), "get namespaces/status"),
            (Method::GET, "/api/v1/pods".into(), "list pods"),
            (Method::POST, "/apis/events.k8s.io/v1/namespaces/default/events".into(), "create events"),
            (Method::POST, "/apis/authentication.k8s.io/v1/selfsubjectreviews".into(), "create selfsubjectreviews"),
            (Method::GET, "/version".into(), "get API server"),
            (Method::GET, "/openapi/v3/apis/config.ratify.dev/v2alpha1".into(), "get API server"),
        ] {
            let uri: Uri = uri.parse().unwrap();
            assert_eq!(Call::of(&method, &uri).to_string(), expected, "{method} {uri}");
        }
    }
}
