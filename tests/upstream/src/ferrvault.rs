//! FerrVault's API: health, the exchange of a service account token for a short-lived one, and the reveal of secrets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use crate::fault::Alteration;
use crate::request::Request;
use crate::server::Reply;

/// What FerrVault holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Content {
    /// Vaults by `project/name`, each a map of names to values.
    pub vaults: BTreeMap<String, BTreeMap<String, String>>,
    /// What every other name answers with, in any vault; absent: missing, or 404 for the vault.
    pub any_value: Option<String>,
    /// Life time of exchanged tokens, in scaled seconds.
    pub token_seconds: u64,
}

impl Default for Content {
    fn default() -> Self {
        Self { vaults: BTreeMap::new(), any_value: None, token_seconds: 3_600 }
    }
}

impl Content {
    /// Adds one value.
    #[must_use]
    pub fn with(mut self, vault: &str, name: &str, value: impl Into<String>) -> Self {
        self.vaults.entry(vault.into()).or_default().insert(name.into(), value.into());
        self
    }
}

/// The namespace a request speaks for, under the header's old or new name.
pub(crate) fn namespace(request: &Request) -> Option<&str> {
    request.header("x-ferrvault-namespace").or_else(|| request.header("x-ferrflow-namespace"))
}

/// `GET …/secrets/reveal?names=a,b`.
pub(crate) fn reveal(content: &Content, request: &Request, project: &str, vault: &str, alter: Alteration<'_>) -> Reply {
    let by_cluster = request.bearer().is_some_and(|token| token.starts_with("ffclust_"));
    if by_cluster && namespace(request).is_none() {
        return error(400, "namespace header required");
    }
    let empty = BTreeMap::new();
    let held = match content.vaults.get(&format!("{project}/{vault}")) {
        Some(held) => held,
        None if content.any_value.is_some() => &empty,
        None => return error(404, "vault not found"),
    };
    let asked = request.query.get("names").map(String::as_str).unwrap_or_default();
    let names: Vec<&str> =
        if asked.is_empty() { held.keys().map(String::as_str).collect() } else { asked.split(',').collect() };
    let (mut secrets, mut missing) = (Map::new(), Vec::new());
    for name in names {
        match held.get(name).or(content.any_value.as_ref()) {
            Some(value) => {
                secrets.insert(name.to_owned(), alter.value(value).into());
            }
            None => missing.push(name),
        }
    }
    let about = json!({"id": "7a1c", "name": vault, "environment": "production"});
    Reply::json(200, &json!({"secrets": secrets, "missing": missing, "vault": about}))
}

/// `POST /api/v1/clusters/oidc-exchange`: the cluster ID, if the request is in order.
pub(crate) fn exchange_cluster(request: &Request) -> Result<(String, String), Reply> {
    #[derive(Deserialize)]
    struct Body {
        cluster_id: String,
        token: String,
    }
    match serde_json::from_slice::<Body>(&request.body) {
        Ok(body) if body.token.is_empty() => Err(error(401, "invalid token")),
        Ok(body) => Ok((body.cluster_id, body.token)),
        Err(_) => Err(error(400, "cluster_id and token are required")),
    }
}

/// An exchanged token.
pub(crate) fn exchanged(token: &str, expires_at: jiff::Timestamp) -> Reply {
    Reply::json(200, &json!({"access_token": token, "expires_at": expires_at.to_string(), "token_type": "Bearer"}))
}

/// An error in FerrVault's form.
pub(crate) fn error(status: u16, message: &str) -> Reply {
    Reply::json(status, &json!({"error": message}))
}
