//! Stores: where signatures are read from, and which store is asked for what.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_api::Store as StoreSpec;

use super::credential::{Credential, credential};
use super::error::CompileError;
use super::path::Path;
use super::provider::Want;
use super::reader::{Fields, Names, found, parameters};
use crate::scope::{Scope, ScopeError};
use crate::trust::{Certificate, inline};
use crate::warnings::Warnings;
use crate::words::{one_of, quote};

/// Largest blob that is fetched when the spec does not say, in bytes (Ratify's default).
const DEFAULT_BLOB_BYTES: u64 = 32 << 20;

/// Largest manifest that is fetched when the spec does not say, in bytes (Ratify's default).
const DEFAULT_MANIFEST_BYTES: u64 = 4 << 20;

/// What registries are told about who asks when the spec does not say (Ratify's default).
const DEFAULT_USER_AGENT: &str = "ratify-go";

/// One store.
#[derive(Clone, Debug)]
pub struct Store {
    /// What it is asked for.
    pub scopes: Vec<Scope>,
    /// What it reads from.
    pub kind: StoreKind,
}

/// The stores there are.
#[derive(Clone, Debug)]
pub enum StoreKind {
    /// A registry.
    Registry(RegistryStore),
    /// A directory.
    FilesystemOci(FilesystemOciStore),
}

/// Parameters of `registry-store`.
#[derive(Clone, Debug)]
pub struct RegistryStore {
    /// Speak HTTP without TLS.
    pub plain_http: bool,
    /// What registries are told about who asks.
    pub user_agent: String,
    /// Largest blob that is fetched, in bytes.
    pub max_blob_bytes: u64,
    /// Largest manifest that is fetched, in bytes.
    pub max_manifest_bytes: u64,
    /// Also look for signatures under cosign's tag.
    pub allow_cosign_tag: bool,
    /// Who may vouch for the registry; empty for the system's.
    pub certificate_authorities: Vec<Certificate>,
    /// What it shows to the registry.
    pub credential: Credential,
}

/// Parameters of `filesystem-oci-store`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesystemOciStore {
    /// Directory with an OCI image layout.
    pub path: PathBuf,
}

pub(super) fn stores(
    path: &Path,
    specs: &[StoreSpec],
    executor: &[Scope],
    warnings: &Warnings,
) -> Result<Vec<Store>, CompileError> {
    if specs.is_empty() {
        return Err(CompileError::missing(path.clone(), "at least one store"));
    }
    let mut taken = BTreeMap::new();
    let mut stores = Vec::with_capacity(specs.len());
    for (index, spec) in specs.iter().enumerate() {
        let path = path.index(index);
        let kind = kind(&path, spec, warnings)?;
        let own = spec.scopes.as_deref().unwrap_or_default();
        let scopes = match (own.is_empty(), specs.len()) {
            (true, 1) => executor.to_vec(),
            (true, _) => {
                let expected = "at least one scope, because there are several stores";
                return Err(CompileError::missing(path.key("scopes"), expected));
            }
            (false, _) => scopes(&path.key("scopes"), own, executor, &mut taken)?,
        };
        stores.push(Store { scopes, kind });
    }
    let served = |scope: &Scope| stores.iter().flat_map(|store| &store.scopes).any(|own| own.overlaps(scope));
    for scope in executor.iter().filter(|scope| !served(scope)) {
        warnings.add(format_args!("{path} has no store for scope {}", quote(&scope.to_string())));
    }
    Ok(stores)
}

fn scopes(
    path: &Path,
    texts: &[String],
    executor: &[Scope],
    taken: &mut BTreeMap<Scope, Path>,
) -> Result<Vec<Scope>, CompileError> {
    let scope = |(index, text): (usize, &String)| {
        let path = path.index(index);
        let scope: Scope = text.parse().map_err(|error: ScopeError| {
            CompileError::value(path.clone(), error.to_string(), ScopeError::expected())
        })?;
        if !executor.iter().any(|whole| whole.contains(&scope)) {
            return Err(CompileError::value(path, quote(text), "a scope within one of spec.scopes"));
        }
        match taken.insert(scope.clone(), path.clone()) {
            Some(first) => Err(CompileError::duplicate(path, text, first)),
            None => Ok(scope),
        }
    };
    texts.iter().enumerate().map(scope).collect()
}

fn kind(path: &Path, spec: &StoreSpec, warnings: &Warnings) -> Result<StoreKind, CompileError> {
    let at = path.key("parameters");
    let map = spec.parameters.as_ref();
    match spec.type_.as_str() {
        "registry-store" => parameters(at, map, Names::AnyCase, warnings, registry).map(StoreKind::Registry),
        "filesystem-oci-store" => {
            parameters(at, map, Names::AnyCase, warnings, filesystem).map(StoreKind::FilesystemOci)
        }
        other => {
            let expected = one_of(&["registry-store", "filesystem-oci-store"]);
            Err(CompileError::value(path.key("type"), found(other), expected))
        }
    }
}

fn registry(fields: &mut Fields<'_>) -> Result<RegistryStore, CompileError> {
    let plain_http = fields.switch("plainHttp")?;
    let user_agent = fields.text("userAgent")?;
    let max_blob_bytes = bytes(fields, "maxBlobBytes", DEFAULT_BLOB_BYTES)?;
    let max_manifest_bytes = bytes(fields, "maxManifestBytes", DEFAULT_MANIFEST_BYTES)?;
    let allow_cosign_tag = fields.switch("allowCosignTag")?;
    let certificate_authorities = certificate_authorities(fields)?;
    let credential = credential(&fields.require("credential", "an object with provider")?)?;
    Ok(RegistryStore {
        plain_http,
        user_agent: if user_agent.is_empty() { DEFAULT_USER_AGENT.to_owned() } else { user_agent },
        max_blob_bytes,
        max_manifest_bytes,
        allow_cosign_tag,
        certificate_authorities,
        credential,
    })
}

fn bytes(fields: &mut Fields<'_>, name: &'static str, default: u64) -> Result<u64, CompileError> {
    let Some(node) = fields.get(name) else { return Ok(default) };
    let bytes = node.integer("a number of bytes")?;
    if bytes < 0 {
        node.warnings.add(format_args!("{} is negative, and {default} is used", node.path));
    }
    Ok(u64::try_from(bytes).ok().filter(|bytes| *bytes > 0).unwrap_or(default))
}

/// `caPem`, or else `caBase64`; PEM text either way.
fn certificate_authorities(fields: &mut Fields<'_>) -> Result<Vec<Certificate>, CompileError> {
    const EXPECTED: &str = "PEM blocks with certificates";
    let pem = fields.text("caPem")?;
    let encoded = fields.text("caBase64")?;
    let (path, pem) = match (pem.is_empty(), encoded.is_empty()) {
        (true, true) => return Ok(Vec::new()),
        (true, false) => {
            let path = fields.path.key("caBase64");
            let encoded: String = encoded.split_ascii_whitespace().collect();
            let decoded = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let Some(pem) = decoded else {
                return Err(CompileError::value(path, "not base64 of a text", format!("base64 of {EXPECTED}")));
            };
            (path, pem)
        }
        (false, unused) => {
            if !unused {
                let path = fields.path.key("caBase64");
                fields.warnings.add(format_args!("{path} is ignored: caPem is given"));
            }
            (fields.path.key("caPem"), pem)
        }
    };
    let loaded = inline::parse(&pem, Want::Certificates);
    let certificates: Vec<_> = loaded.items.into_iter().filter_map(|item| item.material.into_certificate()).collect();
    for fault in &loaded.faults {
        if certificates.is_empty() {
            return Err(CompileError::value(path, format!("unusable: {fault}"), EXPECTED));
        }
        fields.warnings.add(format_args!("{path}: left out: {fault}"));
    }
    Ok(certificates)
}

fn filesystem(fields: &mut Fields<'_>) -> Result<FilesystemOciStore, CompileError> {
    let path = fields.word("path", "the path of a directory with an OCI image layout")?;
    Ok(FilesystemOciStore { path: path.into() })
}
