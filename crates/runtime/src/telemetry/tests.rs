//! The scrape's resource, and OTLP to a collector that only writes down who called.

use opentelemetry::trace::Tracer as _;
use tokio::sync::mpsc;

use super::*;
use crate::metrics;

const COMPONENT: Component = Component { name: "muster-test", version: "1.2.3" };

fn args(endpoint: Option<String>) -> TelemetryArgs {
    TelemetryArgs {
        log_filter: "info".to_owned(),
        log_format: LogFormat::Text,
        otlp_endpoint: endpoint,
        otlp_traces_endpoint: None,
        otlp_metrics_endpoint: None,
    }
}

fn pod() -> PodArgs {
    PodArgs {
        pod_name: Some("muster-0".to_owned()),
        pod_namespace: Some("muster-system".to_owned()),
        pod_uid: Some("u-1".to_owned()),
        node_name: None,
    }
}

#[tokio::test]
async fn without_a_collector_only_prometheus_is_served() {
    let telemetry = Telemetry::new(&args(None), COMPONENT, &pod()).unwrap();
    assert!(telemetry.tracers().is_none());
    telemetry.meters().gauge(&metrics::LEADER).set(1.0, []);
    let text = prometheus::TextEncoder::new().encode_to_string(&telemetry.registry().gather()).unwrap();
    assert!(text.contains("\nmuster_leader 1\n"), "{text}");
    for part in ["service_name=\"muster-test\"", "service_version=\"1.2.3\"", "k8s_pod_uid=\"u-1\""] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("otel_scope") && !text.contains("k8s_node_name"), "{text}");
    telemetry.flush().await;
}

#[tokio::test]
async fn a_filter_that_is_none_is_refused_by_name() {
    let args = TelemetryArgs { log_filter: "info,=,".to_owned(), ..args(None) };
    let error = init(&args, COMPONENT, &pod()).unwrap_err();
    assert_eq!((error.category(), error.to_string().as_str()), ("LogFilter", "--log-filter \"info,=,\" is not valid"));
}

/// A collector that answers every export with an empty message.
async fn collector() -> (String, mpsc::UnboundedReceiver<String>) {
    let (calls, called) = mpsc::unbounded_channel();
    let answer = move |request: axum::extract::Request| {
        // The receiver is dropped when its test is over.
        let _ = calls.send(request.uri().path().to_owned());
        async {
            let empty_message = axum::body::Body::from(vec![0_u8; 5]);
            ([("content-type", "application/grpc"), ("grpc-status", "0")], empty_message)
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let routes = tonic::service::Routes::from(axum::Router::new().fallback(answer));
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    tokio::spawn(tonic::transport::Server::builder().add_routes(routes).serve_with_incoming(incoming));
    (endpoint, called)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_collector_what_is_left_is_sent_at_the_end() {
    let (endpoint, mut called) = collector().await;
    let telemetry = Telemetry::new(&args(Some(endpoint)), COMPONENT, &pod()).unwrap();
    telemetry.meters().gauge(&metrics::LEADER).set(1.0, []);
    telemetry.tracers().unwrap().tracer("test").in_span("work", |_| ());
    telemetry.flush().await;

    let mut paths = std::collections::BTreeSet::new();
    while let Ok(path) = called.try_recv() {
        paths.insert(path);
    }
    let paths: Vec<String> = paths.into_iter().collect();
    let expected = ["metrics.v1.MetricsService", "trace.v1.TraceService"];
    assert_eq!(paths, expected.map(|service| format!("/opentelemetry.proto.collector.{service}/Export")));
}

#[tokio::test]
async fn a_collector_that_is_gone_does_not_hold_up_the_end() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let telemetry = Telemetry::new(&args(Some(endpoint)), COMPONENT, &pod()).unwrap();
    telemetry.meters().gauge(&metrics::LEADER).set(1.0, []);
    tokio::time::timeout(2 * FLUSH, telemetry.flush()).await.unwrap();
}
