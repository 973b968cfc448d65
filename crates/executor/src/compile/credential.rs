//! How a store shows who it is to a registry.

use std::fmt;

use zeroize::Zeroizing;

use super::error::CompileError;
use super::reader::{Fields, Node, found};
use crate::words::one_of;

/// What a store shows to a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// Nothing.
    Anonymous,
    /// A user name and a password.
    Password {
        /// The user name.
        username: String,
        /// The password.
        password: Secret,
    },
    /// A refresh token: a password without a user name.
    RefreshToken(Secret),
    /// An Azure identity.
    Azure {
        /// Client ID of the identity; empty for the platform's.
        client_id: String,
        /// Tenant ID of the identity; empty for the platform's.
        tenant_id: String,
        /// Use the cluster's identity binding and nothing else.
        identity_binding: bool,
    },
}

/// A text that must not be shown. Its debug form is `[hidden]`, and its memory is overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Keeps a text from being shown.
    pub(crate) fn new(text: &str) -> Self {
        Self(Zeroizing::new(text.to_owned()))
    }

    /// The text, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

pub(super) fn credential(node: &Node<'_>) -> Result<Credential, CompileError> {
    node.object("an object with provider", |fields| {
        const PROVIDERS: [&str; 2] = ["static", "azure"];
        let provider = fields.require("provider", "static or azure")?;
        match provider.string("static or azure")? {
            "static" => static_credential(fields),
            "azure" => azure(fields),
            other => Err(provider.wrong_value(found(other), one_of(&PROVIDERS))),
        }
    })
}

fn static_credential(fields: &mut Fields<'_>) -> Result<Credential, CompileError> {
    let username = fields.text("username")?;
    let password = Secret::new(&fields.text("password")?);
    Ok(match (username.is_empty(), password.0.is_empty()) {
        (true, true) => Credential::Anonymous,
        (true, false) => Credential::RefreshToken(password),
        (false, _) => Credential::Password { username, password },
    })
}

fn azure(fields: &mut Fields<'_>) -> Result<Credential, CompileError> {
    let client_id = fields.text("clientID")?;
    let tenant_id = fields.text("tenantID")?;
    let identity_binding = match fields.get("identityBinding") {
        Some(node) => node.object("an object with enabled", |fields| fields.switch("enabled"))?,
        None => false,
    };
    Ok(Credential::Azure { client_id, tenant_id, identity_binding })
}
