//! Compiles a spec: everything that can be known about it without I/O.
//!
//! A mistake found here is permanent: the same spec compiles to the same error, so nobody retries before the spec changes.
//! Each spec compiles alone. What Ratify v2 accepts is accepted, and what is merely useless is a warning.

mod cosign;
mod credential;
mod error;
mod notation;
mod path;
mod policy;
mod provider;
mod reader;
mod store;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use muster_api::ExecutorSpec;
use muster_core::go_duration::GoDuration;

pub use cosign::{Cosign, CosignPolicy, Identity, PolicyTrust};
pub use credential::{Credential, Secret};
pub use error::CompileError;
pub use notation::{Notation, TrustStore, TrustStoreType};
pub use policy::Rule;
pub use provider::{
    AzureKeyVault, FerrVault, FerrVaultToken, Files, Inline, KubernetesSecret, Provider, TrustRequest, VaultItem, Want,
};
pub use store::{FilesystemOciStore, RegistryStore, Store, StoreKind};

use crate::scope::{Scope, ScopeError};
use crate::trust::ProviderKind;
use crate::warnings::Warnings;
use crate::words::{one_of, quote};
use path::Path;

/// How many artifacts one request verifies at the same time when the spec does not say (Ratify's default).
const DEFAULT_CONCURRENCY: u32 = 3;

/// How often trust material is fetched again when the spec does not say.
const DEFAULT_REFRESH: Duration = Duration::from_hours(1);

/// Shortest refresh, other than never: whatever is mistyped, a replica does not spin.
const SHORTEST_REFRESH: Duration = Duration::from_secs(1);

/// What the spec's surroundings allow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompileOptions {
    /// The spec is a NamespacedExecutor's: its author may name `inline` trust material only, and what
    /// [`CompileOptions::tenant_providers`] adds.
    pub tenant: bool,
    /// Providers that tenants may use besides `inline`.
    pub tenant_providers: BTreeSet<ProviderKind>,
    /// Providers that this program has besides `inline` and `files`.
    pub providers: BTreeSet<ProviderKind>,
    /// The directory below which `files` may read; without one, `files` is not built in.
    pub trust_dir: Option<PathBuf>,
}

/// A spec that makes sense.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// What the executor is responsible for.
    pub scopes: Vec<Scope>,
    /// The verifiers, in the order of the spec; their names differ.
    pub verifiers: Vec<Verifier>,
    /// The stores, in the order of the spec; no scope is in two of them.
    pub stores: Vec<Store>,
    /// The root of the policy; without one nothing ever succeeds.
    pub policy: Option<Rule>,
    /// How many artifacts one request verifies at the same time.
    pub concurrency: u32,
    /// How often trust material is fetched again; `None` is never.
    pub refresh_interval: Option<Duration>,
    /// What works but is not as its author may think: at most eight lines of at most 200 bytes.
    pub warnings: Vec<String>,
}

/// One verifier.
#[derive(Clone, Debug)]
pub struct Verifier {
    /// Name of the verifier; the policy's rules refer to it.
    pub name: String,
    /// What it verifies with.
    pub kind: VerifierKind,
}

/// The verifiers there are.
#[derive(Clone, Debug)]
pub enum VerifierKind {
    /// Notary Project signatures.
    Notation(Notation),
    /// Sigstore signatures.
    Cosign(Cosign),
}

/// Compiles a spec, or finds its first mistake in the order of the spec.
pub fn compile(spec: &ExecutorSpec, options: &CompileOptions) -> Result<Compiled, CompileError> {
    let warnings = Warnings::default();
    let root = Path::spec();
    let scopes = scopes(&root.key("scopes"), &spec.scopes)?;
    let verifiers = verifiers(&root.key("verifiers"), &spec.verifiers, &scopes, options, &warnings)?;
    let stores = store::stores(&root.key("stores"), &spec.stores, &scopes, &warnings)?;
    let policy = policy::policy(&root.key("policyEnforcer"), spec.policy_enforcer.as_ref(), &verifiers, &warnings)?;
    let refresh_interval = refresh_interval(&root.key("refreshInterval"), spec.refresh_interval.as_deref(), &warnings)?;
    let concurrency = spec.concurrency.and_then(|count| u32::try_from(count).ok()).filter(|count| *count > 0);
    Ok(Compiled {
        scopes,
        verifiers,
        stores,
        policy,
        concurrency: concurrency.unwrap_or(DEFAULT_CONCURRENCY),
        refresh_interval,
        warnings: warnings.into_texts(),
    })
}

impl Compiled {
    /// All trust material that has to be loaded, in the order of the spec.
    pub fn trust_requests(&self) -> impl Iterator<Item = &TrustRequest> {
        self.verifiers.iter().flat_map(|verifier| match &verifier.kind {
            VerifierKind::Notation(notation) => {
                Box::new(notation.trust_stores.iter().flat_map(|store| &store.requests))
                    as Box<dyn Iterator<Item = _> + Send>
            }
            VerifierKind::Cosign(cosign) => Box::new(cosign.policies.iter().filter_map(CosignPolicy::request)),
        })
    }
}

/// Reads a list of scopes that has at least one and none twice.
fn scopes(path: &Path, texts: &[String]) -> Result<Vec<Scope>, CompileError> {
    if texts.is_empty() {
        return Err(CompileError::missing(path.clone(), format!("at least one of {}", ScopeError::expected())));
    }
    let mut seen = BTreeMap::new();
    for (index, text) in texts.iter().enumerate() {
        let path = path.index(index);
        let scope: Scope = text.parse().map_err(|error: ScopeError| {
            CompileError::value(path.clone(), error.to_string(), ScopeError::expected())
        })?;
        if let Some((first, _)) = seen.insert(scope, (path.clone(), index)) {
            return Err(CompileError::duplicate(path, text, first));
        }
    }
    let mut scopes: Vec<_> = seen.into_iter().map(|(scope, (_, index))| (index, scope)).collect();
    scopes.sort_unstable_by_key(|(index, _)| *index);
    Ok(scopes.into_iter().map(|(_, scope)| scope).collect())
}

fn verifiers(
    path: &Path,
    specs: &[muster_api::Verifier],
    scopes: &[Scope],
    options: &CompileOptions,
    warnings: &Warnings,
) -> Result<Vec<Verifier>, CompileError> {
    if specs.is_empty() {
        return Err(CompileError::missing(path.clone(), "at least one verifier"));
    }
    let mut names: BTreeMap<&str, Path> = BTreeMap::new();
    let mut verifiers = Vec::with_capacity(specs.len());
    for (index, spec) in specs.iter().enumerate() {
        let path = path.index(index);
        let name_path = path.key("name");
        if spec.name.is_empty() {
            return Err(CompileError::value(name_path, reader::found(""), "a name for the policy's rules to refer to"));
        }
        if let Some(first) = names.insert(&spec.name, name_path.clone()) {
            return Err(CompileError::duplicate(name_path, &spec.name, first));
        }
        let parameters = path.key("parameters");
        let map = spec.parameters.as_ref();
        let context = provider::Context { options, warnings };
        let kind = match spec.type_.as_str() {
            "notation" => VerifierKind::Notation(notation::notation(parameters, map, scopes, &context)?),
            "cosign" => VerifierKind::Cosign(cosign::cosign(parameters, map, scopes, &context)?),
            other => {
                return Err(CompileError::value(
                    path.key("type"),
                    reader::found(other),
                    one_of(&["notation", "cosign"]),
                ));
            }
        };
        verifiers.push(Verifier { name: spec.name.clone(), kind });
    }
    Ok(verifiers)
}

fn refresh_interval(path: &Path, text: Option<&str>, warnings: &Warnings) -> Result<Option<Duration>, CompileError> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(Some(DEFAULT_REFRESH)) };
    let interval: GoDuration = text.parse().map_err(|_| {
        CompileError::value(
            path.clone(),
            quote(text),
            "a Go duration like 30m or 1h30m, or 0s to switch refreshing off",
        )
    })?;
    if interval.is_zero() {
        return Ok(None);
    }
    if interval.get() < SHORTEST_REFRESH {
        warnings.add(format_args!("{path} is {text}, shorter than 1s, and taken as 1s"));
    }
    Ok(Some(interval.get().max(SHORTEST_REFRESH)))
}
