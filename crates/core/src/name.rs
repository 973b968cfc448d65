//! The name of an `ExecutorPodStatus`: readable where it can be, unique always.
//!
//! Pod and executor names may have 253 characters each (C61), and a re-created executor or pod keeps its name while its
//! UID changes (C05). So the name carries cut prefixes for people and a hash of both UIDs for truth.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::text;

/// Longest name built here, in bytes. The API server allows 253; the rest is room for whatever derives a name from ours.
pub const POD_STATUS_NAME_MAX: usize = 230;

/// Bytes of the digest that are kept: 80 bits, so that a million objects collide with a chance below 10⁻¹².
const HASH_BYTES: usize = 10;

/// Longest readable prefix, in bytes: two of them, two dashes and the hash in hexadecimal fill the limit.
const PREFIX_MAX: usize = (POD_STATUS_NAME_MAX - 2 - 2 * HASH_BYTES) / 2;

/// Names the object in which the pod `pod` reports about the executor `executor`.
///
/// Both names must be what the API server accepts as an object name (DNS-1123 subdomains). The result is one too, at
/// most [`POD_STATUS_NAME_MAX`] bytes long, the same for the same input, and different when one of the UIDs differs.
pub fn pod_status_name(executor: &str, pod: &str, executor_uid: &str, pod_uid: &str) -> String {
    let mut name = String::with_capacity(POD_STATUS_NAME_MAX);
    for part in [executor, pod] {
        let prefix = prefix(part);
        if !prefix.is_empty() {
            name.push_str(prefix);
            name.push('-');
        }
    }
    name.push_str(&hash(executor_uid, pod_uid));
    name
}

/// A cut may leave `foo.` or `foo-`; a dash behind either is refused by the API server.
fn prefix(name: &str) -> &str {
    text::prefix(name, PREFIX_MAX).trim_matches(['.', '-'])
}

fn hash(executor_uid: &str, pod_uid: &str) -> String {
    // The separator cannot occur in a UID; without one, shifting a character between the two would collide.
    let digest = Sha256::new().chain_update(executor_uid).chain_update([0]).chain_update(pod_uid).finalize();
    let mut hash = String::with_capacity(2 * HASH_BYTES);
    for byte in digest.iter().take(HASH_BYTES) {
        // Writing to a String cannot fail.
        let _ = write!(hash, "{byte:02x}");
    }
    hash
}

#[cfg(test)]
mod tests;
