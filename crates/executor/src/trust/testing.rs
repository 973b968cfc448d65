//! Certificates and keys for tests, made when they are needed, and the time at which the tests judge them.

use std::sync::LazyLock;

use jiff::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

/// The time of the tests: 2026-06-01T00:00:00Z. Material is valid from 2026 to 2027 unless its name says otherwise.
pub(crate) const NOW: &str = "2026-06-01T00:00:00Z";

/// [`NOW`] as a time.
pub(crate) fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// One of each kind of material, as PEM text.
pub(crate) struct Specimens {
    /// A certificate authority.
    pub ca: String,
    /// Another one.
    pub other_ca: String,
    /// A certificate authority that expired in 2025.
    pub expired_ca: String,
    /// A certificate authority that is valid from 2030 on.
    pub early_ca: String,
    /// A certificate authority that never expires.
    pub endless_ca: String,
    /// A certificate that a certificate authority issued.
    pub leaf: String,
    /// A certificate that is no authority and signed itself.
    pub self_signed: String,
    /// A P-256 public key.
    pub key: String,
    /// A private key.
    pub private_key: String,
}

/// The specimens of this test run.
pub(crate) static SPECIMENS: LazyLock<Specimens> = LazyLock::new(|| {
    let authority = |name, from, to| {
        let mut params = params(name, from, to);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
    };
    let key = KeyPair::generate().unwrap();
    let ca = authority("authority", 2026, 2027);
    let mut endless = authority("endless", 2026, 2027);
    // RFC 5280 §4.1.2.5: this date stands for "never".
    endless.not_after = date_time_ymd(9999, 12, 31) + std::time::Duration::from_secs(86_399);
    Specimens {
        ca: ca.self_signed(&key).unwrap().pem(),
        other_ca: authority("other authority", 2026, 2028).self_signed(&key).unwrap().pem(),
        expired_ca: authority("expired", 2024, 2025).self_signed(&key).unwrap().pem(),
        early_ca: authority("early", 2030, 2031).self_signed(&key).unwrap().pem(),
        endless_ca: endless.self_signed(&key).unwrap().pem(),
        leaf: params("leaf", 2026, 2027).signed_by(&key, &Issuer::from_params(&ca, &key)).unwrap().pem(),
        self_signed: params("self-signed", 2026, 2027).self_signed(&key).unwrap().pem(),
        key: key.public_key_pem(),
        private_key: key.serialize_pem(),
    }
});

fn params(name: &str, from: i32, to: i32) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(from, 1, 1);
    params.not_after = date_time_ymd(to, 1, 1);
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    params
}

/// `text` with every fingerprint replaced, which differs from run to run.
pub(crate) fn without_fingerprints(text: &str) -> String {
    let mut parts = text.split("SHA256 ");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("SHA256 …");
        out.push_str(part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    out
}
