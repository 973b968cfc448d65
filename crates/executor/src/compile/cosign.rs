//! The cosign verifier: for which scopes which keys, or which identity, make a signature count.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::error::CompileError;
use super::notation::is_empty;
use super::path::Path;
use super::provider::{self, Context, TrustRequest, Want};
use super::reader::{Fields, Names, Node, parameters};
use crate::scope::{Scope, ScopeError};
use crate::words::quote;

/// Parameters of a cosign verifier.
#[derive(Clone, Debug)]
pub struct Cosign {
    /// At least one; no scope is in two of them.
    pub policies: Vec<CosignPolicy>,
}

/// What counts for some scopes.
#[derive(Clone, Debug)]
pub struct CosignPolicy {
    /// Where it is: `spec.verifiers[0].parameters.trustPolicies[0]`.
    pub path: String,
    /// What it is for; the executor's scopes unless it has its own.
    pub scopes: Vec<Scope>,
    /// Whose signatures count.
    pub trust: PolicyTrust,
    /// Do without an entry in the transparency log.
    pub ignore_tlog: bool,
}

/// Whose signatures count.
#[derive(Clone, Debug)]
pub enum PolicyTrust {
    /// Those of a key.
    Keys {
        /// Where the keys come from.
        request: Box<TrustRequest>,
        /// Do without a timestamp by somebody else.
        ignore_observer_timestamps: bool,
    },
    /// Those of somebody whom Sigstore's certificate authority knows.
    Keyless {
        /// Who that has to be. `None` is accepted, warned of, and matches nobody.
        identity: Option<Identity>,
        /// Do without an entry in the certificate transparency log.
        ignore_ct_log: bool,
    },
}

/// The identity that a keyless certificate has to show: a name and who vouches for it, each as a text or a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `certificateIdentity`, exact.
    pub name: Option<String>,
    /// `certificateIdentityRegex`.
    pub name_pattern: Option<String>,
    /// `certificateOIDCIssuer`, exact.
    pub issuer: Option<String>,
    /// `certificateOIDCIssuerRegex`.
    pub issuer_pattern: Option<String>,
}

impl CosignPolicy {
    /// The keys to load, unless the policy is keyless.
    pub fn request(&self) -> Option<&TrustRequest> {
        match &self.trust {
            PolicyTrust::Keys { request, .. } => Some(request),
            PolicyTrust::Keyless { .. } => None,
        }
    }
}

pub(super) fn cosign(
    path: Path,
    map: Option<&Map<String, Value>>,
    executor: &[Scope],
    context: &Context<'_>,
) -> Result<Cosign, CompileError> {
    const EXPECTED: &str = "a list of at least one trust policy";
    parameters(path, map, Names::AnyCase, context.warnings, |fields| {
        let node = fields.require("trustPolicies", EXPECTED)?;
        let mut taken = BTreeMap::new();
        let policies = node.list(EXPECTED, |entry| {
            entry.object("a trust policy", |fields| policy(fields, executor, &mut taken, context))
        })?;
        if policies.is_empty() { Err(node.wrong_value("an empty list", EXPECTED)) } else { Ok(Cosign { policies }) }
    })
}

fn policy(
    fields: &mut Fields<'_>,
    executor: &[Scope],
    taken: &mut BTreeMap<Scope, Path>,
    context: &Context<'_>,
) -> Result<CosignPolicy, CompileError> {
    let path = fields.path.to_string();
    let scopes = scopes(fields, executor, taken)?;
    let identity = identity(fields)?;
    let ignore_tlog = fields.switch("ignoreTLog")?;
    let ignore_ct_log = fields.switch("ignoreCTLog")?;
    let ignore_observer_timestamps = fields.switch("ignoreObserverTimestamps")?;
    let ignored = |what: &str, why: &str| context.warnings.add(format_args!("{path}: {what} is ignored: {why}"));
    let trust = if let Some(request) = keys(fields, context)? {
        if identity.is_some() {
            ignored("the certificate identity", "keys are given");
        }
        if ignore_ct_log {
            ignored("ignoreCTLog", "keys are given");
        }
        PolicyTrust::Keys { request: Box::new(request), ignore_observer_timestamps }
    } else {
        if ignore_observer_timestamps {
            ignored("ignoreObserverTimestamps", "no keys are given");
        }
        let identity = identity.map(|identity| complete(fields, identity)).transpose()?;
        if identity.is_none() {
            context.warnings.add(format_args!("{path} names neither keys nor an identity and trusts nobody"));
        }
        context.warnings.add(format_args!(
            "TrustedRootNotLoaded: {path} is keyless, and Sigstore's trusted root is not loaded by this version"
        ));
        PolicyTrust::Keyless { identity, ignore_ct_log }
    };
    Ok(CosignPolicy { path, scopes, trust, ignore_tlog })
}

fn scopes(
    fields: &mut Fields<'_>,
    executor: &[Scope],
    taken: &mut BTreeMap<Scope, Path>,
) -> Result<Vec<Scope>, CompileError> {
    let own = fields.get("scopes").filter(|node| !node.is_empty_list());
    let mut take = |scope: &Scope, path: Path| match taken.insert(scope.clone(), path.clone()) {
        Some(first) => Err(CompileError::duplicate(path, &scope.to_string(), first)),
        None => Ok(()),
    };
    let Some(node) = own else {
        let path = fields.path.key("scopes");
        executor.iter().try_for_each(|scope| take(scope, path.clone()))?;
        return Ok(executor.to_vec());
    };
    node.list("a list of scopes", |entry| {
        let text = entry.string(ScopeError::expected())?;
        let scope: Scope =
            text.parse().map_err(|error: ScopeError| entry.wrong_value(error.to_string(), ScopeError::expected()))?;
        take(&scope, entry.path.clone())?;
        if !executor.iter().any(|whole| whole.overlaps(&scope)) {
            entry.warnings.add(format_args!("{} is outside the executor's scopes and never used", entry.path));
        }
        Ok(scope)
    })
}

fn identity(fields: &mut Fields<'_>) -> Result<Option<Identity>, CompileError> {
    let mut text = |name| fields.text(name).map(|text| Some(text).filter(|text| !text.is_empty()));
    let identity = Identity {
        name: text("certificateIdentity")?,
        name_pattern: text("certificateIdentityRegex")?,
        issuer: text("certificateOIDCIssuer")?,
        issuer_pattern: text("certificateOIDCIssuerRegex")?,
    };
    let none = Identity { name: None, name_pattern: None, issuer: None, issuer_pattern: None };
    Ok(Some(identity).filter(|identity| *identity != none))
}

/// An identity needs both halves, and its patterns must be patterns (the rules of Sigstore's certificate identity).
fn complete(fields: &Fields<'_>, identity: Identity) -> Result<Identity, CompileError> {
    let half = |names: [&str; 2], what: &str| fields.missing(names[0], format!("{what} here or in {}", names[1]));
    if identity.name.is_none() && identity.name_pattern.is_none() {
        return Err(half(["certificateIdentity", "certificateIdentityRegex"], "who has to have signed,"));
    }
    if identity.issuer.is_none() && identity.issuer_pattern.is_none() {
        return Err(half(["certificateOIDCIssuer", "certificateOIDCIssuerRegex"], "who has to vouch for the signer,"));
    }
    let patterns = [
        ("certificateIdentityRegex", &identity.name_pattern),
        ("certificateOIDCIssuerRegex", &identity.issuer_pattern),
    ];
    for (name, pattern) in patterns {
        if let Some(pattern) = pattern.as_deref().filter(|pattern| !is_pattern(pattern)) {
            return Err(CompileError::value(fields.path.key(name), quote(pattern), "a regular expression"));
        }
    }
    Ok(identity)
}

/// Patterns are in Go's syntax. Two of its constructs are unknown here and left to whoever uses the pattern.
fn is_pattern(pattern: &str) -> bool {
    pattern.contains(r"\Q") || pattern.contains(r"\C") || regex_syntax::parse(pattern).is_ok()
}

/// The key provider, if there is one. Two are refused, as Ratify does: it would have to choose.
fn keys(fields: &mut Fields<'_>, context: &Context<'_>) -> Result<Option<TrustRequest>, CompileError> {
    const EXPECTED: &str = "an object with one key provider";
    let Some(node) = fields.get("keys").filter(|node| !node.is_empty_object()) else { return Ok(None) };
    node.map(EXPECTED, |fields| one_provider(&node, fields, context))
}

fn one_provider(
    node: &Node<'_>,
    fields: &mut Fields<'_>,
    context: &Context<'_>,
) -> Result<Option<TrustRequest>, CompileError> {
    let providers = fields.rest();
    let [(name, provider)] = providers.as_slice() else {
        return Err(node.wrong_value(format!("{} key providers", providers.len()), "one key provider"));
    };
    let request = provider::request(name, provider, Want::Keys, context)?;
    if is_empty(&request) {
        context.warnings.add(format_args!("{} names no key and trusts nobody", provider.path));
    }
    Ok(Some(request))
}
