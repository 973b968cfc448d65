//! The way to an upstream: private certificate authorities, proxies, nobody there.

use std::time::Duration;

use muster_executor::trust::http::HttpOptions;
use muster_upstream::ferrvault::Content;
use muster_upstream::{Behaviour, Config, Proxy, Upstream};
use serde_json::{Value, json};

use crate::world::{World, authority};

const DEADLINE: Duration = Duration::from_secs(10);

async fn https() -> Upstream {
    let ferrvault = Content::default().with("p/v", "ca", authority("One"));
    Upstream::start(Config::from(Behaviour { ferrvault, ..Behaviour::default() }).with_https()).await.unwrap()
}

fn provider(world: &World) -> Value {
    let mut provider = world.ferrvault(&["ca"]);
    provider["ferrvault"]["url"] = json!(world.upstream.https_url().unwrap());
    provider
}

fn trusting(upstream: &Upstream) -> HttpOptions {
    HttpOptions { authorities: upstream.ca_pem().map(Into::into), ..HttpOptions::default() }
}

#[tokio::test]
async fn a_private_authority_is_trusted_if_told_and_only_then() {
    let world = World::around(https().await, &HttpOptions::default(), DEADLINE, 1.0);
    let failure = world.failure("x", &provider(&world)).await;
    assert_eq!(
        failure,
        "Unreachable: spec.verifiers[0].parameters.certificates[0].ferrvault: localhost does not answer"
    );
    assert!(world.upstream.log().is_empty());

    let upstream = https().await;
    let options = trusting(&upstream);
    let world = World::around(upstream, &options, DEADLINE, 1.0);
    world.build("x", &provider(&world)).await.unwrap();
}

#[tokio::test]
async fn https_goes_through_the_proxy_and_past_it_where_told() {
    let proxy = Proxy::start().await.unwrap();
    for (no_proxy, tunnels) in [(None, 1), (Some("localhost,example.org"), 1), (Some("example.org"), 2)] {
        let upstream = https().await;
        let options = HttpOptions {
            https_proxy: Some(proxy.url()),
            no_proxy: no_proxy.map(str::to_owned),
            ..trusting(&upstream)
        };
        let world = World::around(upstream, &options, DEADLINE, 1.0);
        world.build("x", &provider(&world)).await.unwrap();
        assert_eq!(proxy.targets().len(), tunnels, "{no_proxy:?}");
    }
    assert!(proxy.targets()[0].starts_with("localhost:"), "{:?}", proxy.targets());
}

#[tokio::test]
async fn nobody_there_is_told_without_the_port() {
    let world = World::start(Config::default()).await;
    let mut provider = world.ferrvault(&["ca"]);
    // A port that was free a moment ago, and that nobody listens on now.
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    provider["ferrvault"]["url"] = json!(format!("http://127.0.0.1:{port}"));
    let failure = world.failure("x", &provider).await;
    assert_eq!(
        failure,
        "Unreachable: spec.verifiers[0].parameters.certificates[0].ferrvault: 127.0.0.1 does not answer"
    );
}
