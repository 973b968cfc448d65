//! The upstream over real HTTP and HTTPS, as a client meets it.
#![expect(clippy::unwrap_used, reason = "a test's helpers fail as its tests do")]

use std::time::Duration;

use muster_upstream::{
    Behaviour, Config, Fault, Limit, Outcome, Prolong, Proxy, RetryAfter, Rule, Upstream, azure, ferrvault,
};
use reqwest::{Client, Response};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(20);

fn client() -> Client {
    // Both tests of a process may come first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy().timeout(DEADLINE).build().unwrap()
}

fn behaviour() -> Behaviour {
    let mut behaviour = Behaviour::default();
    behaviour.azure.secrets.insert("ca".into(), azure::Secret::pem("-----BEGIN CERTIFICATE-----"));
    behaviour.azure.keys.insert("k".into(), json!({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}).into());
    behaviour.ferrvault = ferrvault::Content::default().with("p/v", "ca", "value of ca").with("p/v", "a,b", "comma");
    behaviour
}

async fn reveal(client: &Client, upstream: &Upstream, token: &str, names: &str) -> Response {
    let url = format!("{}/api/v1/orgs/o/projects/p/vaults/by-name/v/secrets/reveal?names={names}", upstream.url());
    client.get(url).bearer_auth(token).header("x-ferrflow-namespace", "muster-system").send().await.unwrap()
}

async fn body(response: Response) -> Value {
    serde_json::from_slice(&response.bytes().await.unwrap()).unwrap()
}

#[tokio::test]
async fn azure_asks_for_a_token_issues_one_and_answers_secrets_and_keys() {
    let (upstream, client) = (Upstream::start(behaviour()).await.unwrap(), client());
    let get = async |path: &str, token: &str| {
        client.get(format!("{}{path}", upstream.url())).bearer_auth(token).send().await.unwrap()
    };
    assert_eq!(get("/secrets/ca?api-version=7.4", "made-up").await.status(), 401);

    let form = [
        ("grant_type", "client_credentials"),
        ("client_id", "client-1"),
        ("scope", "https://vault.azure.net/.default"),
        ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
        ("client_assertion", "eyJhbGciOi.the-assertion"),
    ];
    let token_url = format!("{}/tenant-1/oauth2/v2.0/token", upstream.url());
    let issued = body(client.post(&token_url).form(&form).send().await.unwrap()).await;
    let token = issued["access_token"].as_str().unwrap();
    assert_eq!(issued["expires_in"], 3_600);

    let secret = body(get("/secrets/ca?api-version=7.4", token).await).await;
    assert_eq!(
        (&secret["value"], &secret["contentType"]),
        (&json!("-----BEGIN CERTIFICATE-----"), &json!("application/x-pem-file"))
    );
    assert_eq!(body(get("/keys/k?api-version=7.4", token).await).await["key"]["crv"], "P-256");
    let missing = get("/secrets/other?api-version=7.4", token).await;
    assert_eq!(missing.status(), 404);
    assert_eq!(body(missing).await["error"]["code"], "SecretNotFound");
    assert_eq!(get("/secrets/ca/another-version?api-version=7.4", token).await.status(), 404);
    assert_eq!(get("/secrets/ca", token).await.status(), 400);

    assert_eq!(upstream.count("client-1").admitted, 5, "renewed tokens of one client count as one");
    assert!(upstream.log().iter().any(|entry| entry.holds("eyJhbGciOi.the-assertion")));
    upstream.expire_tokens();
    assert_eq!(get("/secrets/ca?api-version=7.4", token).await.status(), 401);
    assert_eq!(client.post(&token_url).form(&form[..4]).send().await.unwrap().status(), 401);
    assert_eq!(client.post(&token_url).form(&form[1..]).send().await.unwrap().status(), 400);
}

#[tokio::test]
async fn a_managed_identity_needs_its_header() {
    let (upstream, client) = (Upstream::start(behaviour()).await.unwrap(), client());
    let url = format!("{}/metadata/identity/oauth2/token?api-version=2018-02-01&resource=x", upstream.url());
    assert_eq!(client.get(&url).send().await.unwrap().status(), 400);
    let issued = body(client.get(&url).header("metadata", "true").send().await.unwrap()).await;
    assert_eq!(issued["expires_in"], "3600");
}

#[tokio::test]
async fn ferrvault_exchanges_reveals_and_names_what_is_missing() {
    let (upstream, client) = (Upstream::start(behaviour()).await.unwrap(), client());
    let url = format!("{}/api/v1/clusters/oidc-exchange", upstream.url());
    let exchange = json!({"cluster_id": "c1", "token": "eyJ.sa"}).to_string();
    let issued = body(client.post(&url).body(exchange).send().await.unwrap()).await;
    let token = issued["access_token"].as_str().unwrap();
    assert!(token.starts_with("ffclust_"));
    let revealed = body(reveal(&client, &upstream, token, "ca,other").await).await;
    assert_eq!(revealed["secrets"], json!({"ca": "value of ca"}));
    assert_eq!(revealed["missing"], json!(["other"]));
    assert_eq!(upstream.count("c1").admitted, 1);

    let bare = format!("{}/api/v1/orgs/o/projects/p/vaults/by-name/v/secrets/reveal", upstream.url());
    assert_eq!(
        client.get(&bare).bearer_auth(token).send().await.unwrap().status(),
        400,
        "namespace header is mandatory"
    );
    assert_eq!(client.get(&bare).bearer_auth("fft_user").send().await.unwrap().status(), 200);
    assert_eq!(client.get(&bare).send().await.unwrap().status(), 401);
    upstream.change(|behaviour| behaviour.refused = vec!["fft_user".into()]);
    assert_eq!(client.get(&bare).bearer_auth("fft_user").send().await.unwrap().status(), 401);
    assert_eq!(client.get(format!("{}/health", upstream.url())).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn each_token_has_a_limit_of_its_own_and_refusals_announce_as_told() {
    let mut behaviour = behaviour();
    let announce = |retry_after| Limit::Bucket { rate: 0.001, burst: 1.0, charged: false, retry_after };
    behaviour.limit = announce(RetryAfter::None);
    behaviour.limits.insert("fft_s".into(), announce(RetryAfter::Seconds));
    behaviour.limits.insert("fft_d".into(), announce(RetryAfter::Date));
    behaviour.limits.insert("fft_r".into(), announce(RetryAfter::Raw(vec!["soon".into(), "-5".into()])));
    let window =
        Limit::Window { rate: 0.001, burst: 1.0, seconds: 10.0, prolong: Prolong::Add, retry_after: RetryAfter::None };
    behaviour.limits.insert("fft_w".into(), window);
    let (upstream, client) = (Upstream::start(behaviour).await.unwrap(), client());
    for (token, status) in [("fft_n", 429), ("fft_s", 429), ("fft_d", 429), ("fft_r", 429), ("fft_w", 403)] {
        assert_eq!(reveal(&client, &upstream, token, "").await.status(), 200, "{token}");
        let refused = reveal(&client, &upstream, token, "").await;
        assert_eq!(refused.status(), status, "{token}");
        let values: Vec<&str> =
            refused.headers().get_all("retry-after").iter().map(|value| value.to_str().unwrap()).collect();
        match token {
            "fft_s" => assert_eq!(values, ["1000"]),
            "fft_d" => assert!(values.len() == 1 && httpdate::parse_http_date(values[0]).is_ok(), "{values:?}"),
            "fft_r" => assert_eq!(values, ["soon", "-5"]),
            _ => assert!(values.is_empty(), "{values:?}"),
        }
        assert!(body(refused).await["error"].as_str().unwrap().contains("throttled"));
        let counts = upstream.count(token);
        assert_eq!((counts.sent, counts.admitted, counts.refused), (2, 1, 1));
        assert_eq!(upstream.per_second(token).values().sum::<u64>(), 2);
    }
}

#[tokio::test]
async fn time_runs_as_fast_as_told() {
    let mut behaviour = behaviour();
    behaviour.limit = Limit::bucket(1.0, 1.0, false);
    behaviour.latency = 0.5;
    let upstream = Upstream::start(Config { scale: 200.0, ..behaviour.into() }).await.unwrap();
    let client = client();
    for _ in 0..20 {
        reveal(&client, &upstream, "fft_x", "").await;
    }
    let before = upstream.now();
    // A refill of one token a second is one in 5 ms of real time.
    while reveal(&client, &upstream, "fft_x", "").await.status() != 200 {
        assert!(upstream.now().saturating_sub(before) < Duration::from_mins(10));
    }
    assert!(upstream.now() > Duration::from_secs(10), "21 calls of half a second each");
}

#[tokio::test]
async fn every_fault_looks_as_it_should() {
    let (upstream, client) = (Upstream::start(behaviour()).await.unwrap(), client());
    let with = async |fault: Fault| {
        upstream.change(|behaviour| behaviour.rules = vec![Rule { times: Some(1), ..Rule::on("reveal", fault) }]);
        let url = format!("{}/api/v1/orgs/o/projects/p/vaults/by-name/v/secrets/reveal?names=ca", upstream.url());
        client.get(url).bearer_auth("fft_x").timeout(Duration::from_secs(3)).send().await
    };
    let failed = with(Fault::Status { code: 503, retry_after: Some("7".into()) }).await.unwrap();
    assert_eq!((failed.status().as_u16(), failed.headers()["retry-after"].to_str().unwrap()), (503, "7"));
    assert!(with(Fault::Close).await.is_err());
    assert!(with(Fault::Hang).await.unwrap_err().is_timeout());
    assert!(with(Fault::Cut).await.unwrap().bytes().await.is_err());
    assert!(with(Fault::Drip).await.unwrap().bytes().await.unwrap_err().is_timeout());
    assert!(str::from_utf8(&with(Fault::Junk).await.unwrap().bytes().await.unwrap()).is_err());
    let page = with(Fault::Html).await.unwrap();
    assert_eq!((page.status().as_u16(), page.headers()["content-type"].to_str().unwrap()), (200, "text/html"));
    assert_eq!(with(Fault::Huge(10 << 20)).await.unwrap().bytes().await.unwrap().len(), 10 << 20);
    assert_eq!(body(with(Fault::TruncatedValue).await.unwrap()).await["secrets"]["ca"], "value");
    assert_eq!(body(reveal(&client, &upstream, "fft_x", "ca").await).await["secrets"]["ca"], "value of ca");
    assert_eq!(upstream.log().iter().filter(|entry| entry.outcome == Outcome::Faulted).count(), 9);
}

#[tokio::test]
async fn https_is_served_by_a_private_authority_and_reached_through_a_proxy() {
    let config = Config::from(behaviour()).with_https();
    let (upstream, proxy) = (Upstream::start(config).await.unwrap(), Proxy::start().await.unwrap());
    let url = format!("{}/health", upstream.https_url().unwrap());
    assert!(client().get(&url).send().await.is_err(), "nobody trusts this authority yet");

    let authority = reqwest::Certificate::from_pem(upstream.ca_pem().unwrap().as_bytes()).unwrap();
    let builder = Client::builder().timeout(DEADLINE).tls_certs_only([authority]);
    let trusting = builder.proxy(reqwest::Proxy::https(proxy.url()).unwrap()).build().unwrap();
    assert_eq!(trusting.get(&url).send().await.unwrap().status(), 200);
    assert_eq!(proxy.targets(), [url.trim_start_matches("https://").trim_end_matches("/health")]);
}

#[tokio::test]
async fn it_is_controlled_over_http_and_bad_orders_change_nothing() {
    let (upstream, client) = (Upstream::start(behaviour()).await.unwrap(), client());
    let control = format!("{}/_control", upstream.url());
    let post = async |order: Value| client.post(&control).body(order.to_string()).send().await.unwrap();

    let answer = post(json!({"limit": {"kind": "bucket", "rate": 0.001, "burst": 2}})).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(post(json!({"limit": {"kind": "nonsense"}})).await.status(), 400);
    assert_eq!(post(json!({"lattency": 3})).await.status(), 400);
    for status in [200, 200, 429] {
        assert_eq!(reveal(&client, &upstream, "fft_x", "").await.status(), status);
    }
    let seen = body(client.get(&control).send().await.unwrap()).await;
    assert_eq!(seen["counts"]["fft_x"], json!({"sent": 3, "admitted": 2, "refused": 1, "faulted": 0}));
    assert_eq!(seen["behaviour"]["limit"]["burst"], 2.0);
    let log = body(client.get(format!("{control}/log")).send().await.unwrap()).await;
    assert_eq!(log[2]["headers"]["authorization"], "Bearer fft_x");
    client.post(format!("{control}/forget")).send().await.unwrap();
    assert!(upstream.log().is_empty(), "control calls are not logged");
    assert!(upstream.wait_for(Duration::ZERO, <[_]>::is_empty).await);
}
