//! Trust material: what providers load, item by item.
//!
//! A provider hands over the items it got and a fault for each it could not use, so that one bad item is named and hides
//! no good one. Only what stops the whole load is an error, and each error is a closed case with fixed parameters: its text
//! is the same every time, whatever an upstream put into its answer.

mod address;
pub mod azure;
mod call;
mod error;
pub mod ferrvault;
pub mod files;
pub mod gate;
pub mod http;
pub mod inline;
mod pem;
mod public_key;
mod secret;
#[cfg(test)]
pub(crate) mod testing;
pub mod time;
mod token;
mod upstreams;
mod x509;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};

pub use error::{Fault, LoadError, MaterialError};
pub use public_key::{KeyAlgorithm, PublicKey};
pub use secret::{SecretData, SecretError, SecretReader};
pub use upstreams::{Surroundings, Upstreams};
pub use x509::{Certificate, Validity};

use crate::compile::{TrustRequest, Want};

/// Most items of one load. A bundle of all public authorities has some 150.
pub const ITEMS_MAX: usize = 512;

/// The providers that a spec may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProviderKind {
    /// `inline`: in the spec itself.
    Inline,
    /// `files`: below the trust directory.
    Files,
    /// `azurekeyvault`.
    AzureKeyVault,
    /// `kubernetesSecret`.
    KubernetesSecret,
    /// `ferrvault`.
    FerrVault,
}

/// Loads trust material.
///
/// A provider whose calls pass a gate has to know for whom it asks; it is made for each build and put into that build's
/// [`Sources`]. Every load is bounded in bytes and items, and every call to an upstream in time.
pub trait TrustProvider: Send + Sync {
    /// Loads everything that `request` names.
    fn load<'a>(&'a self, request: &'a TrustRequest) -> BoxFuture<'a, Result<Loaded, LoadError>>;

    /// What a load would find, as a digest, where finding out is cheap: polled to notice changes. `None` where it is not.
    fn digest<'a>(&'a self, request: &'a TrustRequest) -> BoxFuture<'a, Result<Option<Digest>, LoadError>> {
        let _ = request;
        async { Ok(None) }.boxed()
    }
}

/// SHA-256 of names and contents.
pub type Digest = [u8; 32];

/// The providers of one build.
#[derive(Clone, Default)]
pub struct Sources {
    providers: BTreeMap<ProviderKind, Arc<dyn TrustProvider>>,
}

/// What a provider loaded.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// What can be used.
    pub items: Vec<Item>,
    /// What cannot.
    pub faults: Vec<Fault>,
    /// What the provider's [`TrustProvider::digest`] would say of it.
    pub digest: Option<Digest>,
}

/// One certificate or key, and where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// `block 2`, `ca.pem block 1`, `certificate "release-2026"`.
    pub origin: String,
    /// What it is.
    pub material: Material,
}

/// A certificate or a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Material {
    /// An X.509 certificate.
    Certificate(Certificate),
    /// A public key.
    PublicKey(PublicKey),
}

impl ProviderKind {
    /// Every provider, in the order in which errors name them.
    pub const ALL: [Self; 5] =
        [Self::Inline, Self::Files, Self::AzureKeyVault, Self::KubernetesSecret, Self::FerrVault];

    /// The name in the spec.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Files => "files",
            Self::AzureKeyVault => "azurekeyvault",
            Self::KubernetesSecret => "kubernetesSecret",
            Self::FerrVault => "ferrvault",
        }
    }
}

impl fmt::Display for ProviderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that no provider has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such provider; there are inline, files, azurekeyvault, kubernetesSecret and ferrvault")]
pub struct UnknownProvider;

impl FromStr for ProviderKind {
    type Err = UnknownProvider;

    fn from_str(name: &str) -> Result<Self, UnknownProvider> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name).ok_or(UnknownProvider)
    }
}

impl Sources {
    /// The providers that need no network: `inline` and `files`.
    pub fn local() -> Self {
        Self::default()
            .with(ProviderKind::Inline, Arc::new(inline::InlineProvider))
            .with(ProviderKind::Files, Arc::new(files::FilesProvider))
    }

    /// The same with one provider added or replaced.
    #[must_use]
    pub fn with(mut self, kind: ProviderKind, provider: Arc<dyn TrustProvider>) -> Self {
        self.providers.insert(kind, provider);
        self
    }

    /// The provider of this kind.
    pub fn get(&self, kind: ProviderKind) -> Option<&Arc<dyn TrustProvider>> {
        self.providers.get(&kind)
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.providers.keys()).finish()
    }
}

impl Loaded {
    /// Reads every item of the wanted kind in `text`, which was found at `place` (empty for nowhere in particular).
    pub fn from_pem(text: &str, want: Want, place: &str) -> Self {
        let mut loaded = Self::default();
        loaded.read_pem(text, want, place);
        loaded
    }

    /// Adds every item of the wanted kind in `text`.
    pub(crate) fn read_pem(&mut self, text: &str, want: Want, place: &str) {
        let mut blocks = 0;
        for block in pem::blocks(text) {
            blocks += 1;
            let origin = if place.is_empty() { format!("block {blocks}") } else { format!("{place} block {blocks}") };
            if self.items.len() + self.faults.len() >= ITEMS_MAX {
                self.faults.push(Fault { origin, error: MaterialError::TooMany });
                return;
            }
            self.push(origin, block.and_then(|block| block.into_material(want)));
        }
        if blocks == 0 {
            let origin = if place.is_empty() { "the text" } else { place };
            self.push(origin.to_owned(), Err(MaterialError::NoBlock));
        }
    }

    /// Adds one item, or what is wrong with it.
    pub fn push(&mut self, origin: String, material: Result<Material, MaterialError>) {
        match material {
            Ok(material) => self.items.push(Item { origin, material }),
            Err(error) => self.faults.push(Fault { origin, error }),
        }
    }
}

impl Material {
    /// The certificate, if it is one.
    pub const fn as_certificate(&self) -> Option<&Certificate> {
        match self {
            Self::Certificate(certificate) => Some(certificate),
            Self::PublicKey(_) => None,
        }
    }

    /// The certificate, if it is one.
    pub fn into_certificate(self) -> Option<Certificate> {
        match self {
            Self::Certificate(certificate) => Some(certificate),
            Self::PublicKey(_) => None,
        }
    }
}

/// Takes the certificates out that may not anchor trust, and returns what is wrong with them.
///
/// As in the Notary Project's trust store, an anchor is a certificate authority or a self-signed certificate
/// (notaryproject/ratify #2723): any other would be trusted without whoever issued it.
pub fn keep_anchors(loaded: &mut Loaded) -> Vec<Fault> {
    let mut faults = Vec::new();
    loaded.items.retain(|item| {
        let Some(leaf) = item.material.as_certificate().filter(|certificate| !certificate.may_anchor()) else {
            return true;
        };
        let error = MaterialError::NotAnAnchor { certificate: leaf.label() };
        faults.push(Fault { origin: item.origin.clone(), error });
        false
    });
    faults
}

#[cfg(test)]
mod tests;
