//! Clients that are what a program in the cluster would be: a service account, with or without a pod behind it.

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};

use crate::control_plane::ControlPlane;

/// Life of a token that nobody renews: longer than any test.
const LIFETIME: i64 = 3600;

/// A client of a service account. Its token is bound to no pod, so the API server knows the account and nothing more.
pub async fn service_account(plane: &ControlPlane, namespace: &str, name: &str) -> Result<Client> {
    let token = token(&plane.client()?, namespace, name, None, LIFETIME).await?;
    plane.client_with_token(&token)
}

/// A client of the service account of `pod`, with a token bound to that pod as the kubelet would give it.
pub async fn pod(plane: &ControlPlane, namespace: &str, pod: &str) -> Result<Client> {
    let client = plane.client()?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pod = pods.get(pod).await.with_context(|| format!("cannot read pod {namespace}/{pod}"))?;
    let token = token(&client, namespace, service_account_of(&pod), Some(&pod), LIFETIME).await?;
    plane.client_with_token(&token)
}

/// The service account a pod runs under.
pub(crate) fn service_account_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref()).unwrap_or("default")
}

/// Asks for a token of a service account, bound to `pod` if given, valid for `seconds` (at least 600).
pub(crate) async fn token(
    client: &Client,
    namespace: &str,
    name: &str,
    pod: Option<&Pod>,
    seconds: i64,
) -> Result<String> {
    let bound_object_ref = pod.map(|pod| BoundObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: Some(pod.name_any()),
        uid: pod.uid(),
    });
    let spec = TokenRequestSpec { audiences: Vec::new(), bound_object_ref, expiration_seconds: Some(seconds) };
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let answer = accounts.create_token_request(name, &PostParams::default(), &request).await;
    let answer = answer.with_context(|| format!("cannot get a token of service account {namespace}/{name}"))?;
    answer.status.map(|status| status.token).context("a token request without a token")
}
