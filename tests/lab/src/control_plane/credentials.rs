//! Keys, certificates, tokens and kubeconfigs of one control plane.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use kube::config::AuthInfo;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use serde_json::json;

use crate::random;

/// Users that the API server knows by a static token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    /// The person at the keyboard, and the test itself.
    Admin,
    /// The controller manager, under the name that Kubernetes' own roles are bound to.
    ControllerManager,
    /// Whoever plays kubelet. A name of its own keeps its writes apart in the audit log.
    Kubelet,
}

impl User {
    const ALL: [Self; 3] = [Self::Admin, Self::ControllerManager, Self::Kubelet];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::ControllerManager => "system:kube-controller-manager",
            Self::Kubelet => "lab-kubelet",
        }
    }

    const fn group(self) -> &'static str {
        match self {
            Self::Admin | Self::Kubelet => "system:masters",
            Self::ControllerManager => "system:authenticated",
        }
    }
}

/// Everything secret or signed, with the files the servers read.
#[derive(Debug)]
pub(crate) struct Credentials {
    dir: PathBuf,
    ca_der: Vec<u8>,
    tokens: [String; 3],
}

impl Credentials {
    /// Creates all of it below `dir`, for an API server at `ip`.
    pub(crate) fn create(dir: PathBuf, ip: &str) -> Result<Self> {
        let credentials = Self { ca_der: certificates(&dir, ip)?, tokens: tokens()?, dir };
        let service_accounts = KeyPair::generate().context("cannot generate a key")?;
        write(&credentials.service_account_key(), &service_accounts.serialize_pem())?;
        write(&credentials.service_account_public_key(), &service_accounts.public_key_pem())?;
        let lines = User::ALL.map(|user| {
            let (token, name, group) = (credentials.token(user), user.name(), user.group());
            format!("{token},{name},{name},\"{group}\"\n")
        });
        write(&credentials.tokens_file(), &lines.concat())?;
        Ok(credentials)
    }

    pub(crate) fn token(&self, user: User) -> &str {
        &self.tokens[user as usize]
    }

    pub(crate) fn ca_file(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    pub(crate) fn server_certificate(&self) -> PathBuf {
        self.dir.join("apiserver.crt")
    }

    pub(crate) fn server_key(&self) -> PathBuf {
        self.dir.join("apiserver.key")
    }

    pub(crate) fn service_account_key(&self) -> PathBuf {
        self.dir.join("sa.key")
    }

    pub(crate) fn service_account_public_key(&self) -> PathBuf {
        self.dir.join("sa.pub")
    }

    pub(crate) fn tokens_file(&self) -> PathBuf {
        self.dir.join("tokens.csv")
    }

    /// A client configuration with `token`. Retries are the caller's, as in the product: kube's own hide what happens.
    pub(crate) fn config(&self, url: &str, token: &str) -> Result<kube::Config> {
        let mut config = kube::Config::new(url.parse().with_context(|| format!("not a URL: {url}"))?);
        config.root_cert = Some(vec![self.ca_der.clone()]);
        config.auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
        config.default_retry = false;
        Ok(config)
    }
}

/// How a kubeconfig authenticates.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Auth<'a> {
    /// With a token that lives as long as the cluster.
    Token(&'a str),
    /// With a token that is renewed in a file, as in a pod.
    TokenFile(&'a Path),
}

/// A kubeconfig's text. JSON is YAML, and needs no care with quotes.
pub(crate) fn kubeconfig(server: &str, tls_server_name: Option<&str>, ca_file: &Path, auth: Auth<'_>) -> String {
    let mut cluster = json!({"server": server, "certificate-authority": ca_file});
    if let Some(name) = tls_server_name {
        cluster["tls-server-name"] = name.into();
    }
    let user = match auth {
        Auth::Token(token) => json!({"token": token}),
        Auth::TokenFile(file) => json!({"tokenFile": file}),
    };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": "lab", "user": user}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
        "current-context": "lab",
    });
    format!("{config:#}\n")
}

fn tokens() -> Result<[String; 3]> {
    Ok([random::token()?, random::token()?, random::token()?])
}

/// A certificate authority and the API server's certificate; returns the authority's DER.
fn certificates(dir: &Path, ip: &str) -> Result<Vec<u8>> {
    let mut ca = CertificateParams::new(Vec::new())?;
    ca.distinguished_name.push(DnType::CommonName, "muster-lab-ca");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let ca_key = KeyPair::generate().context("cannot generate a key")?;
    let ca_certificate = ca.self_signed(&ca_key).context("cannot sign the authority's certificate")?;

    let names = [ip, "10.96.0.1", "localhost", "kubernetes.default.svc"].map(str::to_owned);
    let mut server = CertificateParams::new(names)?;
    server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    let server_key = KeyPair::generate().context("cannot generate a key")?;
    let certificate = server.signed_by(&server_key, &Issuer::from_params(&ca, &ca_key)).context("cannot sign")?;

    write(&dir.join("ca.crt"), &ca_certificate.pem())?;
    write(&dir.join("apiserver.crt"), &certificate.pem())?;
    write(&dir.join("apiserver.key"), &server_key.serialize_pem())?;
    Ok(ca_certificate.der().to_vec())
}

pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
