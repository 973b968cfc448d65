//! What a secret that belongs to a certificate holds: PEM or PKCS#12, the private key included.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use p12_keystore::Pkcs12Archive;
use zeroize::Zeroizing;

use crate::compile::Want;
use crate::trust::error::MaterialError;
use crate::trust::{Certificate, Loaded, Material, pem};
use crate::words::quote;

const PEM: &str = "application/x-pem-file";
const PKCS12: &str = "application/x-pkcs12";

/// Reads every certificate of a secret's value.
pub(super) async fn read(loaded: &mut Loaded, value: Zeroizing<String>, content_type: Option<&str>, origin: &str) {
    match content_type.map(str::to_ascii_lowercase).as_deref() {
        Some(PEM) => loaded.read_pem(&pem::without_private_keys(&value), Want::Certificates, origin),
        Some(PKCS12) => read_pkcs12(loaded, value, origin).await,
        other => {
            let found =
                other.map_or_else(|| "no content type".to_owned(), |other| format!("content type {}", quote(other)));
            loaded.push(origin.to_owned(), Err(MaterialError::ContentType { found }));
        }
    }
}

async fn read_pkcs12(loaded: &mut Loaded, value: Zeroizing<String>, origin: &str) {
    // Its keys are derived by many rounds of hashing, which is no work for the threads that answer probes.
    let task = tokio::task::spawn_blocking(move || certificates(&value));
    match task.await.unwrap_or(Err(MaterialError::NotPkcs12)) {
        Ok(certificates) if certificates.is_empty() => {
            loaded.push(origin.to_owned(), Err(MaterialError::NoCertificate));
        }
        Ok(certificates) => {
            for (index, der) in certificates.iter().enumerate() {
                let place = format!("{origin} entry {}", index + 1);
                loaded.push(place, Certificate::from_der(der).map(Material::Certificate));
            }
        }
        Err(error) => loaded.push(origin.to_owned(), Err(error)),
    }
}

/// The certificates of an archive in base64. Key Vault protects it with an empty password.
fn certificates(value: &str) -> Result<Vec<Vec<u8>>, MaterialError> {
    let archive = STANDARD.decode(value.trim()).map(Zeroizing::new).map_err(|_| MaterialError::NotPkcs12)?;
    let archive = Pkcs12Archive::from_pkcs12(&archive, "").map_err(|_| MaterialError::NotPkcs12)?;
    Ok(archive.certs.into_iter().map(|bag| bag.cert.as_der().to_vec()).collect())
}
