//! From a compiled spec to an executor: loads its trust material and judges it.
//!
//! Loading is the only part that waits. What was loaded is judged by a pure function of (material, time): each trust store
//! and each set of keys needs one item that can be used now. Beside one, bad and expired items are warnings.

use std::time::Duration;

use jiff::Timestamp;
use muster_api::Reason;
use muster_core::text::{ERROR_MAX, cut};

use crate::compile::{Compiled, CosignPolicy, Provider, TrustRequest, VerifierKind};
use crate::trust::{self, Digest, Fault, Item, LoadError, Loaded, Sources, Validity};
use crate::warnings::Warnings;

/// An executor that can serve.
#[derive(Clone, Debug)]
pub struct Built {
    /// The spec it was built from.
    pub compiled: Compiled,
    /// What it trusts, in the order of the spec: one set for each trust store and each policy with keys.
    pub trust: Vec<TrustSet>,
    /// When the first certificate that it relies on expires (UTC).
    pub trust_expires_at: Option<Timestamp>,
    /// When the first of its trust sets has nothing valid left (UTC): until then it may serve, whatever becomes of
    /// refreshes.
    pub usable_until: Option<Timestamp>,
    /// What works but is not as its author may think: at most eight lines of at most 200 bytes.
    pub warnings: Vec<String>,
    digests: Vec<Option<Digest>>,
}

/// Items of which one suffices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustSet {
    /// Where the spec names them.
    pub path: String,
    /// The items that were valid when it was built. Empty if the spec names none.
    pub items: Vec<Item>,
}

/// Why a spec that makes sense cannot be built now.
///
/// The texts are made of the spec's own words and fixed ones: no times, no identifiers, nothing that an upstream wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A provider has nothing to hand over.
    #[error("{}", cut(&format!("{path}: {error}"), ERROR_MAX))]
    Load {
        /// Where the spec names the provider.
        path: String,
        /// What went wrong.
        error: LoadError,
    },
    /// Items were loaded and none can be used.
    #[error("{}", cut(&format!("{path}: nothing usable: {fault}{}", others(*.more)), ERROR_MAX))]
    NothingUsable {
        /// Where the spec names the set.
        path: String,
        /// The first fault.
        fault: Fault,
        /// How many faults there are besides.
        more: usize,
    },
    /// Nothing was loaded.
    #[error("{path}: nothing was found there")]
    Nothing {
        /// Where the spec names the set.
        path: String,
    },
    /// No certificate is valid yet.
    #[error("{}", cut(&format!("{path}: {certificate} is not valid yet"), ERROR_MAX))]
    NotYetValid {
        /// Where the spec names the set.
        path: String,
        /// The first of them.
        certificate: String,
    },
    /// Every certificate has expired.
    #[error("{}", cut(&format!("{path}: every certificate has expired, the first is {certificate}"), ERROR_MAX))]
    Expired {
        /// Where the spec names the set.
        path: String,
        /// The first of them.
        certificate: String,
    },
}

/// What one set was loaded from.
struct LoadedSet<'a> {
    path: &'a str,
    requests: Vec<&'a TrustRequest>,
    anchors: bool,
    loaded: Loaded,
}

/// Loads the trust material of `compiled` and judges it at the wall time `now`.
///
/// Providers are asked one after the other, in the order of the spec; the first that fails ends the build.
pub async fn build(compiled: &Compiled, sources: &Sources, now: Timestamp) -> Result<Built, BuildError> {
    let mut sets = sets(compiled);
    let mut digests = Vec::new();
    for set in &mut sets {
        for request in &set.requests {
            let Loaded { items, faults, digest } = load(request, sources).await?;
            set.loaded.items.extend(items);
            set.loaded.faults.extend(faults);
            digests.push(digest);
        }
    }
    judge(compiled, sets, digests, now)
}

/// True if loading now would find something else than `built` was built from, as far as that is cheap to tell (files). Also
/// true if what was there cannot be read any more.
pub async fn changed(built: &Built, sources: &Sources) -> bool {
    for (request, before) in built.compiled.trust_requests().zip(&built.digests) {
        let Some(provider) = sources.get(request.provider.kind()).filter(|_| before.is_some()) else { continue };
        if provider.digest(request).await.ok() != Some(*before) {
            return true;
        }
    }
    false
}

async fn load(request: &TrustRequest, sources: &Sources) -> Result<Loaded, BuildError> {
    let failed = |error| BuildError::Load { path: request.path.clone(), error };
    let provider = sources.get(request.provider.kind()).ok_or_else(|| failed(LoadError::NotBuiltIn))?;
    provider.load(request).await.map_err(failed)
}

fn sets(compiled: &Compiled) -> Vec<LoadedSet<'_>> {
    let set = |path, requests, anchors| LoadedSet { path, requests, anchors, loaded: Loaded::default() };
    let mut sets = Vec::new();
    for verifier in &compiled.verifiers {
        match &verifier.kind {
            VerifierKind::Notation(notation) => {
                sets.extend(
                    notation.trust_stores.iter().map(|store| set(&*store.path, store.requests.iter().collect(), true)),
                );
            }
            VerifierKind::Cosign(cosign) => {
                let keys = |policy: &'_ CosignPolicy| policy.request().is_some();
                sets.extend(
                    cosign
                        .policies
                        .iter()
                        .filter(|policy| keys(policy))
                        .map(|policy| set(&*policy.path, policy.request().into_iter().collect(), false)),
                );
            }
        }
    }
    sets
}

fn judge(
    compiled: &Compiled,
    sets: Vec<LoadedSet<'_>>,
    digests: Vec<Option<Digest>>,
    now: Timestamp,
) -> Result<Built, BuildError> {
    let warnings = Warnings::default();
    let mut trust = Vec::with_capacity(sets.len());
    for set in sets {
        trust.push(judge_set(set, now, &warnings)?);
    }
    // After those of now, which are fewer and more pressing.
    compiled.warnings.iter().for_each(|text| warnings.add(text));
    let expiries = |set: &TrustSet| -> Vec<Timestamp> { set.items.iter().filter_map(expiry).collect() };
    let lasts = |set: &TrustSet| {
        let for_ever = set.items.iter().any(|item| expiry(item).is_none());
        expiries(set).into_iter().max().filter(|_| !for_ever)
    };
    Ok(Built {
        trust_expires_at: trust.iter().flat_map(expiries).min(),
        usable_until: trust.iter().filter_map(lasts).min(),
        warnings: warnings.into_texts(),
        compiled: compiled.clone(),
        trust,
        digests,
    })
}

fn judge_set(set: LoadedSet<'_>, now: Timestamp, warnings: &Warnings) -> Result<TrustSet, BuildError> {
    let LoadedSet { path, requests, anchors, mut loaded } = set;
    if anchors {
        let leaves = trust::keep_anchors(&mut loaded);
        loaded.faults.extend(leaves);
    }
    let (mut valid, mut expired, mut early) = (Vec::new(), Vec::new(), Vec::new());
    for item in loaded.items {
        match item.material.as_certificate().map_or(Validity::Valid, |certificate| certificate.validity(now)) {
            Validity::Valid => valid.push(item),
            Validity::Expired => expired.push(item),
            Validity::NotYet => early.push(item),
        }
    }
    let in_spec = |request: &&TrustRequest| matches!(request.provider, Provider::Inline(_));
    if valid.is_empty() {
        let path = path.to_owned();
        if let Some(certificate) = early.first().map(label) {
            return Err(BuildError::NotYetValid { path, certificate });
        }
        if let Some(certificate) = expired.first().map(label) {
            return Err(BuildError::Expired { path, certificate });
        }
        let more = loaded.faults.len().saturating_sub(1);
        if let Some(fault) = loaded.faults.into_iter().next() {
            return Err(BuildError::NothingUsable { path, fault, more });
        }
        // An empty set in the spec itself was accepted, with a warning, when it was compiled.
        if !requests.iter().all(in_spec) {
            return Err(BuildError::Nothing { path });
        }
        return Ok(TrustSet { path, items: valid });
    }
    for item in &expired {
        warnings.add(format_args!("{path}: {} has expired", label(item)));
    }
    for item in &early {
        warnings.add(format_args!("{path}: {} is not valid yet", label(item)));
    }
    for fault in &loaded.faults {
        warnings.add(format_args!("{path}: {fault}"));
    }
    Ok(TrustSet { path: path.to_owned(), items: valid })
}

fn expiry(item: &Item) -> Option<Timestamp> {
    item.material.as_certificate().and_then(trust::Certificate::not_after)
}

fn label(item: &Item) -> String {
    item.material.as_certificate().map_or_else(|| item.origin.clone(), trust::Certificate::label)
}

fn others(more: usize) -> String {
    if more == 0 { String::new() } else { format!(" (and {more} more)") }
}

impl BuildError {
    /// The reason to report.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Load { error, .. } => error.reason(),
            Self::NothingUsable { .. } | Self::Nothing { .. } | Self::NotYetValid { .. } => Reason::BadMaterial,
            Self::Expired { .. } => Reason::TrustExpired,
        }
    }

    /// The upstream's wish for a pause, if it had one.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Load { error, .. } => error.retry_after(),
            _ => None,
        }
    }

    /// Where in the object.
    pub fn path(&self) -> &str {
        match self {
            Self::Load { path, .. }
            | Self::NothingUsable { path, .. }
            | Self::Nothing { path }
            | Self::NotYetValid { path, .. }
            | Self::Expired { path, .. } => path,
        }
    }
}

#[cfg(test)]
mod tests;
