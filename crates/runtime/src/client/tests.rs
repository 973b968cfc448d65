//! The client against a fake server behind the same layer, and against real sockets that misbehave.

use std::sync::Mutex;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, WatchParams};
use muster_core::retry::Retry;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::fake::{FakeApi, Fault, options, plain};
use crate::kube_error::classify;

const BUSY: &str = "Too many requests, please try again later.";

fn config_maps(client: Client) -> Api<ConfigMap> {
    Api::namespaced(client, "a")
}

fn retry<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> Retry {
    classify(&result.map(|_| ()).unwrap_err()).retry
}

#[tokio::test(start_paused = true)]
async fn c33_a_plain_text_429_reaches_the_caller_with_its_wait() {
    let server = FakeApi::new();
    let api = config_maps(server.client(&Clock::system()));
    server.spoil(|_| Some(Fault::Answer(plain(429, Some("2"), BUSY))));
    let wait = Retry::Throttled { retry_after: Some(Duration::from_secs(2)) };
    assert_eq!(retry(api.get("x").await), wait);
    assert_eq!(retry(api.list(&ListParams::default()).await), wait);
    assert_eq!(retry(api.watch(&WatchParams::default(), "0").await.map(|_| ())), wait);

    server.spoil(|_| Some(Fault::Answer(plain(429, None, BUSY))));
    assert_eq!(retry(api.get("x").await), Retry::Throttled { retry_after: None });
}

#[tokio::test(start_paused = true)]
async fn each_call_is_sent_once() {
    let server = FakeApi::new();
    let api = config_maps(server.client(&Clock::system()));
    server.spoil(|_| Some(Fault::Answer(plain(503, None, "starting"))));
    assert_eq!(retry(api.get("x").await), Retry::ServerError);
    assert_eq!(server.seen().len(), 1, "kube's own retry would have sent it again");
}

#[tokio::test(start_paused = true)]
async fn the_server_is_asked_to_answer_before_we_give_up() {
    let server = FakeApi::new();
    let api = config_maps(server.client(&Clock::system()));
    let _ = api.get("x").await;
    api.list(&ListParams::default().labels("a=b")).await.unwrap();
    let _ = api.watch(&WatchParams::default().timeout(50), "100").await;
    let seen = server.seen();
    assert_eq!(seen[0].query("timeout").as_deref(), Some("9s"));
    assert_eq!(seen[1].query("timeout").as_deref(), Some("29s"));
    assert_eq!(seen[1].query("labelSelector").as_deref(), Some("a=b"));
    assert_eq!((seen[2].query("timeout"), seen[2].query("timeoutSeconds").as_deref()), (None, Some("50")));
}

#[tokio::test(start_paused = true)]
async fn c49_no_answer_is_a_timeout_of_ours_and_counted() {
    let server = FakeApi::new();
    let clock = Clock::system();
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let log = outcomes.clone();
    let options = options(&clock).observed(move |call, answer, took| {
        log.lock().unwrap().push((call.to_string(), answer.label(), took.as_secs()));
    });
    let api = config_maps(server.client_of("", options));

    server.spoil(|_| Some(Fault::Hang));
    assert_eq!(retry(api.get("x").await), Retry::Timeout);
    assert_eq!(retry(api.list(&ListParams::default()).await), Retry::Timeout);
    server.mend();
    assert_eq!(retry(api.get("x").await), Retry::NotFound);
    let outcomes = outcomes.lock().unwrap().clone();
    let expected =
        [("get configmaps", "timeout", 10), ("list configmaps", "timeout", 30), ("get configmaps", "404", 0)];
    assert_eq!(outcomes, expected.map(|(call, answer, took)| (call.to_owned(), answer.to_owned(), took)));
}

/// A server that does `act` with each connection, and how many there were.
async fn server<F, Fut>(act: F) -> (Config, Arc<std::sync::atomic::AtomicUsize>)
where
    F: Fn(TcpStream) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let connections = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = connections.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            tokio::spawn(act(stream));
        }
    });
    (Config::new(url.parse().unwrap()), connections)
}

const SOON: Duration = Duration::from_secs(5);

fn quick(config: &Config) -> Client {
    let deadlines = Deadlines { single: Duration::from_millis(300), list: Duration::from_millis(300) };
    build(config, Options::with(deadlines, Clock::system())).unwrap()
}

async fn read_request(stream: &mut TcpStream) -> bool {
    let (mut request, mut buffer) = (Vec::new(), [0; 4_096]);
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return false,
            Ok(read) => request.extend_from_slice(&buffer[..read]),
        }
    }
    true
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what).await.expect("a deadline holds")
}

#[tokio::test]
async fn a_server_that_accepts_and_says_nothing_does_not_hang_a_call() {
    let (config, _) = server(|mut stream| async move { while read_request(&mut stream).await {} }).await;
    assert_eq!(retry(within(config_maps(quick(&config)).get("x")).await), Retry::Timeout);
}

#[tokio::test]
async fn an_answer_that_stops_half_way_does_not_hang_a_call() {
    let (config, _) = server(|mut stream| async move {
        read_request(&mut stream).await;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9000\r\n\r\n{\"kind\":";
        stream.write_all(head.as_bytes()).await.unwrap();
        while read_request(&mut stream).await {}
    })
    .await;
    assert_eq!(retry(within(config_maps(quick(&config)).get("x")).await), Retry::Timeout);
}

#[tokio::test]
async fn a_closed_port_and_a_cut_connection_are_unreachable() {
    let (config, _) = server(|mut stream| async move {
        read_request(&mut stream).await;
    })
    .await;
    assert_eq!(retry(within(config_maps(quick(&config)).get("x")).await), Retry::Unreachable);

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let api = config_maps(quick(&Config::new(url.parse().unwrap())));
    let verdict = classify(&within(api.get("x")).await.unwrap_err());
    assert_eq!((verdict.retry, verdict.sentence.as_str()), (Retry::Unreachable, "the API server refuses connections"));
}

async fn keep_alive(mut stream: TcpStream) {
    while read_request(&mut stream).await {
        let answer = "HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}";
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn a_connection_is_kept_for_the_next_call_but_not_for_long() {
    let (config, connections) = server(keep_alive).await;
    let count = move || connections.load(std::sync::atomic::Ordering::SeqCst);
    let api = config_maps(quick(&config));
    for _ in 0..5 {
        let _ = within(api.get("x")).await;
    }
    assert_eq!(count(), 1);

    let (config, connections) = server(keep_alive).await;
    let options = Options::with(Deadlines { single: SOON, list: SOON }, Clock::system());
    assert_eq!(options.pool_idle, Duration::from_secs(15));
    let api = config_maps(build(&config, Options { pool_idle: Duration::from_millis(20), ..options }).unwrap());
    within(async {
        while connections.load(std::sync::atomic::Ordering::SeqCst) < 2 {
            let _ = api.get("x").await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_kubeconfig_that_is_not_there_is_named() {
    use clap::Parser as _;
    #[derive(clap::Parser)]
    struct Flags {
        #[command(flatten)]
        client: ClientArgs,
    }
    let flags = Flags::parse_from(["muster", "--kubeconfig", "/nowhere/kubeconfig"]);
    let error = connect(&flags.client, Options::new(&flags.client, Clock::system())).await.map(|_| ()).unwrap_err();
    assert_eq!(
        (error.category(), error.to_string().as_str()),
        ("Kubeconfig", "cannot use kubeconfig /nowhere/kubeconfig")
    );
}

#[test]
fn field_managers_fit_the_limit_of_128_bytes() {
    assert!(aggregator_manager(&"n".repeat(63)).len() <= 128);
    assert!(RECONCILER_MANAGER.len() <= 128);
}
