//! Who this replica is. Its objects belong to its pod by the pod's UID; an object with a UID that no pod has is removed by
//! the garbage collector within milliseconds, written again, removed again (C03). So what the environment says is
//! checked against what the API server says about the token, before anything is written.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::{SelfSubjectReview, UserInfo};
use kube::api::PostParams;
use kube::{Api, Client};
use muster_api::PodRef;
use muster_core::backoff::Backoff;
use muster_core::retry::{Retry, Step};
use muster_runtime::args::PodArgs;
use muster_runtime::clock::Clock;
use muster_runtime::kube_error::{Verdict, classify};
use muster_runtime::rng::Rng;

/// Extra of a token bound to a pod: the pod's name.
const POD_NAME_EXTRA: &str = "authentication.kubernetes.io/pod-name";
/// Extra of a token bound to a pod: the pod's UID.
const POD_UID_EXTRA: &str = "authentication.kubernetes.io/pod-uid";
/// How every service account's user name begins; its namespace follows.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// The pod this process runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its namespace; this replica's objects are there.
    pub namespace: String,
    /// Its name and UID.
    pub pod: PodRef,
}

/// Who the API server thinks we are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// User name.
    pub username: String,
    /// Name of the pod that the token is bound to.
    pub pod_name: Option<String>,
    /// UID of that pod.
    pub pod_uid: Option<String>,
}

/// The process does not know who it is, or is not who it thinks. Each ends it with one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The downward API's variables are missing.
    #[error(
        "{} not set: a replica must know its pod; set {} in the container's env by valueFrom.fieldRef.fieldPath {}, \
         or run with --standalone outside a pod",
        are(variables), variables.join(", "), paths(variables)
    )]
    Missing {
        /// Those that are.
        variables: Vec<&'static str>,
    },
    /// The token is not bound to a pod.
    #[error(
        "the token of {username} is not bound to a pod, so nobody can tell whose reports these would be; \
         use the token that the kubelet mounts, or run with --standalone outside a pod"
    )]
    Unbound {
        /// Who the API server says we are.
        username: String,
    },
    /// The environment and the token disagree.
    #[error("{variable} is {told:?}, but the token belongs to {actual:?}: nothing is written under another's name")]
    Mismatch {
        /// The variable.
        variable: &'static str,
        /// What it says.
        told: String,
        /// What the API server says.
        actual: String,
    },
    /// `--standalone` in a pod.
    #[error(
        "--standalone is for one process outside a cluster, but the token is bound to pod {pod:?}: \
         several pods would overwrite each other's outcome; leave the flag out"
    )]
    StandaloneInPod {
        /// Name of the pod.
        pod: String,
    },
    /// The API server does not accept the token, so its pod may not exist (any more).
    #[error("the API server does not accept the token of pod {pod:?}: does the pod still exist? nothing was written")]
    Rejected {
        /// Name of the pod, or `--standalone`.
        pod: String,
    },
}

impl Error {
    /// Stable word for logs.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "IdentityMissing",
            Self::Unbound { .. } => "TokenUnbound",
            Self::Mismatch { .. } => "IdentityMismatch",
            Self::StandaloneInPod { .. } => "StandaloneInPod",
            Self::Rejected { .. } => "TokenRejected",
        }
    }
}

impl Identity {
    /// What the environment says.
    pub fn told(args: &PodArgs) -> Result<Self, Error> {
        let value = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
        match (value(&args.pod_namespace), value(&args.pod_name), value(&args.pod_uid)) {
            (Some(namespace), Some(name), Some(uid)) => Ok(Self { namespace, pod: PodRef { name, uid } }),
            (namespace, name, uid) => {
                let all =
                    [("POD_NAME", name.is_none()), ("POD_NAMESPACE", namespace.is_none()), ("POD_UID", uid.is_none())];
                let variables = all.into_iter().filter_map(|(variable, missing)| missing.then_some(variable)).collect();
                Err(Error::Missing { variables })
            }
        }
    }

    /// Compares it with what the API server says.
    pub fn confirm(&self, caller: &Caller) -> Result<(), Error> {
        let (Some(name), Some(uid)) = (&caller.pod_name, &caller.pod_uid) else {
            return Err(Error::Unbound { username: caller.username.clone() });
        };
        let namespace = caller.namespace().unwrap_or_default();
        for (variable, told, actual) in [
            ("POD_NAME", self.pod.name.as_str(), name.as_str()),
            ("POD_UID", &self.pod.uid, uid),
            ("POD_NAMESPACE", &self.namespace, namespace),
        ] {
            if told != actual {
                return Err(Error::Mismatch { variable, told: told.to_owned(), actual: actual.to_owned() });
            }
        }
        Ok(())
    }
}

impl Caller {
    /// Asks the API server, which answers every authenticated caller.
    pub async fn ask(client: Client) -> Result<Self, Verdict> {
        let review = Api::<SelfSubjectReview>::all(client)
            .create(&PostParams::default(), &SelfSubjectReview::default())
            .await
            .map_err(|error| classify(&error))?;
        Ok(review.status.and_then(|status| status.user_info).map(Self::from).unwrap_or_default())
    }

    /// Asks until there is an answer that means something: while the API server is away, nobody knows. A token that it
    /// does not accept is such an answer.
    pub async fn learn(client: &Client, clock: &Clock, rng: &mut Rng, pod: &str) -> Result<Self, Error> {
        let mut backoff: Backoff<()> = Backoff::default();
        loop {
            let verdict = match Self::ask(client.clone()).await {
                Ok(caller) => return Ok(caller),
                Err(verdict) if verdict.retry == Retry::Unauthorized => {
                    return Err(Error::Rejected { pod: pod.to_owned() });
                }
                Err(verdict) => verdict,
            };
            let floor = match verdict.retry.step() {
                Step::Wait { floor } => floor,
                _ => None,
            };
            let at = backoff.failed((), clock.now(), floor, rng).min(clock.now() + LONGEST_PAUSE);
            if backoff.failures(&()) == 1 {
                tracing::warn!(category = verdict.category(), error = %verdict, "cannot ask the API server who we are, trying again");
            }
            clock.sleep_until(at).await;
        }
    }

    /// `--standalone` is for those who have no pod.
    pub fn confirm_standalone(&self) -> Result<(), Error> {
        match &self.pod_name {
            Some(pod) => Err(Error::StandaloneInPod { pod: pod.clone() }),
            None => Ok(()),
        }
    }

    fn namespace(&self) -> Option<&str> {
        self.username.strip_prefix(SERVICE_ACCOUNT)?.split(':').next()
    }
}

/// Longest pause between two questions: a replica must be ready within a minute after the API server is back (C41).
const LONGEST_PAUSE: Duration = Duration::from_secs(20);

impl From<UserInfo> for Caller {
    fn from(info: UserInfo) -> Self {
        let extra = info.extra.unwrap_or_default();
        let first = |key: &str| extra.get(key).and_then(|values| values.first()).cloned();
        Self {
            pod_name: first(POD_NAME_EXTRA),
            pod_uid: first(POD_UID_EXTRA),
            username: info.username.unwrap_or_default(),
        }
    }
}

fn are(variables: &[&str]) -> String {
    let verb = if variables.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", variables.join(", "))
}

fn paths(variables: &[&str]) -> String {
    let path = |variable: &&str| match *variable {
        "POD_NAME" => "metadata.name",
        "POD_NAMESPACE" => "metadata.namespace",
        _ => "metadata.uid",
    };
    variables.iter().map(path).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(name: Option<&str>, namespace: Option<&str>, uid: Option<&str>) -> PodArgs {
        let owned = |value: Option<&str>| value.map(str::to_owned);
        PodArgs { pod_name: owned(name), pod_namespace: owned(namespace), pod_uid: owned(uid), node_name: None }
    }

    fn identity() -> Identity {
        Identity::told(&args(Some("r-1"), Some("muster-system"), Some("u-1"))).unwrap()
    }

    fn caller(name: Option<&str>, uid: Option<&str>) -> Caller {
        Caller {
            username: "system:serviceaccount:muster-system:muster-reconciler".into(),
            pod_name: name.map(str::to_owned),
            pod_uid: uid.map(str::to_owned),
        }
    }

    #[test]
    fn c03_missing_variables_are_named_with_how_to_set_them() {
        let error = Identity::told(&args(Some("r-1"), None, Some(""))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "POD_NAMESPACE, POD_UID are not set: a replica must know its pod; set POD_NAMESPACE, POD_UID in the \
             container's env by valueFrom.fieldRef.fieldPath metadata.namespace, metadata.uid, or run with --standalone \
             outside a pod"
        );
        let error = Identity::told(&args(None, Some("n"), Some("u"))).unwrap_err().to_string();
        assert!(error.starts_with("POD_NAME is not set"), "{error}");
    }

    #[test]
    fn c03_another_pods_name_uid_or_namespace_is_refused() {
        let identity = identity();
        assert_eq!(identity.confirm(&caller(Some("r-1"), Some("u-1"))), Ok(()));
        for (name, uid, variable) in [("r-2", "u-1", "POD_NAME"), ("r-1", "u-2", "POD_UID")] {
            let error = identity.confirm(&caller(Some(name), Some(uid))).unwrap_err();
            assert!(error.to_string().starts_with(variable), "{error}");
            assert_eq!(error.category(), "IdentityMismatch");
        }
        let elsewhere = Caller { username: "system:serviceaccount:other:x".into(), ..caller(Some("r-1"), Some("u-1")) };
        assert!(
            identity.confirm(&elsewhere).unwrap_err().to_string().starts_with("POD_NAMESPACE is \"muster-system\"")
        );
    }

    #[test]
    fn a_token_without_a_pod_is_for_standalone_alone() {
        assert_eq!(identity().confirm(&caller(None, None)).unwrap_err().category(), "TokenUnbound");
        assert_eq!(caller(None, None).confirm_standalone(), Ok(()));
        let error = caller(Some("r-1"), Some("u-1")).confirm_standalone().unwrap_err();
        assert!(error.to_string().contains("\"r-1\""), "{error}");
    }
}
