//! `ferrvault`: all items of one vault with one call, shown either a token kept in a Secret or one that is exchanged for
//! the pod's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use jiff::Timestamp;
use reqwest::Url;
use serde::Deserialize;
use zeroize::Zeroizing;

use super::address::{self, Segments};
use super::call::{Caller, refusal};
use super::error::LoadError;
use super::gate::Credential;
use super::http::Request;
use super::secret::{self, SecretReader};
use super::time::Time;
use super::token::{Issued, Tokens};
use super::{Loaded, TrustProvider};
use crate::compile::{FerrVault, FerrVaultToken, Provider, Secret, TrustRequest};
use crate::words::{list, quote};

/// Life of an exchanged token when the server does not say: short, so that a wrong guess heals soon.
const UNKNOWN_LIFE: Duration = Duration::from_mins(5);

/// Where tokens may be read that are shown to a server. A spec names the file, and another directory could hold a token of
/// the pod that is nobody else's business, its API server's for example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FerrVaultOptions {
    /// Directories below which token files may be.
    pub token_dirs: Vec<PathBuf>,
    /// The namespace this replica speaks for.
    pub namespace: String,
}

/// The provider, for one build.
pub(super) struct FerrVaultProvider {
    pub(super) options: Arc<FerrVaultOptions>,
    pub(super) caller: Caller,
    pub(super) tokens: Tokens,
    pub(super) secrets: Arc<dyn SecretReader>,
    pub(super) time: Arc<dyn Time>,
}

#[derive(Deserialize)]
struct Exchanged {
    access_token: Zeroizing<String>,
    #[serde(default)]
    expires_at: serde_json::Value,
}

#[derive(Deserialize)]
struct Revealed {
    secrets: BTreeMap<String, Zeroizing<String>>,
    #[serde(default)]
    missing: Vec<String>,
}

/// Who asks, and with what.
struct Shown {
    credential: Credential,
    token: Secret,
}

impl TrustProvider for FerrVaultProvider {
    fn load<'a>(&'a self, request: &'a TrustRequest) -> BoxFuture<'a, Result<Loaded, LoadError>> {
        self.load_vault(request).boxed()
    }
}

impl FerrVaultProvider {
    async fn load_vault(&self, request: &TrustRequest) -> Result<Loaded, LoadError> {
        let Provider::FerrVault(vault) = &request.provider else { return Err(LoadError::NotBuiltIn) };
        let base = address::parse(&vault.url)?;
        let url = reveal_url(&base, vault)?;
        let mut shown = self.shown(&base, vault, None, request).await?;
        let mut received = self.reveal(&url, &shown, request).await?;
        if received.status == 401 && matches!(vault.token, FerrVaultToken::Oidc { .. }) {
            // A token can be withdrawn before its time; another one is tried once.
            shown = self.shown(&base, vault, Some(&shown.token), request).await?;
            received = self.reveal(&url, &shown, request).await?;
        }
        let upstream = shown.credential.host().to_owned();
        if received.status == 404 {
            return Err(LoadError::VaultNotFound { upstream, vault: vault.vault.clone() });
        }
        if !received.is_success() {
            return Err(refusal(&shown.credential, &received));
        }
        let bad = |body| LoadError::BadAnswer { upstream: upstream.clone(), body };
        let revealed: Revealed = received.json().map_err(bad)?;
        read(vault, &revealed, request, upstream)
    }

    async fn reveal(&self, url: &Url, shown: &Shown, of: &TrustRequest) -> Result<super::http::Received, LoadError> {
        let unreadable = || LoadError::TokenUnreadable { token: shown.credential.label().to_owned() };
        let request = Request::get(url.clone())
            // The server's API was renamed with the product; old and new servers each know one of the two.
            .header("x-ferrflow-namespace", &self.options.namespace)
            .header("x-ferrvault-namespace", &self.options.namespace)
            .header("accept", "application/json")
            .bearer(&shown.token)
            .ok_or_else(unreadable)?;
        self.caller.call(&shown.credential, &request, of).await
    }

    async fn shown(
        &self,
        base: &Url,
        vault: &FerrVault,
        stale: Option<&Secret>,
        of: &TrustRequest,
    ) -> Result<Shown, LoadError> {
        match &vault.token {
            FerrVaultToken::Secret { name, key } => {
                let token = secret::token(&self.secrets, name, key).await?;
                let credential = Credential::token(base, token.reveal(), &secret::place(name, key));
                Ok(Shown { credential, token })
            }
            FerrVaultToken::Oidc { cluster_id, token_path } => {
                let credential = Credential::named(base, &format!("cluster {cluster_id}"));
                let fetch = self.exchange(base, &credential, cluster_id, token_path, of);
                let token = self.tokens.get(&credential, stale, &self.caller.visit, of, fetch).await?;
                Ok(Shown { credential, token })
            }
        }
    }

    /// Exchanges the pod's token for one of the server's.
    async fn exchange(
        &self,
        base: &Url,
        credential: &Credential,
        cluster_id: &str,
        path: &Path,
        of: &TrustRequest,
    ) -> Result<Issued, LoadError> {
        if !self.options.token_dirs.iter().any(|dir| path.starts_with(dir)) {
            let what = format!("token file {}", quote(&path.display().to_string()));
            return Err(LoadError::Invalid { what, problem: "is in no directory that tokens may be read from" });
        }
        let own = address::token_file(path).await?;
        let body = serde_json::json!({ "cluster_id": cluster_id, "token": own.reveal() });
        let url = Segments::of(base).push("api").push("v1").push("clusters").push("oidc-exchange").url();
        let request = Request::post(url, "application/json", Zeroizing::new(body.to_string()), &own);
        let received = self.caller.call(credential, &request, of).await?;
        if !received.is_success() {
            return Err(match received.status {
                // 400: the server cannot read the token, which is as bad as not accepting it.
                400 => LoadError::AuthFailed { upstream: credential.host().to_owned() },
                _ => refusal(credential, &received),
            });
        }
        let bad = |body| LoadError::BadAnswer { upstream: credential.host().to_owned(), body };
        let exchanged: Exchanged = received.json().map_err(bad)?;
        let life = life(&exchanged.expires_at, self.time.wall());
        Ok(Issued { token: Secret::new(&exchanged.access_token), life })
    }
}

fn reveal_url(base: &Url, vault: &FerrVault) -> Result<Url, LoadError> {
    let mut segments =
        Segments::of(base).push("api").push("v1").push("orgs").name("organization", &vault.organization)?;
    segments = segments.push("projects").name("project", &vault.project)?;
    segments = segments.push("vaults").push("by-name").name("vault", &vault.vault)?;
    let mut url = segments.push("secrets").push("reveal").url();
    url.query_pairs_mut().append_pair("names", &vault.items.join(","));
    Ok(url)
}

fn read(vault: &FerrVault, revealed: &Revealed, of: &TrustRequest, upstream: String) -> Result<Loaded, LoadError> {
    let is_absent = |name: &&String| revealed.missing.contains(name) || !revealed.secrets.contains_key(*name);
    let absent: Vec<_> = vault.items.iter().filter(is_absent).map(|name| quote(name)).collect();
    if !absent.is_empty() {
        let items = format!("{} in vault {}", list(&absent), quote(&vault.vault));
        return Err(LoadError::MissingItems { upstream, items });
    }
    let mut loaded = Loaded::default();
    for name in &vault.items {
        let text = revealed.secrets.get(name).map_or("", |text| text.as_str());
        loaded.read_pem(text, of.want, &quote(name));
    }
    Ok(loaded)
}

/// How long a token lives that expires at this date: RFC 3339, or seconds since 1970.
fn life(expires_at: &serde_json::Value, now: Timestamp) -> Duration {
    let date = match expires_at {
        serde_json::Value::String(text) => text.parse().ok(),
        serde_json::Value::Number(number) => number.as_i64().and_then(|seconds| Timestamp::from_second(seconds).ok()),
        _ => None,
    };
    date.map_or(UNKNOWN_LIFE, |date: Timestamp| Duration::try_from(date.duration_since(now)).unwrap_or_default())
}
