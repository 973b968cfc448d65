//! Public keys as JSON Web Keys (RFC 7517, RFC 7518 §6), which is how Key Vault hands them out.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use der::Encode as _;
use der::asn1::{AnyRef, BitStringRef, ObjectIdentifier, UintRef};
use serde::Deserialize;
use spki::{AlgorithmIdentifierRef, SubjectPublicKeyInfoRef};

use crate::trust::PublicKey;
use crate::trust::error::MaterialError;

/// id-ecPublicKey (RFC 5480 §2.1.1).
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");

/// Names of curves (RFC 7518 §6.2.1.1), with their identifiers and the bytes of one coordinate.
const CURVES: [(&str, ObjectIdentifier, usize); 3] = [
    ("P-256", ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7"), 32),
    ("P-384", ObjectIdentifier::new_unwrap("1.3.132.0.34"), 48),
    ("P-521", ObjectIdentifier::new_unwrap("1.3.132.0.35"), 66),
];

/// The public part of a key. Those kept in hardware differ by the ending of their type.
#[derive(Deserialize)]
#[serde(tag = "kty")]
pub(super) enum Jwk {
    #[serde(rename = "RSA", alias = "RSA-HSM")]
    Rsa { n: String, e: String },
    #[serde(rename = "EC", alias = "EC-HSM")]
    Ec { crv: String, x: String, y: String },
    #[serde(other)]
    Unknown,
}

impl Jwk {
    pub(super) fn public_key(&self) -> Result<PublicKey, MaterialError> {
        match self {
            Self::Rsa { n, e } => rsa(&decode(n)?, &decode(e)?),
            Self::Ec { crv, x, y } => ec(crv, &decode(x)?, &decode(y)?),
            Self::Unknown => Err(MaterialError::UnknownAlgorithm),
        }
    }
}

/// RSAPublicKey (RFC 8017 appendix A.1.1): modulus and exponent.
fn rsa(modulus: &[u8], exponent: &[u8]) -> Result<PublicKey, MaterialError> {
    let encode = || -> der::Result<Vec<u8>> {
        let (modulus, exponent) = (UintRef::new(modulus)?, UintRef::new(exponent)?);
        let mut body = modulus.to_der()?;
        exponent.encode_to_vec(&mut body)?;
        AnyRef::new(der::Tag::Sequence, &body)?.to_der()
    };
    PublicKey::from_pkcs1(&encode().map_err(|_| MaterialError::NotAKey)?)
}

/// A point that is not compressed: 4, x, y, each coordinate in full length (SEC 1 §2.3.3).
fn ec(curve: &str, x: &[u8], y: &[u8]) -> Result<PublicKey, MaterialError> {
    let known = CURVES.into_iter().find(|(name, ..)| *name == curve);
    let (_, curve, size) = known.ok_or(MaterialError::UnknownAlgorithm)?;
    let mut point = vec![4];
    for coordinate in [x, y] {
        let padding = size.checked_sub(coordinate.len()).ok_or(MaterialError::NotAKey)?;
        point.resize(point.len() + padding, 0);
        point.extend_from_slice(coordinate);
    }
    let encode = || -> der::Result<Vec<u8>> {
        let algorithm = AlgorithmIdentifierRef { oid: EC, parameters: Some(AnyRef::from(&curve)) };
        SubjectPublicKeyInfoRef { algorithm, subject_public_key: BitStringRef::from_bytes(&point)? }.to_der()
    };
    PublicKey::from_spki(&encode().map_err(|_| MaterialError::NotAKey)?)
}

/// base64url; some services pad it although RFC 7518 §2 forbids that.
fn decode(text: &str) -> Result<Vec<u8>, MaterialError> {
    URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|_| MaterialError::NotAKey)
}
