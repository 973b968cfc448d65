//! Public keys in the forms that people paste: `PUBLIC KEY`, `RSA PUBLIC KEY`, `EC PUBLIC KEY`.

use std::fmt;
use std::sync::Arc;

use der::asn1::{AnyRef, BitStringRef, Null, ObjectIdentifier, UintRef};
use der::{Decode as _, Encode as _, Reader as _, SliceReader};
use sha2::{Digest as _, Sha256};
use spki::{AlgorithmIdentifierRef, SubjectPublicKeyInfoRef};

use super::error::MaterialError;
use crate::words::fingerprint_start;

/// rsaEncryption (RFC 8017 appendix C).
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
/// id-ecPublicKey (RFC 5480 §2.1.1).
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
/// id-Ed25519 (RFC 8410 §3).
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
/// The named curves (RFC 5480 §2.1.1.1), each with the bytes of one coordinate.
const CURVES: [(ObjectIdentifier, KeyAlgorithm, usize); 3] = [
    (ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7"), KeyAlgorithm::EcdsaP256, 32),
    (ObjectIdentifier::new_unwrap("1.3.132.0.34"), KeyAlgorithm::EcdsaP384, 48),
    (ObjectIdentifier::new_unwrap("1.3.132.0.35"), KeyAlgorithm::EcdsaP521, 66),
];

/// A public key that was parsed. Compared and shown by its fingerprint.
#[derive(Clone)]
pub struct PublicKey {
    spki: Arc<[u8]>,
    fingerprint: [u8; 32],
    algorithm: KeyAlgorithm,
}

/// The algorithms whose keys a verifier can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyAlgorithm {
    /// RSA, with the length of its modulus in bits.
    Rsa {
        /// Length of the modulus.
        bits: u32,
    },
    /// ECDSA on P-256.
    EcdsaP256,
    /// ECDSA on P-384.
    EcdsaP384,
    /// ECDSA on P-521.
    EcdsaP521,
    /// Ed25519.
    Ed25519,
}

impl PublicKey {
    /// Parses a SubjectPublicKeyInfo in DER (RFC 5280 §4.1.2.7).
    pub fn from_spki(der: &[u8]) -> Result<Self, MaterialError> {
        let info = SubjectPublicKeyInfoRef::try_from(der).map_err(|_| MaterialError::NotAKey)?;
        let key = info.subject_public_key.as_bytes().ok_or(MaterialError::NotAKey)?;
        let algorithm = match info.algorithm.oid {
            RSA => KeyAlgorithm::Rsa { bits: modulus_bits(key)? },
            EC => curve(info.algorithm.parameters, key)?,
            ED25519 if key.len() == 32 => KeyAlgorithm::Ed25519,
            ED25519 => return Err(MaterialError::NotAKey),
            _ => return Err(MaterialError::UnknownAlgorithm),
        };
        Ok(Self { spki: der.into(), fingerprint: Sha256::digest(der).into(), algorithm })
    }

    /// Parses an RSAPublicKey in DER (RFC 8017 appendix A.1.1), or a SubjectPublicKeyInfo under the same label.
    pub fn from_pkcs1(der: &[u8]) -> Result<Self, MaterialError> {
        if modulus_bits(der).is_err() {
            return Self::from_spki(der);
        }
        let algorithm = AlgorithmIdentifierRef { oid: RSA, parameters: Some(AnyRef::from(Null)) };
        let subject_public_key = BitStringRef::from_bytes(der).map_err(|_| MaterialError::NotAKey)?;
        let info = SubjectPublicKeyInfoRef { algorithm, subject_public_key };
        Self::from_spki(&info.to_der().map_err(|_| MaterialError::NotAKey)?)
    }

    /// The key as a SubjectPublicKeyInfo in DER.
    pub fn spki(&self) -> &[u8] {
        &self.spki
    }

    /// SHA-256 of [`PublicKey::spki`].
    pub const fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }

    /// What it can verify.
    pub const fn algorithm(&self) -> KeyAlgorithm {
        self.algorithm
    }
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl Eq for PublicKey {}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({:?}, SHA256 {})", self.algorithm, fingerprint_start(&self.fingerprint))
    }
}

/// Length of the modulus of an RSAPublicKey: a sequence of modulus and exponent, and nothing behind it.
fn modulus_bits(der: &[u8]) -> Result<u32, MaterialError> {
    let read = || -> der::Result<u32> {
        let mut reader = SliceReader::new(der)?;
        let bits = reader.sequence(|reader| -> der::Result<u32> {
            let modulus = UintRef::decode(reader)?.as_bytes();
            UintRef::decode(reader)?;
            let unused = modulus.first().map_or(0, |byte| byte.leading_zeros());
            Ok((modulus.len() as u32 * 8).saturating_sub(unused))
        })?;
        reader.finish()?;
        Ok(bits)
    };
    read().map_err(|_| MaterialError::NotAKey)
}

/// The curve that the parameters name. `key` is a point of it, whole or compressed.
fn curve(parameters: Option<AnyRef<'_>>, key: &[u8]) -> Result<KeyAlgorithm, MaterialError> {
    let oid =
        parameters.and_then(|any| any.decode_as::<ObjectIdentifier>().ok()).ok_or(MaterialError::UnknownAlgorithm)?;
    let known = CURVES.into_iter().find(|(curve, ..)| *curve == oid);
    let (_, algorithm, size) = known.ok_or(MaterialError::UnknownAlgorithm)?;
    match (key.first(), key.len()) {
        (Some(4), length) if length == 1 + 2 * size => Ok(algorithm),
        (Some(2 | 3), length) if length == 1 + size => Ok(algorithm),
        _ => Err(MaterialError::NotAKey),
    }
}
