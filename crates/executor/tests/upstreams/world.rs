//! A process's upstreams, in small: Secrets in memory, patience that remembers, an upstream to talk to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use muster_api::ExecutorSpec;
use muster_core::gate::Line;
use muster_executor::trust::azure::AzureOptions;
use muster_executor::trust::ferrvault::FerrVaultOptions;
use muster_executor::trust::gate::{Patience, Stage};
use muster_executor::trust::http::{Http, HttpOptions};
use muster_executor::trust::time::{Time, TokioTime};
use muster_executor::trust::{SecretData, SecretError, SecretReader, Surroundings, Upstreams};
use muster_executor::{BuildError, Built, CompileOptions, Compiled, ProviderKind, build, compile};
use muster_upstream::{Config, Upstream};
use rand::SeedableRng as _;
use rand::rngs::Xoshiro256PlusPlus;
use serde_json::{Value, json};

/// Client and tenant of the platform's workload identity.
pub const CLIENT: &str = "11111111-client";
pub const TENANT: &str = "22222222-tenant";
pub const CLUSTER: &str = "33333333-3333-3333-3333-333333333333";
pub const NAMESPACE: &str = "muster-system";

pub struct World {
    pub upstream: Arc<Upstream>,
    pub upstreams: Upstreams,
    pub secrets: Arc<Secrets>,
    pub patience: Arc<Remembering>,
    pub tokens: tempfile::TempDir,
}

/// Secrets in memory, by name and key.
#[derive(Default)]
pub struct Secrets {
    pub held: Mutex<BTreeMap<String, BTreeMap<String, Vec<u8>>>>,
    pub error: Mutex<Option<SecretError>>,
}

/// Patience that remembers what it was told.
#[derive(Default)]
pub struct Remembering {
    pub told: Mutex<Vec<String>>,
    pub stages: Mutex<Vec<Stage>>,
}

/// How a world differs from the usual one.
pub struct Setup {
    pub config: Config,
    pub http: HttpOptions,
    pub deadline: Duration,
}

impl From<Config> for Setup {
    fn from(config: Config) -> Self {
        Self { config, http: HttpOptions::default(), deadline: Duration::from_secs(10) }
    }
}

impl World {
    pub async fn start(setup: impl Into<Setup>) -> Self {
        let setup = setup.into();
        let speed = setup.config.scale;
        let upstream = Upstream::start(setup.config).await.unwrap();
        Self::around(upstream, &setup.http, setup.deadline, speed)
    }

    pub fn around(upstream: Upstream, http: &HttpOptions, deadline: Duration, speed: f64) -> Self {
        Self::beside(Arc::new(upstream), http, deadline, speed)
    }

    /// Another process with the same upstream, whose gates know nothing of each other.
    pub fn another(&self, speed: f64) -> Self {
        Self::beside(Arc::clone(&self.upstream), &HttpOptions::default(), Duration::from_secs(10), speed)
    }

    fn beside(upstream: Arc<Upstream>, http: &HttpOptions, deadline: Duration, speed: f64) -> Self {
        // Every test of the process may come first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let time = TokioTime::starting(now()).times(speed);
        let clock: Arc<dyn Time> = Arc::new(time);
        let (secrets, tokens) = (Arc::<Secrets>::default(), tempfile::tempdir().unwrap());
        std::fs::write(tokens.path().join("azure"), "eyJ.marker-of-the-azure-assertion\n").unwrap();
        std::fs::write(tokens.path().join("oidc"), "eyJ.marker-of-the-pod-token\n").unwrap();
        let surroundings = Surroundings {
            http: Http::new(http, Arc::clone(&clock)).unwrap().with_deadline(deadline),
            secrets: Arc::<Secrets>::clone(&secrets),
            azure: AzureOptions {
                authority: upstream.url().parse().unwrap(),
                tenant_id: TENANT.into(),
                client_id: CLIENT.into(),
                token_file: Some(tokens.path().join("azure")),
                machine: upstream.url().parse().unwrap(),
                vault_hosts: vec!["127.0.0.1".into(), "localhost".into()],
            },
            ferrvault: FerrVaultOptions { token_dirs: vec![tokens.path().into()], namespace: NAMESPACE.into() },
            time: clock,
        };
        let upstreams = Upstreams::new(surroundings, Xoshiro256PlusPlus::seed_from_u64(11));
        secrets.put("vault", "token", "fft_marker-of-the-user-token\n");
        Self { upstream, upstreams, secrets, patience: Arc::default(), tokens }
    }

    pub fn oidc_file(&self) -> PathBuf {
        self.tokens.path().join("oidc")
    }

    /// One build, as a replica does it.
    pub async fn build(&self, uid: &str, provider: &Value) -> Result<Built, BuildError> {
        self.build_in(uid, provider, Line::Urgent).await
    }

    pub async fn build_in(&self, uid: &str, provider: &Value, line: Line) -> Result<Built, BuildError> {
        let patience = Arc::<Remembering>::clone(&self.patience) as Arc<dyn Patience>;
        let (sources, visit) = self.upstreams.visit(uid.into(), line, patience);
        let result = build(&compiled(provider), &sources, now()).await;
        visit.end(result.is_ok());
        result
    }

    /// `reason: text` of a build that fails.
    pub async fn failure(&self, uid: &str, provider: &Value) -> String {
        match self.build(uid, provider).await {
            Ok(built) => panic!("was built, with {:?}", built.trust),
            Err(error) => format!("{}: {error}", error.reason()),
        }
    }

    /// FerrVault with the token of the Secret `vault`.
    pub fn ferrvault(&self, certs: &[&str]) -> Value {
        self.ferrvault_with(certs, &json!({"tokenSecretRef": {"name": "vault", "key": "token"}}))
    }

    /// FerrVault with the pod's token.
    pub fn ferrvault_oidc(&self, certs: &[&str]) -> Value {
        let oidc = json!({"clusterID": CLUSTER, "tokenPath": self.oidc_file()});
        self.ferrvault_with(certs, &json!({ "oidc": oidc }))
    }

    pub fn ferrvault_with(&self, certs: &[&str], token: &Value) -> Value {
        let mut parameters = json!({
            "url": self.upstream.url(), "organization": "org", "project": "p", "vault": "v", "certs": certs,
        });
        parameters.as_object_mut().unwrap().extend(token.as_object().unwrap().clone());
        json!({ "ferrvault": parameters })
    }

    pub fn azure(&self, certificates: &[&str]) -> Value {
        let items: Vec<Value> = certificates.iter().map(|name| json!({ "name": name })).collect();
        json!({"azurekeyvault": {"vaultURL": self.upstream.url(), "certificates": items}})
    }
}

impl Secrets {
    pub fn put(&self, name: &str, key: &str, value: &str) {
        self.held.lock().unwrap().entry(name.into()).or_default().insert(key.into(), value.into());
    }
}

impl SecretReader for Secrets {
    fn read<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<SecretData>, SecretError>> {
        let error = *self.error.lock().unwrap();
        let held = self.held.lock().unwrap().get(name).cloned();
        async move { error.map_or(Ok(held.map(|data| data.into_iter().collect())), Err) }.boxed()
    }
}

impl Patience for Remembering {
    fn enter(&self, stage: Stage) -> BoxFuture<'_, ()> {
        self.stages.lock().unwrap().push(stage);
        async {}.boxed()
    }

    fn waits(&self, why: BuildError) -> BoxFuture<'_, ()> {
        self.told.lock().unwrap().push(format!("{}: {why}", why.reason()));
        async {}.boxed()
    }
}

/// Wall time of the tests: certificates made now are valid, and dates of the upstream are about now.
pub fn now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "compared with certificates and dates made a moment ago")]
    Timestamp::now()
}

/// A spec whose one notation verifier trusts what this provider loads.
pub fn compiled(provider: &Value) -> Compiled {
    let parameters = json!({ "certificates": [provider] });
    let spec: ExecutorSpec = serde_json::from_value(json!({
        "scopes": ["registry.example"],
        "verifiers": [{"name": "v", "type": "notation", "parameters": parameters}],
        "stores": [{"type": "registry-store", "parameters": {"credential": {"provider": "static"}}}],
    }))
    .unwrap();
    compile(&spec, &options()).unwrap()
}

/// The same for cosign and keys.
pub fn compiled_keys(provider: &Value) -> Compiled {
    let policy = json!({"keys": provider, "ignoreTLog": true});
    let spec: ExecutorSpec = serde_json::from_value(json!({
        "scopes": ["registry.example"],
        "verifiers": [{"name": "v", "type": "cosign", "parameters": {"trustPolicies": [policy]}}],
        "stores": [{"type": "registry-store", "parameters": {"credential": {"provider": "static"}}}],
    }))
    .unwrap();
    compile(&spec, &options()).unwrap()
}

fn options() -> CompileOptions {
    let providers = [ProviderKind::AzureKeyVault, ProviderKind::FerrVault, ProviderKind::KubernetesSecret];
    CompileOptions { providers: BTreeSet::from(providers), ..CompileOptions::default() }
}

/// A certificate authority in PEM.
pub fn authority(name: &str) -> String {
    muster_upstream::authority_pem(name).unwrap()
}

/// Subjects of all that is trusted, in order.
pub fn subjects(built: &Built) -> Vec<String> {
    let certificates = built.trust.iter().flat_map(|set| &set.items).filter_map(|item| item.material.as_certificate());
    certificates.map(|certificate| certificate.subject().to_owned()).collect()
}
