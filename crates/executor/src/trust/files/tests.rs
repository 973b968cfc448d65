//! A directory in, items, faults or an error out.

use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::super::testing::{SPECIMENS, without_fingerprints};
use super::*;

/// A trust directory, and another place beside it.
struct Tree {
    home: TempDir,
}

impl Tree {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("trust")).unwrap();
        fs::create_dir(home.path().join("elsewhere")).unwrap();
        Self { home }
    }

    fn write(&self, path: &str, contents: impl AsRef<[u8]>) -> &Self {
        let path = self.home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
        self
    }

    fn link(&self, path: &str, target: &str) -> &Self {
        let path = self.home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
        self
    }

    fn request(&self, paths: &[&str], want: Want) -> TrustRequest {
        let root = self.home.path().join("trust");
        let files = Files { root, paths: paths.iter().map(PathBuf::from).collect() };
        TrustRequest { path: "spec".to_owned(), want, provider: Provider::Files(files) }
    }

    async fn load(&self, paths: &[&str]) -> Result<Loaded, LoadError> {
        FilesProvider.load(&self.request(paths, Want::Certificates)).await
    }

    async fn digest(&self, paths: &[&str]) -> Option<Digest> {
        FilesProvider.digest(&self.request(paths, Want::Certificates)).await.ok().flatten()
    }

    /// One line for each item, fault and error.
    async fn check(&self, paths: &[&str], expected: &[&str]) {
        let found = match self.load(paths).await {
            Ok(loaded) => {
                let subject = |material: &Material| material.as_certificate().unwrap().subject().to_owned();
                let items = loaded.items.iter().map(|item| format!("{}: {}", item.origin, subject(&item.material)));
                items.chain(loaded.faults.iter().map(|fault| format!("! {fault}"))).collect()
            }
            Err(error) => vec![format!("{}: {error}", error.reason())],
        };
        let home = self.home.path().display().to_string();
        let found: Vec<_> = found.iter().map(|line| without_fingerprints(line).replace(&home, "")).collect();
        assert_eq!(found, expected, "{paths:?}");
    }
}

#[tokio::test]
async fn directories_are_walked_in_the_order_of_names() {
    let tree = Tree::new();
    tree.write("trust/b.pem", &SPECIMENS.ca).write("trust/a/one.pem", &SPECIMENS.other_ca).write("trust/.keep", "");
    tree.check(
        &[""],
        &[
            "\"a/one.pem\" block 1: CN=other authority",
            "\"b.pem\" block 1: CN=authority",
            "! \".keep\" has no PEM block",
        ],
    )
    .await;
    tree.check(
        &["b.pem", "a", "b.pem"],
        &["\"b.pem\" block 1: CN=authority", "\"a/one.pem\" block 1: CN=other authority"],
    )
    .await;
}

#[tokio::test]
async fn a_mounted_volume_is_read_once_and_its_change_is_noticed() {
    let tree = Tree::new();
    tree.write("trust/..2026_01/ca.pem", &SPECIMENS.ca)
        .write("trust/..2026_02/ca.pem", &SPECIMENS.other_ca)
        .link("trust/..data", "..2026_01")
        .link("trust/ca.pem", "..data/ca.pem");
    tree.check(&[""], &["\"ca.pem\" block 1: CN=authority"]).await;
    let before = tree.load(&[""]).await.unwrap().digest;
    assert!(before.is_some());
    assert_eq!(tree.digest(&[""]).await, before);

    fs::remove_file(tree.home.path().join("trust/..data")).unwrap();
    tree.link("trust/..data", "..2026_02");
    tree.check(&[""], &["\"ca.pem\" block 1: CN=other authority"]).await;
    assert_ne!(tree.digest(&[""]).await, before);
}

#[tokio::test]
async fn nothing_outside_the_trust_directory_is_read() {
    let tree = Tree::new();
    tree.write("elsewhere/ca.pem", &SPECIMENS.ca)
        .write("trust/ca.pem", &SPECIMENS.other_ca)
        .link("trust/out", "../elsewhere")
        .link("trust/sub/out.pem", "../../elsewhere/ca.pem")
        .link("trust/sub/in.pem", "../ca.pem");
    tree.check(&["out"], &["BadMaterial: file \"/trust/out\" leads out of the trust directory"]).await;
    tree.check(&["sub/out.pem"], &["BadMaterial: file \"/trust/sub/out.pem\" leads out of the trust directory"]).await;
    tree.check(
        &["sub"],
        &["\"sub/in.pem\" block 1: CN=other authority", "! \"sub/out.pem\" leads out of the trust directory"],
    )
    .await;
}

#[tokio::test]
async fn an_absent_path_is_an_error_that_may_heal() {
    let tree = Tree::new();
    tree.write("trust/ca.pem", &SPECIMENS.ca);
    tree.check(&["ca.pem", "late"], &["FileMissing: file \"/trust/late\" is not there"]).await;
    tree.check(&["ca.pem/x"], &["FileMissing: file \"/trust/ca.pem/x\" is not there"]).await;
    let before = tree.digest(&["late"]).await;
    tree.write("trust/late", &SPECIMENS.other_ca);
    tree.check(&["late"], &["\"late\" block 1: CN=other authority"]).await;
    assert_ne!(tree.digest(&["late"]).await, before);
    fs::remove_dir_all(tree.home.path().join("trust")).unwrap();
    tree.check(&["late"], &["FileMissing: file \"/trust\" is not there"]).await;
}

#[tokio::test]
async fn what_is_no_file_or_too_large_names_itself() {
    let tree = Tree::new();
    let large = vec![b'x'; usize::try_from(FILE_BYTES_MAX).unwrap() + 1];
    tree.write("trust/large.pem", large).write("trust/ca.pem", &SPECIMENS.ca).link("trust/nowhere.pem", "gone");
    nix::unistd::mkfifo(&tree.home.path().join("trust/pipe"), nix::sys::stat::Mode::S_IRUSR).unwrap();
    tree.check(
        &[""],
        &[
            "\"ca.pem\" block 1: CN=authority",
            "! \"large.pem\" is larger than 1048576 bytes",
            "! \"nowhere.pem\" cannot be read",
            "! \"pipe\" cannot be read",
        ],
    )
    .await;
}

#[tokio::test]
async fn certificates_in_der_are_read_too() {
    let tree = Tree::new();
    let ca = Loaded::from_pem(&SPECIMENS.ca, Want::Certificates, "").items.pop().unwrap();
    tree.write("trust/ca.cer", ca.material.as_certificate().unwrap().der()).write("trust/junk", [0xff, 0xfe]);
    tree.check(&[""], &["\"ca.cer\": CN=authority", "! \"junk\" is no X.509 certificate in DER"]).await;
    let request = tree.request(&["junk"], Want::Keys);
    let loaded = FilesProvider.load(&request).await.unwrap();
    assert_eq!(loaded.faults[0].to_string(), "\"junk\" has no PEM block");
}

#[tokio::test]
async fn a_walk_is_bounded() {
    let tree = Tree::new();
    for number in 0..=FILES_MAX {
        tree.write(&format!("trust/many/{number}.pem"), "");
    }
    tree.check(&["many"], &["BadMaterial: there are more than 256 files"]).await;
    tree.write("trust/deep/a/b/c/d/e/f/g/h/ca.pem", "");
    tree.check(&["deep"], &["BadMaterial: there are more than 8 levels of directories"]).await;
    for number in 0..10 {
        tree.write(&format!("trust/heavy/{number}.pem"), vec![b'x'; usize::try_from(FILE_BYTES_MAX).unwrap()]);
    }
    tree.check(&["heavy"], &["BadMaterial: there are more than 8388608 bytes"]).await;
    tree.write("trust/loop/ca.pem", &SPECIMENS.ca).link("trust/loop/again", ".");
    tree.check(&["loop"], &["\"loop/ca.pem\" block 1: CN=authority"]).await;
}
