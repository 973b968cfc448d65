//! Enough of Azure: Key Vault's secrets and keys, the token endpoint for client assertions, and the managed identity
//! endpoint of a machine. Forms and error codes as the public REST reference documents them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fault::Alteration;
use crate::request::Request;
use crate::server::Reply;

/// A vault.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Vault {
    /// Secrets by name. A certificate is read as the secret of its name.
    pub secrets: BTreeMap<String, Secret>,
    /// Keys by name.
    pub keys: BTreeMap<String, Key>,
    /// What every other secret's name answers with; absent: 404.
    pub any_secret: Option<Secret>,
    /// Life time of access tokens, in scaled seconds.
    pub token_seconds: u64,
}

/// One secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Secret {
    /// Its value.
    pub value: String,
    /// `application/x-pem-file` or `application/x-pkcs12` for certificates.
    pub content_type: Option<String>,
    /// Its only version; empty stands for one that the vault made up.
    pub version: String,
    /// A disabled secret is answered 403.
    pub disabled: bool,
}

/// One key: its public part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Key {
    /// A JSON Web Key (RFC 7517) without `kid`.
    pub jwk: Value,
    /// Its only version; empty stands for one that the vault made up.
    #[serde(default)]
    pub version: String,
    /// A disabled key is answered, and says so.
    #[serde(default)]
    pub disabled: bool,
}

/// Version of items that have none of their own.
const VERSION: &str = "4387e9f3d6e14c459867679a90fd0f79";

impl Default for Vault {
    fn default() -> Self {
        Self { secrets: BTreeMap::new(), keys: BTreeMap::new(), any_secret: None, token_seconds: 3_600 }
    }
}

impl Secret {
    /// A certificate kept as PEM.
    pub fn pem(value: impl Into<String>) -> Self {
        Self { value: value.into(), content_type: Some("application/x-pem-file".into()), ..Self::default() }
    }

    /// A certificate kept as PKCS#12, in base64.
    pub fn pkcs12(value: impl Into<String>) -> Self {
        Self { value: value.into(), content_type: Some("application/x-pkcs12".into()), ..Self::default() }
    }
}

impl From<Value> for Key {
    fn from(jwk: Value) -> Self {
        Self { jwk, version: String::new(), disabled: false }
    }
}

/// `GET /secrets/{name}[/{version}]`.
pub(crate) fn secret(
    vault: &Vault,
    request: &Request,
    name: &str,
    version: Option<&str>,
    alter: Alteration<'_>,
) -> Reply {
    if !request.query.contains_key("api-version") {
        return error(400, "BadParameter", "api-version must be specified");
    }
    let found = vault.secrets.get(name).or(vault.any_secret.as_ref()).filter(|secret| fits(&secret.version, version));
    let Some(secret) = found else {
        let text = format!("A secret with (name/id) {name} was not found in this key vault.");
        return error(404, "SecretNotFound", &text);
    };
    if secret.disabled {
        return error(403, "Forbidden", "Operation get is not allowed on a disabled secret.");
    }
    let id = format!("{}/secrets/{name}/{}", request.base, or_made_up(&secret.version));
    let mut answer = json!({
        "value": alter.value(&secret.value),
        "id": id,
        "attributes": {"enabled": true, "created": 1_700_000_000, "updated": 1_700_000_000, "recoveryLevel": "Recoverable+Purgeable"},
    });
    if let (Some(content_type), Some(fields)) =
        (alter.content_type(secret.content_type.as_deref()), answer.as_object_mut())
    {
        fields.insert("contentType".into(), content_type.into());
    }
    Reply::json(200, &answer)
}

/// `GET /keys/{name}[/{version}]`.
pub(crate) fn key(vault: &Vault, request: &Request, name: &str, version: Option<&str>) -> Reply {
    let Some(key) = vault.keys.get(name).filter(|key| fits(&key.version, version)) else {
        let text = format!("A key with (name/id) {name} was not found in this key vault.");
        return error(404, "KeyNotFound", &text);
    };
    let mut jwk = key.jwk.clone();
    if let Some(fields) = jwk.as_object_mut() {
        fields.insert("kid".into(), format!("{}/keys/{name}/{}", request.base, or_made_up(&key.version)).into());
        fields.insert("key_ops".into(), json!(["verify", "sign"]));
    }
    Reply::json(200, &json!({"key": jwk, "attributes": {"enabled": !key.disabled}}))
}

/// `POST /{tenant}/oauth2/v2.0/token`: the client ID, if the request is in order.
pub(crate) fn token_client(request: &Request) -> Result<String, Reply> {
    let form = request.form();
    let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
    let jwt_bearer = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
    let in_order = field("grant_type") == "client_credentials"
        && field("client_assertion_type") == jwt_bearer
        && field("scope").ends_with("/.default")
        && !field("client_id").is_empty();
    if !in_order {
        return Err(oauth_error(400, "invalid_request", "AADSTS900144: The request body must contain all parameters."));
    }
    if field("client_assertion").is_empty() {
        return Err(oauth_error(
            401,
            "invalid_client",
            "AADSTS7000218: The request body must contain 'client_assertion'.",
        ));
    }
    Ok(field("client_id").to_owned())
}

/// `GET /metadata/identity/oauth2/token`: the client ID, if the request is in order.
pub(crate) fn identity_client(request: &Request) -> Result<String, Reply> {
    if request.header("metadata") != Some("true") || !request.query.contains_key("resource") {
        return Err(oauth_error(400, "invalid_request", "Required metadata header not specified"));
    }
    Ok(request.query.get("client_id").cloned().unwrap_or_else(|| "system-assigned".into()))
}

/// A token as the token endpoint gives it.
pub(crate) fn token(token: &str, seconds: u64) -> Reply {
    Reply::json(
        200,
        &json!({"token_type": "Bearer", "expires_in": seconds, "ext_expires_in": seconds, "access_token": token}),
    )
}

/// A token as a machine's identity endpoint gives it: numbers are texts there.
pub(crate) fn identity_token(token: &str, request: &Request, client: &str, seconds: u64, now: i64) -> Reply {
    let until = now.saturating_add_unsigned(seconds);
    Reply::json(
        200,
        &json!({
            "access_token": token, "client_id": client, "expires_in": seconds.to_string(), "expires_on": until.to_string(),
            "not_before": now.to_string(), "resource": request.query.get("resource"), "token_type": "Bearer",
        }),
    )
}

/// An error in the vault's form.
pub(crate) fn error(status: u16, code: &str, message: &str) -> Reply {
    Reply::json(status, &json!({"error": {"code": code, "message": message}}))
}

/// An error in the token endpoint's form, with the ids and times that no status may repeat.
pub(crate) fn oauth_error(status: u16, code: &str, message: &str) -> Reply {
    let trace = "5f2f2d3e-0000-4444-8888-9b2d3f1a0000";
    let description = format!("{message} Trace ID: {trace} Timestamp: 2026-11-30 12:00:00Z");
    Reply::json(status, &json!({"error": code, "error_description": description, "trace_id": trace}))
}

fn fits(version: &str, wanted: Option<&str>) -> bool {
    wanted.is_none_or(|wanted| wanted == or_made_up(version))
}

fn or_made_up(version: &str) -> &str {
    if version.is_empty() { VERSION } else { version }
}
