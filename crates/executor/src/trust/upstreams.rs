//! What a process needs once to load from upstreams, and the sources of each build made of it.

use std::fmt;
use std::sync::Arc;

use muster_core::gate::Line;
use rand::Rng;

use super::azure::{AzureOptions, AzureProvider};
use super::call::Caller;
use super::ferrvault::{FerrVaultOptions, FerrVaultProvider};
use super::gate::{Gates, Key, Patience, Visit};
use super::http::{Calls, Http};
use super::secret::{SecretProvider, SecretReader};
use super::time::Time;
use super::token::Tokens;
use super::{ProviderKind, Sources};

/// The upstreams of a process.
#[derive(Clone)]
pub struct Upstreams {
    gates: Gates,
    tokens: Tokens,
    http: Http,
    secrets: Arc<dyn SecretReader>,
    azure: Arc<AzureOptions>,
    ferrvault: Arc<FerrVaultOptions>,
    time: Arc<dyn Time>,
}

/// The parts of [`Upstreams`] that its surroundings decide.
pub struct Surroundings {
    /// How upstreams are reached.
    pub http: Http,
    /// Who knows Secrets.
    pub secrets: Arc<dyn SecretReader>,
    /// Identities at Azure.
    pub azure: AzureOptions,
    /// Tokens for FerrVault.
    pub ferrvault: FerrVaultOptions,
    /// Clocks.
    pub time: Arc<dyn Time>,
}

impl Upstreams {
    /// No gate, no token yet.
    pub fn new(surroundings: Surroundings, rng: impl Rng + Send + 'static) -> Self {
        let Surroundings { http, secrets, azure, ferrvault, time } = surroundings;
        Self {
            gates: Gates::new(Arc::clone(&time), rng),
            tokens: Tokens::new(Arc::clone(&time)),
            http,
            secrets,
            azure: Arc::new(azure),
            ferrvault: Arc::new(ferrvault),
            time,
        }
    }

    /// The same, and `calls` is told of each call to an upstream.
    #[must_use]
    pub fn telling(self, calls: Arc<dyn Calls>) -> Self {
        Self { http: self.http.telling(calls), ..self }
    }

    /// One build begins for the executor of this UID: its sources, and its visit to the gates, to be ended after it.
    pub fn visit(&self, key: Key, line: Line, patience: Arc<dyn Patience>) -> (Sources, Visit) {
        let visit = self.gates.visit(key, line, patience);
        let caller = |provider| Caller { http: self.http.clone(), visit: visit.clone(), provider };
        let azure = AzureProvider {
            options: Arc::clone(&self.azure),
            caller: caller(ProviderKind::AzureKeyVault),
            tokens: self.tokens.clone(),
        };
        let ferrvault = FerrVaultProvider {
            options: Arc::clone(&self.ferrvault),
            caller: caller(ProviderKind::FerrVault),
            tokens: self.tokens.clone(),
            secrets: Arc::clone(&self.secrets),
            time: Arc::clone(&self.time),
        };
        let sources = Sources::local()
            .with(ProviderKind::KubernetesSecret, Arc::new(SecretProvider(Arc::clone(&self.secrets))))
            .with(ProviderKind::AzureKeyVault, Arc::new(azure))
            .with(ProviderKind::FerrVault, Arc::new(ferrvault));
        (sources, visit)
    }

    /// The gates, to be looked at and to be told of executors that are gone.
    pub const fn gates(&self) -> &Gates {
        &self.gates
    }
}

impl fmt::Debug for Upstreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstreams").field("gates", &self.gates).finish_non_exhaustive()
    }
}
