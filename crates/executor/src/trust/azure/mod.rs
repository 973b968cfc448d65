//! `azurekeyvault`: certificates, which Key Vault hands out as secrets, and public keys, each with a call of its own.

mod content;
mod identity;
mod jwk;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};
use reqwest::Url;
use serde::Deserialize;
use zeroize::Zeroizing;

pub use identity::AzureOptions;
use identity::Identity;
use jwk::Jwk;
pub use reqwest::Url as Address;

use super::address::{self, Segments};
use super::call::{Caller, refusal};
use super::error::{LoadError, MaterialError};
use super::gate::Credential;
use super::http::{Received, Request};
use super::token::Tokens;
use super::{Loaded, Material, TrustProvider};
use crate::compile::{AzureKeyVault, Provider, TrustRequest, VaultItem, Want};
use crate::words::{list, quote};

/// Version of the vault's API that is spoken.
const API_VERSION: &str = "7.4";

/// The provider, for one build.
pub(super) struct AzureProvider {
    pub(super) options: Arc<AzureOptions>,
    pub(super) caller: Caller,
    pub(super) tokens: Tokens,
}

#[derive(Deserialize)]
struct SecretBundle {
    value: Zeroizing<String>,
    #[serde(rename = "contentType", default)]
    content_type: Option<String>,
    #[serde(default)]
    attributes: Attributes,
}

#[derive(Deserialize)]
struct KeyBundle {
    key: Jwk,
    #[serde(default)]
    attributes: Attributes,
}

#[derive(Default, Deserialize)]
struct Attributes {
    /// Absent means enabled.
    #[serde(default)]
    enabled: Option<bool>,
}

/// One item of a vault, as far as fetching it got.
enum Fetched {
    Answer(Received),
    Missing,
}

impl TrustProvider for AzureProvider {
    fn load<'a>(&'a self, request: &'a TrustRequest) -> BoxFuture<'a, Result<Loaded, LoadError>> {
        self.load_vault(request).boxed()
    }
}

impl AzureProvider {
    async fn load_vault(&self, request: &TrustRequest) -> Result<Loaded, LoadError> {
        let Provider::AzureKeyVault(vault) = &request.provider else { return Err(LoadError::NotBuiltIn) };
        let base = address::parse(&vault.vault_url)?;
        let resource = self.options.resource_of(&base)?;
        let identity = Identity::of(&self.options, vault);
        let credential = Credential::named(&base, identity.name());
        let (mut loaded, mut missing) = (Loaded::default(), Vec::new());
        for item in &vault.items {
            let url = item_url(&base, request.want, item)?;
            match self.fetch(&url, &credential, &identity, &resource, request).await? {
                Fetched::Answer(received) => read(&mut loaded, received, request.want, item).await,
                Fetched::Missing => missing.push(shown(item)),
            }
        }
        if missing.is_empty() {
            return Ok(loaded);
        }
        let items = format!("{} {}", noun(request.want), list(&missing));
        Err(LoadError::MissingItems { upstream: credential.host().to_owned(), items })
    }

    async fn fetch(
        &self,
        url: &Url,
        credential: &Credential,
        identity: &Identity<'_>,
        resource: &str,
        of: &TrustRequest,
    ) -> Result<Fetched, LoadError> {
        let mut stale = None;
        loop {
            let token_of = identity.credential();
            let fetch = identity.token(resource, &self.caller, of);
            let token = self.tokens.get(&token_of, stale.as_ref(), &self.caller.visit, of, fetch).await?;
            let unreadable = || LoadError::TokenUnreadable { token: token_of.label().to_owned() };
            let request = Request::get(url.clone()).header("accept", "application/json").bearer(&token);
            let received = self.caller.call(credential, &request.ok_or_else(unreadable)?, of).await?;
            return match received.status {
                200..=299 => Ok(Fetched::Answer(received)),
                404 => Ok(Fetched::Missing),
                // A token can be withdrawn before its time; another one is tried once.
                401 if stale.is_none() => {
                    stale = Some(token);
                    continue;
                }
                // What a disabled secret is answered with; whether it is one stands in words only.
                403 if received.mentions("disabled") => Ok(Fetched::Answer(received)),
                _ => Err(refusal(credential, &received)),
            };
        }
    }
}

async fn read(loaded: &mut Loaded, received: Received, want: Want, item: &VaultItem) {
    let origin = format!("{} {}", noun(want), shown(item));
    if !received.is_success() {
        return loaded.push(origin, Err(MaterialError::Disabled));
    }
    match want {
        Want::Certificates => match received.json::<SecretBundle>() {
            Ok(bundle) if bundle.attributes.enabled == Some(false) => loaded.push(origin, Err(MaterialError::Disabled)),
            Ok(bundle) => content::read(loaded, bundle.value, bundle.content_type.as_deref(), &origin).await,
            Err(body) => loaded.push(origin, Err(MaterialError::BadAnswer { body })),
        },
        Want::Keys => {
            let key = match received.json::<KeyBundle>() {
                Ok(bundle) if bundle.attributes.enabled == Some(false) => Err(MaterialError::Disabled),
                Ok(bundle) => bundle.key.public_key(),
                Err(body) => Err(MaterialError::BadAnswer { body }),
            };
            loaded.push(origin, key.map(Material::PublicKey));
        }
    }
}

fn item_url(base: &Url, want: Want, item: &VaultItem) -> Result<Url, LoadError> {
    let collection = match want {
        Want::Certificates => "secrets",
        Want::Keys => "keys",
    };
    let mut segments = Segments::of(base).push(collection).name("item", &item.name)?;
    if let Some(version) = &item.version {
        segments = segments.name("version", version)?;
    }
    let mut url = segments.url();
    url.query_pairs_mut().append_pair("api-version", API_VERSION);
    Ok(url)
}

/// The name of an item, with its version if the spec has one.
fn shown(item: &VaultItem) -> String {
    match &item.version {
        Some(version) => format!("{} version {}", quote(&item.name), quote(version)),
        None => quote(&item.name),
    }
}

const fn noun(want: Want) -> &'static str {
    match want {
        Want::Certificates => "certificate",
        Want::Keys => "key",
    }
}

impl AzureKeyVault {
    /// Client and tenant of the spec, where it has them, else the platform's.
    fn identity<'a>(&'a self, options: &'a AzureOptions) -> (&'a str, &'a str) {
        let or = |own: &'a str, platform: &'a str| if own.is_empty() { platform } else { own };
        (or(&self.client_id, &options.client_id), or(&self.tenant_id, &options.tenant_id))
    }
}
