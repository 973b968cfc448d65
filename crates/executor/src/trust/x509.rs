//! X.509 certificates, as far as trust anchors need them: who, from when to when, and may it vouch for others.

use std::fmt;
use std::sync::Arc;

use der::{Decode as _, Encode as _};
use jiff::Timestamp;
use muster_core::text::{cut, single_line};
use sha2::{Digest as _, Sha256};
use x509_cert::certificate::TbsCertificate;
use x509_cert::ext::pkix::{AuthorityKeyIdentifier, BasicConstraints, SubjectKeyIdentifier};
use x509_cert::time::Time;

use super::error::MaterialError;
use crate::words::fingerprint_start;

/// Longest name that is shown, in bytes.
const NAME_MAX: usize = 96;

/// 9999-12-31T23:59:59Z, which stands for "never expires" (RFC 5280 §4.1.2.5), in seconds since 1970.
const NO_EXPIRY: u64 = 253_402_300_799;

/// A certificate that was parsed. Compared and shown by its fingerprint.
#[derive(Clone)]
pub struct Certificate {
    der: Arc<[u8]>,
    fingerprint: [u8; 32],
    subject: String,
    issuer: String,
    not_before: Timestamp,
    not_after: Option<Timestamp>,
    is_ca: bool,
    is_self_signed: bool,
}

/// What a certificate's dates say at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Its time has not come.
    NotYet,
    /// It is valid.
    Valid,
    /// Its time is over.
    Expired,
}

impl Certificate {
    /// Parses the DER form.
    pub fn from_der(der: &[u8]) -> Result<Self, MaterialError> {
        let parsed = x509_cert::Certificate::from_der(der).map_err(|_| MaterialError::NotACertificate)?;
        let certificate = parsed.tbs_certificate();
        let constraints = extension::<BasicConstraints>(certificate)?;
        Ok(Self {
            der: der.into(),
            fingerprint: Sha256::digest(der).into(),
            subject: single_line(&certificate.subject().to_string()),
            issuer: single_line(&certificate.issuer().to_string()),
            not_before: timestamp(certificate.validity().not_before).unwrap_or(Timestamp::MAX),
            not_after: timestamp(certificate.validity().not_after),
            is_ca: constraints.is_some_and(|constraints| constraints.ca),
            is_self_signed: is_self_signed(certificate)?,
        })
    }

    /// The DER form.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// SHA-256 of the DER form.
    pub const fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }

    /// The subject, as RFC 4514 writes it.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The issuer, as RFC 4514 writes it.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// When it begins to be valid (UTC).
    pub const fn not_before(&self) -> Timestamp {
        self.not_before
    }

    /// When it ends being valid (UTC); `None` is never.
    pub const fn not_after(&self) -> Option<Timestamp> {
        self.not_after
    }

    /// Its basic constraints say that it is a certificate authority.
    pub const fn is_ca(&self) -> bool {
        self.is_ca
    }

    /// It names itself as its issuer, by name and, where it has them, by key identifier. The signature itself is checked
    /// by whoever builds a chain on it.
    pub const fn is_self_signed(&self) -> bool {
        self.is_self_signed
    }

    /// It may be trusted by itself.
    pub const fn may_anchor(&self) -> bool {
        self.is_ca || self.is_self_signed
    }

    /// What its dates say at `now`. Both ends belong to its time.
    pub fn validity(&self, now: Timestamp) -> Validity {
        if now < self.not_before {
            Validity::NotYet
        } else if self.not_after.is_some_and(|end| end < now) {
            Validity::Expired
        } else {
            Validity::Valid
        }
    }

    /// Subject and beginning of the fingerprint: `"CN=root" (SHA256 9f3a1b2c4d5e6f70)`.
    pub fn label(&self) -> String {
        format!("\"{}\" (SHA256 {})", cut(&self.subject, NAME_MAX), fingerprint_start(&self.fingerprint))
    }
}

impl PartialEq for Certificate {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl Eq for Certificate {}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate({})", self.label())
    }
}

/// The extension of this type. One that cannot be read makes the certificate unreadable: it may forbid something.
fn extension<'a, T>(certificate: &'a TbsCertificate) -> Result<Option<T>, MaterialError>
where
    T: der::Decode<'a, Error = der::Error> + der::oid::AssociatedOid,
{
    let found = certificate.get_extension::<T>().map_err(|_| MaterialError::NotACertificate)?;
    Ok(found.map(|(_, extension)| extension))
}

fn is_self_signed(certificate: &TbsCertificate) -> Result<bool, MaterialError> {
    let name = |name: &x509_cert::name::Name| name.to_der().map_err(|_| MaterialError::NotACertificate);
    if name(certificate.subject())? != name(certificate.issuer())? {
        return Ok(false);
    }
    let own = extension::<SubjectKeyIdentifier>(certificate)?.map(|identifier| identifier.0);
    let issuer = extension::<AuthorityKeyIdentifier>(certificate)?.and_then(|identifier| identifier.key_identifier);
    Ok(match (own, issuer) {
        (Some(own), Some(issuer)) => own == issuer,
        _ => true,
    })
}

/// `None` for the date that stands for never, and for dates that no timestamp can hold, which are later than year 9999.
fn timestamp(time: Time) -> Option<Timestamp> {
    let seconds = time.to_unix_duration().as_secs();
    let seconds = i64::try_from(seconds).ok().filter(|_| seconds < NO_EXPIRY)?;
    Timestamp::from_second(seconds).ok()
}
