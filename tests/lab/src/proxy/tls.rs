//! Both halves of TLS. The proxy shows the API server's own certificate, so whoever trusts the server trusts it.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// The only protocol spoken: one request at a time on a connection, so that cutting one cuts nothing else.
const PROTOCOL: &[u8] = b"http/1.1";

/// Towards clients.
pub(super) fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor> {
    let certificates = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .with_context(|| format!("cannot read {}", certificate.display()))?;
    let key = PrivateKeyDer::from_pem_file(key).with_context(|| format!("cannot read {}", key.display()))?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Towards the API server.
pub(super) fn connector(ca: &Path) -> Result<TlsConnector> {
    let ca = CertificateDer::from_pem_file(ca).with_context(|| format!("cannot read {}", ca.display()))?;
    let mut roots = RootCertStore::empty();
    roots.add(ca).context("cannot trust the authority")?;
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
