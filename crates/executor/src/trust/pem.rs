//! PEM text, block by block: a block that cannot be read costs no other.

use zeroize::Zeroizing;

use super::error::MaterialError;
use super::{Certificate, Material, PublicKey};
use crate::compile::Want;
use crate::words::quote;

const BEGIN: &str = "-----BEGIN ";

/// One block.
pub(super) struct Block {
    label: String,
    contents: Vec<u8>,
}

/// Every block of `text`, in order. Text between blocks is nobody's business (RFC 7468 §2).
pub(super) fn blocks(text: &str) -> impl Iterator<Item = Result<Block, MaterialError>> {
    let mut rest = text.find(BEGIN).map(|start| text.split_at(start).1);
    std::iter::from_fn(move || {
        let here = rest?;
        let next = here.match_indices(BEGIN).nth(1).map(|(start, _)| start);
        let (chunk, after) = here.split_at(next.unwrap_or(here.len()));
        rest = next.map(|_| after);
        Some(block(chunk))
    })
}

/// `text` without the blocks that hold private keys, which a vault hands out beside the certificate.
pub(super) fn without_private_keys(text: &str) -> Zeroizing<String> {
    let mut kept = Zeroizing::new(String::with_capacity(text.len()));
    let mut rest = text;
    while let Some((before, block)) = rest.find(BEGIN).map(|start| rest.split_at(start)) {
        kept.push_str(before);
        let next = block.match_indices(BEGIN).nth(1).map_or(block.len(), |(start, _)| start);
        let (chunk, after) = block.split_at(next);
        let label = chunk.strip_prefix(BEGIN).and_then(|rest| rest.split_once("-----")).map_or("", |(label, _)| label);
        if !label.ends_with("PRIVATE KEY") {
            kept.push_str(chunk);
        }
        rest = after;
    }
    kept.push_str(rest);
    kept
}

/// `chunk` begins with the only BEGIN line in it.
fn block(chunk: &str) -> Result<Block, MaterialError> {
    let shown = || {
        let label = chunk.strip_prefix(BEGIN).and_then(|rest| rest.split_once("-----")).map_or("", |(label, _)| label);
        quote(label).trim_matches('"').to_owned()
    };
    match pem::parse(chunk) {
        Ok(block) => Ok(Block { label: block.tag().to_owned(), contents: block.into_contents() }),
        Err(pem::PemError::MismatchedTags(..)) => Err(MaterialError::OtherEnd { label: shown() }),
        Err(pem::PemError::InvalidData(_) | pem::PemError::InvalidHeader(_) | pem::PemError::NotUtf8(_)) => {
            Err(MaterialError::NotBase64)
        }
        Err(_) => Err(MaterialError::NoEnd { label: shown() }),
    }
}

impl Block {
    /// What the block holds, if it is of the wanted kind.
    pub(super) fn into_material(self, want: Want) -> Result<Material, MaterialError> {
        match (want, self.label.as_str()) {
            (Want::Certificates, "CERTIFICATE") => Certificate::from_der(&self.contents).map(Material::Certificate),
            (Want::Keys, "PUBLIC KEY" | "EC PUBLIC KEY") => {
                PublicKey::from_spki(&self.contents).map(Material::PublicKey)
            }
            (Want::Keys, "RSA PUBLIC KEY") => PublicKey::from_pkcs1(&self.contents).map(Material::PublicKey),
            (_, label) => {
                let label = quote(label).trim_matches('"').to_owned();
                Err(MaterialError::OtherKind { label, wanted: want.noun() })
            }
        }
    }
}
