//! The notation verifier: which certificates may anchor a signature, for which repositories, and who may have signed.
//!
//! As in Ratify there is one trust policy at level `strict` and one trust store of each type. Identities and scopes follow
//! the Notary Project's trust policy specification 1.0.

use std::collections::BTreeMap;

use super::error::CompileError;
use super::path::Path;
use super::provider::{self, Context, TrustRequest, Want};
use super::reader::{Fields, Names, Node, found, parameters};
use crate::scope::Scope;
use crate::trust;
use crate::words::{one_of, quote};
use serde_json::{Map, Value};

/// Stands alone in a list and means all.
const ALL: &str = "*";

/// Attributes that an identity's subject must have (trust policy specification 1.0, "Trusted identities constraints").
const MANDATORY: [&str; 3] = ["C", "ST", "O"];

/// Parameters of a notation verifier.
#[derive(Clone, Debug)]
pub struct Notation {
    /// Repositories whose signatures it looks at; `*` alone is all.
    pub scopes: Vec<String>,
    /// Who may have signed; `*` alone is everybody whom the certificates vouch for.
    pub trusted_identities: Vec<String>,
    /// At least one; their types differ.
    pub trust_stores: Vec<TrustStore>,
}

/// The certificates of one type.
#[derive(Clone, Debug)]
pub struct TrustStore {
    /// Where it is: `spec.verifiers[0].parameters.certificates[0]`.
    pub path: String,
    /// What its certificates vouch for.
    pub type_: TrustStoreType,
    /// Where its certificates come from. None at all is accepted, warned of, and trusts nobody.
    pub requests: Vec<TrustRequest>,
}

/// What certificates vouch for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TrustStoreType {
    /// `ca`: the default.
    Ca,
    /// `tsa`: timestamps.
    Tsa,
    /// `signingAuthority`.
    SigningAuthority,
}

impl TrustStoreType {
    const ALL: [Self; 3] = [Self::Ca, Self::Tsa, Self::SigningAuthority];

    /// The word in the spec.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ca => "ca",
            Self::Tsa => "tsa",
            Self::SigningAuthority => "signingAuthority",
        }
    }
}

pub(super) fn notation(
    path: Path,
    map: Option<&Map<String, Value>>,
    executor: &[Scope],
    context: &Context<'_>,
) -> Result<Notation, CompileError> {
    parameters(path, map, Names::AnyCase, context.warnings, |fields| {
        let scopes = scopes(fields, executor)?;
        let trusted_identities = identities(fields)?;
        let trust_stores = trust_stores(fields, context)?;
        Ok(Notation { scopes, trusted_identities, trust_stores })
    })
}

fn scopes(fields: &mut Fields<'_>, executor: &[Scope]) -> Result<Vec<String>, CompileError> {
    let Some(node) = fields.get("scopes").filter(|node| !node.is_empty_list()) else { return Ok(vec![ALL.to_owned()]) };
    let scopes = node.list("a list of repositories, or \"*\" alone", |entry| {
        let text = entry.word("a repository or \"*\"")?;
        if text == ALL {
            return Ok(text.to_owned());
        }
        match text.parse::<Scope>() {
            Ok(scope @ Scope::Repository(_)) if executor.iter().any(|whole| whole.contains(&scope)) => {}
            Ok(Scope::Repository(_)) => {
                entry.warnings.add(format_args!("{} is outside the executor's scopes and never used", entry.path));
            }
            _ => entry
                .warnings
                .add(format_args!("{} matches nothing: notation's scopes are exact repositories or \"*\"", entry.path)),
        }
        Ok(text.to_owned())
    })?;
    alone(&node, &scopes)?;
    Ok(scopes)
}

fn identities(fields: &mut Fields<'_>) -> Result<Vec<String>, CompileError> {
    let Some(node) = fields.get("trustedIdentities").filter(|node| !node.is_empty_list()) else {
        return Ok(vec![ALL.to_owned()]);
    };
    let identities = node.list("a list of identities, or \"*\" alone", |entry| {
        const EXPECTED: &str = "\"*\" or \"x509.subject: C=…, ST=…, O=…\"";
        let text = entry.word(EXPECTED)?;
        if text == ALL {
            return Ok(text.to_owned());
        }
        let Some((prefix, value)) = text.split_once(':') else {
            return Err(entry.wrong_value(quote(text), EXPECTED));
        };
        if prefix == "x509.subject" {
            let absent = missing_attributes(value);
            if !absent.is_empty() {
                let found = format!("{}, without {}", quote(text), one_of(&absent).replace(" or ", " and "));
                return Err(entry.wrong_value(found, EXPECTED));
            }
        } else {
            entry.warnings.add(format_args!("{} matches nobody: only x509.subject is evaluated", entry.path));
        }
        Ok(text.to_owned())
    })?;
    alone(&node, &identities)?;
    Ok(identities)
}

/// The mandatory attributes that a subject (RFC 4514) lacks.
fn missing_attributes(subject: &str) -> Vec<&'static str> {
    let (mut escaped, mut quoted) = (false, false);
    let separators = |character: char| {
        let separates = !escaped && !quoted && matches!(character, ',' | ';' | '+');
        quoted ^= character == '"' && !escaped;
        escaped = character == '\\' && !escaped;
        separates
    };
    let present: Vec<_> = subject
        .split(separators)
        .filter_map(|attribute| attribute.split_once('=').filter(|(_, value)| !value.trim().is_empty()))
        // Both spellings of stateOrProvinceName are in use.
        .map(|(name, _)| name.trim().to_ascii_uppercase())
        .map(|name| if name == "S" { "ST".to_owned() } else { name })
        .collect();
    MANDATORY.into_iter().filter(|mandatory| !present.iter().any(|name| name == mandatory)).collect()
}

/// Refuses `*` next to anything else.
fn alone(node: &Node<'_>, texts: &[String]) -> Result<(), CompileError> {
    if texts.len() > 1 && texts.iter().any(|text| text == ALL) {
        return Err(node.wrong_value("\"*\" together with others", "\"*\" alone, or a list without it"));
    }
    Ok(())
}

fn trust_stores(fields: &mut Fields<'_>, context: &Context<'_>) -> Result<Vec<TrustStore>, CompileError> {
    const EXPECTED: &str = "a list of at least one trust store";
    let node = fields.require("certificates", EXPECTED)?;
    let mut taken = BTreeMap::new();
    let stores = node.list(EXPECTED, |entry| {
        entry.map("an object with an optional type and key providers", |fields| {
            let type_ = trust_store_type(fields)?;
            let at = fields.path.key("type");
            if let Some(first) = taken.insert(type_, at.clone()) {
                return Err(CompileError::duplicate(at, type_.as_str(), first));
            }
            let mut requests = Vec::new();
            for (name, node) in fields.rest() {
                let mut request = provider::request(name, &node, Want::Certificates, context)?;
                keep_anchors(&node, &mut request)?;
                requests.push(request);
            }
            if requests.iter().all(is_empty) {
                context.warnings.add(format_args!("{} names no certificate and trusts nobody", entry.path));
            }
            Ok(TrustStore { path: entry.path.to_string(), type_, requests })
        })
    })?;
    if stores.is_empty() { Err(node.wrong_value("an empty list", EXPECTED)) } else { Ok(stores) }
}

fn trust_store_type(fields: &mut Fields<'_>) -> Result<TrustStoreType, CompileError> {
    let expected = one_of(&TrustStoreType::ALL.map(TrustStoreType::as_str));
    let Some(node) = fields.get("type") else { return Ok(TrustStoreType::Ca) };
    let Ok(text) = node.string("") else { return Err(node.wrong_type(expected)) };
    let type_ = TrustStoreType::ALL.into_iter().find(|type_| type_.as_str() == text);
    type_.ok_or_else(|| node.wrong_value(found(text), expected))
}

/// What the spec itself holds can be judged without loading: a certificate that may not anchor trust is left out, and a
/// list of nothing else is refused (notaryproject/ratify #2723).
fn keep_anchors(node: &Node<'_>, request: &mut TrustRequest) -> Result<(), CompileError> {
    let provider::Provider::Inline(inline) = &mut request.provider else { return Ok(()) };
    let faults = trust::keep_anchors(&mut inline.loaded);
    let path = node.path.key("certs");
    for fault in &faults {
        if inline.loaded.items.is_empty() {
            return Err(CompileError::value(path, format!("unusable: {fault}"), "a CA or a self-signed certificate"));
        }
        node.warnings.add(format_args!("{path}: left out: {fault}"));
    }
    Ok(())
}

pub(super) fn is_empty(request: &TrustRequest) -> bool {
    matches!(&request.provider, provider::Provider::Inline(inline) if inline.loaded.items.is_empty())
}
