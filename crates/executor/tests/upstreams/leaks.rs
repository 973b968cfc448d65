//! Secrets never leave: planted markers, everything logged at TRACE, and the upstream's own log as proof that each of
//! them was really sent.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_executor::trust::http::HttpOptions;
use muster_upstream::azure::Secret;
use muster_upstream::ferrvault::Content;
use muster_upstream::{Behaviour, Config, Fault, Rule, Upstream};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::world::{World, authority};

/// All that is logged, in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Everything is logged here from now on, by this thread, which all tasks of a test run on. Records of libraries that
    /// log without spans come in too.
    fn listen(&self) -> DefaultGuard {
        let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
        subscriber.with_writer(self.clone()).finish().set_default()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// What must be seen nowhere: what is shown to upstreams, and what vaults hand out beside certificates.
const SENT: [&str; 3] =
    ["fft_marker-of-the-user-token", "eyJ.marker-of-the-pod-token", "eyJ.marker-of-the-azure-assertion"];
const RECEIVED: &str = "marker-of-a-private-key";

#[tokio::test]
async fn secrets_are_sent_and_shown_nowhere_else() {
    let log = Log::default();
    let _default = log.listen();

    let private = format!("-----BEGIN PRIVATE KEY-----\n{RECEIVED}\n-----END PRIVATE KEY-----\n");
    let ferrvault = Content::default().with("p/v", "ca", authority("One")).with("p/v", "bad", RECEIVED);
    let mut behaviour = Behaviour { ferrvault, ..Behaviour::default() };
    behaviour.azure.secrets.insert("ca".into(), Secret::pem(format!("{private}{}", authority("One"))));
    behaviour.azure.secrets.insert("bad".into(), Secret { content_type: None, ..Secret::pem(RECEIVED) });
    let upstream = Upstream::start(Config::from(behaviour).with_https()).await.unwrap();
    let http = HttpOptions { authorities: upstream.ca_pem().map(Into::into), ..HttpOptions::default() };
    let world = World::around(upstream, &http, Duration::from_secs(10), 1.0);
    let mut over_tls = world.ferrvault(&["ca"]);
    over_tls["ferrvault"]["url"] = world.upstream.https_url().into();

    let providers = [
        over_tls,
        world.ferrvault(&["ca"]),
        world.ferrvault_oidc(&["ca"]),
        world.ferrvault(&["ca", "bad"]),
        world.azure(&["ca"]),
        world.azure(&["ca", "bad"]),
        world.ferrvault(&["bad"]),
        world.azure(&["bad"]),
    ];
    let mut shown = Vec::new();
    let faults = [
        None,
        Some(Fault::Status { code: 500, retry_after: None }),
        Some(Fault::Status { code: 403, retry_after: None }),
        Some(Fault::Status { code: 401, retry_after: None }),
        Some(Fault::Html),
        Some(Fault::Cut),
        Some(Fault::TruncatedValue),
    ];
    for fault in faults {
        world
            .upstream
            .change(|behaviour| behaviour.rules = fault.into_iter().map(|fault| Rule::on("", fault)).collect());
        for (number, provider) in providers.iter().enumerate() {
            let result = world.build(&format!("x{number}"), provider).await;
            let text = result.as_ref().map_err(ToString::to_string);
            shown.push(format!("{result:?} {text:?}"));
            world.upstream.expire_tokens();
        }
    }
    let (gates, told) = (world.upstreams.gates().reports(), &world.patience.told);
    shown.push(format!("{:?} {gates:?} {told:?}", world.upstreams));
    let shown = shown.join("\n");
    let logged = log.text();
    for heard in ["upstream answered", "rustls", "hyper_util"] {
        assert!(logged.contains(heard), "the log does not hear {heard}");
    }

    let sent = world.upstream.log();
    for marker in SENT {
        assert!(sent.iter().any(|entry| entry.holds(marker)), "{marker} was sent");
    }
    let bearers: Vec<&str> = sent.iter().filter_map(|entry| entry.header("authorization")).collect();
    let issued: Vec<&str> = bearers.iter().filter_map(|bearer| bearer.strip_prefix("Bearer ")).collect();
    assert!(
        issued.iter().any(|token| token.starts_with("aad."))
            && issued.iter().any(|token| token.starts_with("ffclust_"))
    );
    for secret in SENT.into_iter().chain([RECEIVED]).chain(issued) {
        assert!(!logged.contains(secret), "{secret} was logged: {}", line_with(&logged, secret));
        assert!(!shown.contains(secret), "{secret} is shown: {}", line_with(&shown, secret));
    }
}

#[tokio::test]
async fn an_upstream_that_repeats_a_token_in_its_words_is_not_quoted_with_it() {
    let log = Log::default();
    let _default = log.listen();
    let world = World::start(Config::default()).await;
    let provider = world.ferrvault(&["ca"]);
    world.upstream.change(|behaviour| behaviour.rules = vec![Rule::on("", Fault::Echo(400))]);
    let failure = world.failure("x", &provider).await;
    let exchange = world.failure("x", &world.ferrvault_oidc(&["ca"])).await;
    let logged = log.text();
    assert!(logged.contains("[hidden]"), "{logged}");
    for text in [logged, failure, exchange] {
        assert!(!text.contains(SENT[0]) && !text.contains(SENT[1]), "{text}");
    }
}

fn line_with<'a>(text: &'a str, part: &str) -> &'a str {
    text.lines().find(|line| line.contains(part)).unwrap_or_default()
}
