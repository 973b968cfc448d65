//! The archive around the layer: blobs by digest, a manifest, and an index that names the image.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use ring::digest::{SHA256, digest as hash};
use serde_json::{Value, json};
use tar::{Builder, Header};

use crate::layer::{BUNDLE, PROGRAMS, pack};
use crate::{Image, USER};

/// What an image weighs, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// As it is pulled.
    pub pulled: u64,
    /// As it lies on a node.
    pub unpacked: u64,
}

/// Writes an image as an archive that `ctr images import`, `skopeo`, `docker load` and registries' tools take.
pub fn write(archive: &Path, image: &Image<'_>) -> Result<Written> {
    let layer = pack(image)?;
    let unpacked = layer.len() as u64;
    let diff_id = digest(&layer);
    let (layer, media_type) = if image.compressed {
        (gzip(&layer)?, "application/vnd.oci.image.layer.v1.tar+gzip")
    } else {
        (layer, "application/vnd.oci.image.layer.v1.tar")
    };

    let config = serde_json::to_vec(&config(image, &diff_id)?).context("cannot write the configuration")?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
        "layers": [descriptor(media_type, &layer)],
    });
    let manifest = serde_json::to_vec(&manifest).context("cannot write the manifest")?;
    let mut named = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
    let tag = image.name.rsplit_once(':').map_or("latest", |(_, tag)| tag);
    // containerd goes by the first annotation, other tools by the second.
    named["annotations"] =
        json!({"io.containerd.image.name": full_name(image.name), "org.opencontainers.image.ref.name": tag});
    let index = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [named],
    });

    let file = File::create(archive).with_context(|| format!("cannot create {}", archive.display()))?;
    let mut tar = Builder::new(file);
    append(&mut tar, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    append(&mut tar, "index.json", &serde_json::to_vec(&index).context("cannot write the index")?)?;
    for blob in [&config, &manifest, &layer] {
        append(&mut tar, &format!("blobs/sha256/{}", hex(blob)), blob)?;
    }
    tar.finish().context("cannot finish an archive")?;
    Ok(Written { pulled: layer.len() as u64, unpacked })
}

fn gzip(layer: &[u8]) -> Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(layer).context("cannot compress a layer")?;
    gzip.finish().context("cannot compress a layer")
}

fn config(image: &Image<'_>, diff_id: &str) -> Result<Value> {
    let program = image.program.file_name().context("a program without a name")?.to_string_lossy().into_owned();
    Ok(json!({
        "architecture": architecture(),
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Env": [format!("PATH=/{PROGRAMS}"), format!("SSL_CERT_FILE=/{BUNDLE}")],
            "Entrypoint": [program],
            "Labels": {"org.opencontainers.image.version": image.version, "org.opencontainers.image.licenses": "Apache-2.0"},
        },
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
    }))
}

/// The names of OCI are Go's.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// A name without a registry is a short form, which the kubelet completes before it looks.
fn full_name(name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("docker.io/library/{name}") }
}

fn descriptor(media_type: &str, blob: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": digest(blob), "size": blob.len()})
}

fn digest(blob: &[u8]) -> String {
    format!("sha256:{}", hex(blob))
}

/// By ring, whose assembly is as quick in a debug build: a layer has tens of megabytes.
fn hex(blob: &[u8]) -> String {
    let digits = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or_default();
    hash(&SHA256, blob).as_ref().iter().flat_map(|byte| [digits(byte >> 4), digits(byte & 15)]).collect()
}

fn append(tar: &mut Builder<File>, path: &str, content: &[u8]) -> Result<()> {
    let mut header = Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    header.set_mtime(0);
    tar.append_data(&mut header, path, content).with_context(|| format!("cannot pack {path}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read;

    use super::*;

    fn read(archive: &Path) -> BTreeMap<String, Vec<u8>> {
        let mut tar = tar::Archive::new(File::open(archive).unwrap());
        let entries = tar.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (path, content)
        });
        entries.collect()
    }

    #[test]
    fn the_index_leads_to_a_layer_with_the_program_and_nobody_is_root() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("muster-x");
        std::fs::write(&program, "no program that needs libraries").unwrap();
        let bundle = dir.path().join("bundle");
        std::fs::write(&bundle, "PEM").unwrap();
        let image =
            Image { name: "muster-x:1", program: &program, authorities: Some(&bundle), version: "1", compressed: true };
        let (one, two) = (dir.path().join("one.tar"), dir.path().join("two.tar"));
        let written = write(&one, &image).unwrap();
        write(&two, &image).unwrap();
        assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&two).unwrap(), "the same program, the same bytes");

        let files = read(&one);
        let blob = |value: &Value| files[&format!("blobs/{}", value.as_str().unwrap().replace(':', "/"))].clone();
        let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        let named = &index["manifests"][0];
        assert_eq!(named["annotations"]["io.containerd.image.name"], "docker.io/library/muster-x:1");
        let manifest: Value = serde_json::from_slice(&blob(&named["digest"])).unwrap();
        let config: Value = serde_json::from_slice(&blob(&manifest["config"]["digest"])).unwrap();
        assert_eq!(config["config"]["User"], "65532:65532");

        let layer = blob(&manifest["layers"][0]["digest"]);
        assert_eq!(layer.len() as u64, written.pulled);
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(&layer[..]));
        let paths: Vec<String> =
            tar.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect();
        let program = format!("{PROGRAMS}/{}", program.file_name().unwrap().display());
        for wanted in [program.as_str(), BUNDLE, "etc/passwd"] {
            assert!(paths.iter().any(|path| path == wanted), "{wanted} in {paths:?}");
        }
    }
}
