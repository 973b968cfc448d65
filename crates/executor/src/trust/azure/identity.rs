//! Who a replica is to Azure: a workload identity, whose service account token is exchanged at the authority, or else the
//! machine's managed identity.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;
use serde::{Deserialize, Deserializer};
use zeroize::Zeroizing;

use super::AzureKeyVault;
use crate::compile::{Secret, TrustRequest};
use crate::trust::address::{self, Segments};
use crate::trust::call::{Caller, refusal};
use crate::trust::error::LoadError;
use crate::trust::gate::Credential;
use crate::trust::http::Request;
use crate::trust::token::Issued;
use crate::words::quote;

/// Domains of vaults, and the audience that a token for them is made out to: the public cloud, China, the United States'
/// government, and managed HSMs.
const CLOUDS: [(&str, &str); 5] = [
    ("vault.azure.net", "https://vault.azure.net"),
    ("vault.azure.cn", "https://vault.azure.cn"),
    ("vault.usgovcloudapi.net", "https://vault.usgovcloudapi.net"),
    ("vault.microsoftazure.de", "https://vault.microsoftazure.de"),
    ("managedhsm.azure.net", "https://managedhsm.azure.net"),
];

/// Version of the machine's identity endpoint that is spoken.
const IMDS_VERSION: &str = "2018-02-01";

/// Life of a token when nothing says it: short, so that a wrong guess heals soon.
const UNKNOWN_LIFE: Duration = Duration::from_mins(5);

/// What the platform says about identities, and which vaults may see their tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AzureOptions {
    /// The authority that exchanges tokens. Sovereign clouds have their own.
    pub authority: Url,
    /// Tenant of the workload identity, where the spec names none.
    pub tenant_id: String,
    /// Client of the identity, where the spec names none.
    pub client_id: String,
    /// File with the service account's token; without one there is no workload identity, and the machine's is used.
    pub token_file: Option<PathBuf>,
    /// The machine's identity endpoint.
    pub machine: Url,
    /// Hosts, beside those in Azure's own vault domains, that tokens for vaults may be shown to. A spec names the vault's
    /// address: without this bound its author could have the token sent anywhere.
    pub vault_hosts: Vec<String>,
}

/// Who asks.
pub(super) enum Identity<'a> {
    Workload { authority: &'a Url, tenant: &'a str, client: &'a str, token_file: &'a PathBuf, name: String },
    Machine { endpoint: &'a Url, client: &'a str, name: String },
}

/// An access token. The authority writes the number of seconds as a number, the machine as a text.
#[derive(Deserialize)]
struct Granted {
    access_token: Zeroizing<String>,
    #[serde(default, deserialize_with = "seconds")]
    expires_in: Option<u64>,
}

impl AzureOptions {
    /// The audience of a token for the vault at this address.
    pub(super) fn resource_of(&self, vault: &Url) -> Result<String, LoadError> {
        let host = vault.host_str().unwrap_or_default();
        let within = |(domain, _): &&(&str, &str)| host.strip_suffix(domain).is_some_and(|name| name.ends_with('.'));
        if let Some((_, resource)) = CLOUDS.iter().find(within) {
            return Ok((*resource).to_owned());
        }
        if self.vault_hosts.iter().any(|known| known == host) {
            return Ok(CLOUDS[0].1.to_owned());
        }
        let what = format!("host {}", quote(host));
        Err(LoadError::Invalid { what, problem: "is no Azure Key Vault, and not among the hosts allowed besides" })
    }
}

impl<'a> Identity<'a> {
    pub(super) fn of(options: &'a AzureOptions, vault: &'a AzureKeyVault) -> Self {
        let (client, tenant) = vault.identity(options);
        match &options.token_file {
            Some(token_file) => {
                let name = format!("client {client} of tenant {tenant}");
                Self::Workload { authority: &options.authority, tenant, client, token_file, name }
            }
            None if client.is_empty() => {
                Self::Machine { endpoint: &options.machine, client, name: "the machine's identity".to_owned() }
            }
            None => Self::Machine { endpoint: &options.machine, client, name: format!("managed identity {client}") },
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Workload { name, .. } | Self::Machine { name, .. } => name,
        }
    }

    /// Whose gate the request for a token passes: the authority is an upstream of its own.
    pub(super) fn credential(&self) -> Credential {
        match self {
            Self::Workload { authority: at, name, .. } | Self::Machine { endpoint: at, name, .. } => {
                Credential::named(at, name)
            }
        }
    }

    /// Gets a token for this audience.
    pub(super) async fn token(&self, resource: &str, caller: &Caller, of: &TrustRequest) -> Result<Issued, LoadError> {
        let credential = self.credential();
        let request = match self {
            Self::Workload { authority, tenant, client, token_file, .. } => {
                if tenant.is_empty() || client.is_empty() {
                    return Err(LoadError::Invalid {
                        what: "the Azure identity".to_owned(),
                        problem: "has no clientID or no tenantID, neither in the spec nor from the platform",
                    });
                }
                let assertion = address::token_file(token_file).await?;
                let url =
                    Segments::of(authority).name("tenant", tenant)?.push("oauth2").push("v2.0").push("token").url();
                let body = assertion_form(client, resource, &assertion);
                Request::post(url, "application/x-www-form-urlencoded", body, &assertion)
            }
            Self::Machine { endpoint, client, .. } => {
                let path = ["metadata", "identity", "oauth2", "token"];
                let mut url = path.into_iter().fold(Segments::of(endpoint), Segments::push).url();
                url.query_pairs_mut().append_pair("api-version", IMDS_VERSION).append_pair("resource", resource);
                if !client.is_empty() {
                    url.query_pairs_mut().append_pair("client_id", client);
                }
                Request::get(url).header("metadata", "true")
            }
        };
        let received = caller.call(&credential, &request, of).await?;
        match received.status {
            200..=299 => {}
            // 400: the authority knows no such client, or the machine no such identity.
            400 => return Err(LoadError::AuthFailed { upstream: credential.host().to_owned() }),
            _ => return Err(refusal(&credential, &received)),
        }
        let bad = |body| LoadError::BadAnswer { upstream: credential.host().to_owned(), body };
        let granted: Granted = received.json().map_err(bad)?;
        let life = granted.expires_in.map_or(UNKNOWN_LIFE, Duration::from_secs);
        Ok(Issued { token: Secret::new(&granted.access_token), life })
    }
}

/// The request of RFC 7523 §2.2: a client that shows a signed assertion instead of a password.
fn assertion_form(client: &str, resource: &str, assertion: &Secret) -> Zeroizing<String> {
    let scope = format!("{resource}/.default");
    let fields = [
        ("grant_type", "client_credentials"),
        ("client_id", client),
        ("scope", &scope),
        ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
        ("client_assertion", assertion.reveal()),
    ];
    Zeroizing::new(form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish())
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::Number(number) => number.as_u64(),
        serde_json::Value::String(text) => text.parse().ok(),
        _ => None,
    })
}
