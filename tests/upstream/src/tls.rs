//! Certificates made at start: an authority and, signed by it, the server's own.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, crypto};
use tokio_rustls::TlsAcceptor;

/// Why no certificate could be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Making or signing failed.
    #[error("cannot sign it")]
    Sign(#[from] rcgen::Error),
    /// The TLS library refuses it.
    #[error("the TLS library refuses it")]
    Use(#[from] rustls::Error),
}

/// What HTTPS is served with.
pub(crate) struct Identity {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) ca_pem: String,
}

impl Identity {
    /// A new one, for this machine and for `names`.
    pub(crate) fn new(names: Vec<String>) -> Result<Self, Error> {
        let authority = CertifiedIssuer::self_signed(authority("Test upstream authority"), KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let names: Vec<_> = ["localhost", "127.0.0.1", "::1"].map(String::from).into_iter().chain(names).collect();
        let certificate = CertificateParams::new(names)?.signed_by(&key, &authority)?;
        let key =
            PrivateKeyDer::try_from(key.serialize_der()).map_err(|text| rustls::Error::General(text.to_owned()))?;
        let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), ca_pem: authority.pem() })
    }
}

/// A self-signed certificate authority as PEM: trust material to hand out.
pub fn authority_pem(name: &str) -> Result<String, Error> {
    Ok(authority(name).self_signed(&KeyPair::generate()?)?.pem())
}

fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}
