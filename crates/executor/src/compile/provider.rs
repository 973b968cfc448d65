//! Where trust material comes from: the key providers that verifiers name, with their parameters.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Component, Path as FilePath, PathBuf};

use super::CompileOptions;
use super::error::{CompileError, Problem};
use super::reader::{Fields, Node, found};
use crate::trust::{Loaded, ProviderKind, inline};
use crate::warnings::Warnings;
use crate::words::{one_of, quote};

/// Where FerrVault's operator keeps the token that it exchanges (its own default).
const FERRVAULT_TOKEN_PATH: &str = "/var/run/secrets/ferrflow/token";

/// What every part of one spec is compiled with.
pub(super) struct Context<'a> {
    pub(super) options: &'a CompileOptions,
    pub(super) warnings: &'a Warnings,
}

/// Trust material that a verifier asks one provider for.
#[derive(Clone, Debug)]
pub struct TrustRequest {
    /// Where the provider is named: `spec.verifiers[0].parameters.certificates[0].inline`.
    pub path: String,
    /// What the verifier can use.
    pub want: Want,
    /// The provider and its parameters.
    pub provider: Provider,
}

/// The two kinds of trust material.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Want {
    /// X.509 certificates, for notation.
    Certificates,
    /// Public keys, for cosign.
    Keys,
}

/// A provider with its parameters.
#[derive(Clone, Debug)]
pub enum Provider {
    /// PEM text in the spec itself.
    Inline(Inline),
    /// Files below the trust directory.
    Files(Files),
    /// Azure Key Vault.
    AzureKeyVault(AzureKeyVault),
    /// A Secret of the release's namespace.
    KubernetesSecret(KubernetesSecret),
    /// FerrVault.
    FerrVault(FerrVault),
}

/// Parameters of `inline`, parsed: what they hold is known without I/O.
#[derive(Clone, Debug, Default)]
pub struct Inline {
    /// The items of the wanted kind. Bad ones were refused or are among the warnings.
    pub loaded: Loaded,
}

/// Parameters of `files`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The trust directory.
    pub root: PathBuf,
    /// Files and directories, relative to the trust directory, without `.` and `..`.
    pub paths: Vec<PathBuf>,
}

/// Parameters of `azurekeyvault`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AzureKeyVault {
    /// Address of the vault.
    pub vault_url: String,
    /// Client ID of the identity; empty for the platform's.
    pub client_id: String,
    /// Tenant ID of the identity; empty for the platform's.
    pub tenant_id: String,
    /// The items of the wanted kind; at least one.
    pub items: Vec<VaultItem>,
}

/// One item of a vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VaultItem {
    /// Name of the item.
    pub name: String,
    /// Version of the item; `None` is the latest.
    pub version: Option<String>,
}

/// Parameters of `kubernetesSecret`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubernetesSecret {
    /// Name of the Secret.
    pub name: String,
    /// The keys of the Secret that hold items of the wanted kind; at least one.
    pub items: Vec<String>,
}

/// Parameters of `ferrvault`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FerrVault {
    /// Address of the server.
    pub url: String,
    /// Organization of the vault.
    pub organization: String,
    /// Project of the vault.
    pub project: String,
    /// Name of the vault.
    pub vault: String,
    /// The names of the items of the wanted kind; at least one.
    pub items: Vec<String>,
    /// What to show the server.
    pub token: FerrVaultToken,
}

/// Whose token FerrVault sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FerrVaultToken {
    /// A token kept in a Secret of the release's namespace.
    Secret {
        /// Name of the Secret.
        name: String,
        /// Key within the Secret.
        key: String,
    },
    /// A token that is exchanged for the pod's own.
    Oidc {
        /// The cluster's identity at the server.
        cluster_id: String,
        /// File with the pod's token.
        token_path: PathBuf,
    },
}

impl Provider {
    /// Which provider it is.
    pub const fn kind(&self) -> ProviderKind {
        match self {
            Self::Inline(_) => ProviderKind::Inline,
            Self::Files(_) => ProviderKind::Files,
            Self::AzureKeyVault(_) => ProviderKind::AzureKeyVault,
            Self::KubernetesSecret(_) => ProviderKind::KubernetesSecret,
            Self::FerrVault(_) => ProviderKind::FerrVault,
        }
    }
}

impl Want {
    /// `certificate` or `public key`.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Certificates => "certificate",
            Self::Keys => "public key",
        }
    }
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.noun())
    }
}

/// Reads the provider `name` with the parameters `node`.
pub(super) fn request(
    name: &str,
    node: &Node<'_>,
    want: Want,
    context: &Context<'_>,
) -> Result<TrustRequest, CompileError> {
    let kind = allowed(name, node, context.options)?;
    let provider = match kind {
        ProviderKind::Inline => Provider::Inline(inline_parameters(node, want)?),
        ProviderKind::Files => Provider::Files(files(node, context.options)?),
        ProviderKind::AzureKeyVault => Provider::AzureKeyVault(azure_key_vault(node, want)?),
        ProviderKind::KubernetesSecret => Provider::KubernetesSecret(kubernetes_secret(node, want)?),
        ProviderKind::FerrVault => Provider::FerrVault(ferrvault(node, want)?),
    };
    Ok(TrustRequest { path: node.path.to_string(), want, provider })
}

/// The provider of this name, if there is one, this program has it, and this spec's author may use it.
fn allowed(name: &str, node: &Node<'_>, options: &CompileOptions) -> Result<ProviderKind, CompileError> {
    let built_in = |kind: &ProviderKind| match kind {
        ProviderKind::Inline => true,
        ProviderKind::Files => options.trust_dir.is_some(),
        _ => options.providers.contains(kind),
    };
    let open = |kind: &ProviderKind| {
        !options.tenant || *kind == ProviderKind::Inline || options.tenant_providers.contains(kind)
    };
    let usable: BTreeSet<_> = ProviderKind::ALL.iter().filter(|kind| built_in(kind) && open(kind)).collect();
    let expected = one_of(&usable.iter().map(|kind| kind.as_str()).collect::<Vec<_>>());
    let Ok(kind) = name.parse::<ProviderKind>() else {
        return Err(node.wrong_value("no key provider", format!("the name of one: {expected}")));
    };
    let problem = if !open(&kind) {
        Problem::NotForTenants { provider: kind.as_str(), expected }
    } else if !built_in(&kind) {
        Problem::NotBuiltIn { provider: kind.as_str(), expected }
    } else {
        return Ok(kind);
    };
    Err(CompileError::new(node.path.clone(), problem))
}

fn inline_parameters(node: &Node<'_>, want: Want) -> Result<Inline, CompileError> {
    if node.is_null() {
        return Ok(Inline::default());
    }
    node.object("an object with certs and/or keys, each PEM text", |fields| {
        let certs = fields.get("certs");
        let keys = fields.get("keys");
        let (used, unused) = match want {
            Want::Certificates => (certs, keys),
            Want::Keys => (keys, certs),
        };
        if let Some(unused) = unused {
            node.warnings.add(format_args!("{} is ignored: only {want} are used here", unused.path));
        }
        let Some(used) = used else { return Ok(Inline::default()) };
        let text = used.string("PEM text")?;
        if text.is_empty() {
            return Ok(Inline::default());
        }
        let mut loaded = inline::parse(text, want);
        if let (true, Some(fault)) = (loaded.items.is_empty(), loaded.faults.first()) {
            return Err(used.wrong_value(format!("unusable: {fault}"), format!("PEM blocks with {want}")));
        }
        for fault in loaded.faults.drain(..) {
            node.warnings.add(format_args!("{}: left out: {fault}", used.path));
        }
        Ok(Inline { loaded })
    })
}

fn files(node: &Node<'_>, options: &CompileOptions) -> Result<Files, CompileError> {
    const EXPECTED: &str = "a list of at least one path";
    let root = options.trust_dir.clone().unwrap_or_default();
    let paths = node.list(EXPECTED, |entry| {
        let text = entry.word("a path below the trust directory")?;
        below(&root, FilePath::new(text))
            .ok_or_else(|| entry.wrong_value(quote(text), format!("a path below {}", root.display())))
    })?;
    if paths.is_empty() {
        return Err(node.wrong_value("an empty list", EXPECTED));
    }
    Ok(Files { root, paths })
}

/// `path`, absolute or relative to `root`, as a path relative to `root`. By its words alone: what links make of it is seen
/// when it is read.
fn below(root: &FilePath, path: &FilePath) -> Option<PathBuf> {
    let relative = if path.is_absolute() { path.strip_prefix(root).ok()? } else { path };
    relative
        .components()
        .filter(|component| *component != Component::CurDir)
        .map(|component| match component {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect()
}

fn azure_key_vault(node: &Node<'_>, want: Want) -> Result<AzureKeyVault, CompileError> {
    node.object("an object with vaultURL and certificates or keys", |fields| {
        let vault_url = fields.word("vaultURL", "the address of a vault, like https://NAME.vault.azure.net")?;
        if !vault_url.starts_with("https://") {
            let path = fields.path.key("vaultURL");
            node.warnings.add(format_args!("{path} does not begin with https://"));
        }
        let client_id = fields.text("clientID")?;
        let tenant_id = fields.text("tenantID")?;
        let items = items(fields, want, ["certificates", "keys"], |entry| {
            entry.object("an object with name and, if need be, version", |fields| {
                let name = fields.word("name", "the name of an item")?;
                let version = fields.text("version")?;
                Ok(VaultItem { name, version: Some(version).filter(|version| !version.is_empty()) })
            })
        })?;
        Ok(AzureKeyVault { vault_url, client_id, tenant_id, items })
    })
}

fn kubernetes_secret(node: &Node<'_>, want: Want) -> Result<KubernetesSecret, CompileError> {
    node.object("an object with name and certs or keys", |fields| {
        let name = secret_name(fields)?;
        let items =
            items(fields, want, ["certs", "keys"], |entry| entry.word("a key of the Secret").map(str::to_owned))?;
        Ok(KubernetesSecret { name, items })
    })
}

fn ferrvault(node: &Node<'_>, want: Want) -> Result<FerrVault, CompileError> {
    node.object("an object with url, organization, project, vault and certs or keys", |fields| {
        let url = fields.word("url", "an address that begins with https:// or http://")?;
        if !(url.starts_with("https://") || url.starts_with("http://")) {
            let path = fields.path.key("url");
            return Err(CompileError::value(path, quote(&url), "an address that begins with https:// or http://"));
        }
        let organization = fields.word("organization", "the name of an organization")?;
        let project = fields.word("project", "the name of a project")?;
        let vault = fields.word("vault", "the name of a vault")?;
        let items = items(fields, want, ["certs", "keys"], |entry| {
            let name = entry.word("the name of an item")?;
            // The server takes a comma-joined list.
            if name.contains(',') {
                return Err(entry.wrong_value(quote(name), "a name without a comma"));
            }
            Ok(name.to_owned())
        })?;
        let token = ferrvault_token(fields)?;
        Ok(FerrVault { url, organization, project, vault, items, token })
    })
}

fn ferrvault_token(fields: &mut Fields<'_>) -> Result<FerrVaultToken, CompileError> {
    const EXPECTED: &str = "either tokenSecretRef or oidc";
    match (fields.get("tokenSecretRef"), fields.get("oidc")) {
        (Some(reference), None) => reference.object("an object with name and key", |fields| {
            let name = secret_name(fields)?;
            let key = fields.word("key", "a key of the Secret")?;
            Ok(FerrVaultToken::Secret { name, key })
        }),
        (None, Some(oidc)) => oidc.object("an object with clusterID", |fields| {
            const UUID: &str = "36 characters, hexadecimal digits and dashes";
            let cluster_id = fields.word("clusterID", UUID)?;
            if cluster_id.len() != 36 || !cluster_id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') {
                return Err(CompileError::value(fields.path.key("clusterID"), quote(&cluster_id), UUID));
            }
            let token_path = fields.text("tokenPath")?;
            let token_path = if token_path.is_empty() { FERRVAULT_TOKEN_PATH.to_owned() } else { token_path };
            if below(FilePath::new("/"), FilePath::new(&token_path)).is_none() || !token_path.starts_with('/') {
                let path = fields.path.key("tokenPath");
                return Err(CompileError::value(path, quote(&token_path), "an absolute path without \"..\""));
            }
            Ok(FerrVaultToken::Oidc { cluster_id, token_path: token_path.into() })
        }),
        (None, None) => Err(fields.missing("tokenSecretRef", EXPECTED)),
        (Some(_), Some(oidc)) => Err(oidc.wrong_value("given together with tokenSecretRef", EXPECTED)),
    }
}

/// The items of the wanted kind under the first (certificates) or second (keys) of two names; at least one.
fn items<'a, T>(
    fields: &mut Fields<'a>,
    want: Want,
    names: [&'static str; 2],
    read: impl Fn(Node<'a>) -> Result<T, CompileError>,
) -> Result<Vec<T>, CompileError> {
    let [certificates, keys] = names.map(|name| (name, fields.get(name)));
    let ((name, used), (_, unused)) = match want {
        Want::Certificates => (certificates, keys),
        Want::Keys => (keys, certificates),
    };
    if let Some(unused) = unused.filter(|unused| !unused.is_empty_list()) {
        fields.warnings.add(format_args!("{} is ignored: only {want} are used here", unused.path));
    }
    let expected = "a list of at least one item";
    let used = used.ok_or_else(|| fields.missing(name, expected))?;
    let items = used.list(expected, read)?;
    if items.is_empty() { Err(used.wrong_value("an empty list", expected)) } else { Ok(items) }
}

/// The field `name`, which names a Secret (a DNS-1123 subdomain).
fn secret_name(fields: &mut Fields<'_>) -> Result<String, CompileError> {
    const EXPECTED: &str = "the name of a Secret";
    let name = fields.word("name", EXPECTED)?;
    let label = |label: &str| {
        let inner = label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        !label.is_empty() && inner && !label.starts_with('-') && !label.ends_with('-')
    };
    if name.len() > 253 || !name.split('.').all(label) {
        return Err(CompileError::value(fields.path.key("name"), found(&name), EXPECTED));
    }
    Ok(name)
}
