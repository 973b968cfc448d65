//! Secrets of the release's namespace, as far as providers see them: by name, through whoever knows the API server.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};
use zeroize::Zeroizing;

use super::error::LoadError;
use super::files::read_material;
use super::{Loaded, TrustProvider};
use crate::compile::{Provider, Secret, TrustRequest};
use crate::words::{list, quote};

/// Reads Secrets. An absent one is `None`.
pub trait SecretReader: Send + Sync {
    /// The Secret of this name in the release's namespace.
    fn read<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<SecretData>, SecretError>>;
}

/// What a Secret holds. Its debug form has the keys only.
#[derive(Clone, Default)]
pub struct SecretData(BTreeMap<String, Zeroizing<Vec<u8>>>);

/// Why a Secret cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// This replica has no right to.
    #[error("it may not be read")]
    Forbidden,
    /// The API server does not answer.
    #[error("the API server does not answer")]
    Unreachable,
}

/// `kubernetesSecret`.
pub(super) struct SecretProvider<R>(pub(super) R);

impl SecretData {
    /// What is kept under this key.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.0.get(key).map(|value| value.as_slice())
    }
}

impl<K: Into<String>, V: Into<Vec<u8>>> FromIterator<(K, V)> for SecretData {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        Self(entries.into_iter().map(|(key, value)| (key.into(), Zeroizing::new(value.into()))).collect())
    }
}

impl<R: SecretReader + ?Sized> SecretReader for Arc<R> {
    fn read<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<SecretData>, SecretError>> {
        (**self).read(name)
    }
}

impl<R: SecretReader> TrustProvider for SecretProvider<R> {
    fn load<'a>(&'a self, request: &'a TrustRequest) -> BoxFuture<'a, Result<Loaded, LoadError>> {
        load(&self.0, request).boxed()
    }
}

async fn load(reader: &impl SecretReader, request: &TrustRequest) -> Result<Loaded, LoadError> {
    let Provider::KubernetesSecret(wanted) = &request.provider else { return Err(LoadError::NotBuiltIn) };
    let secret = quote(&wanted.name);
    let missing = |upstream: String, items| Err(LoadError::MissingItems { upstream, items });
    let data = match reader.read(&wanted.name).await {
        Ok(Some(data)) => data,
        Ok(None) => return missing("the namespace of this replica".to_owned(), format!("Secret {secret}")),
        Err(SecretError::Forbidden) => return Err(LoadError::SecretForbidden { secret }),
        Err(SecretError::Unreachable) => {
            return Err(LoadError::Unreachable { upstream: "the API server".to_owned() });
        }
    };
    let absent: Vec<_> = wanted.items.iter().filter(|key| data.get(key).is_none()).map(|key| quote(key)).collect();
    if !absent.is_empty() {
        return missing(format!("Secret {secret}"), format!("key {}", list(&absent)));
    }
    let mut loaded = Loaded::default();
    for key in &wanted.items {
        let bytes = data.get(key).unwrap_or_default();
        read_material(&mut loaded, bytes, request.want, &format!("key {}", quote(key)));
    }
    Ok(loaded)
}

/// The token kept under `key` of the Secret `name`, without white space around it, which editors and shells leave there.
pub(super) async fn token(reader: &impl SecretReader, name: &str, key: &str) -> Result<Secret, LoadError> {
    let unreadable = || LoadError::TokenUnreadable { token: place(name, key) };
    let data = match reader.read(name).await {
        Ok(data) => data.ok_or_else(unreadable)?,
        Err(_) => return Err(unreadable()),
    };
    let text = data.get(key).and_then(|bytes| str::from_utf8(bytes).ok()).map(str::trim);
    text.filter(|text| !text.is_empty()).map(Secret::new).ok_or_else(unreadable)
}

/// `key "token" of Secret "vault"`.
pub(super) fn place(name: &str, key: &str) -> String {
    format!("key {} of Secret {}", quote(key), quote(name))
}

impl fmt::Debug for SecretData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
