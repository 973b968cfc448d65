//! The catalogue against what a scrape really shows.

use std::collections::BTreeSet;

use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::{Registry, TextEncoder};

use super::*;

fn scraped() -> (Registry, SdkMeterProvider) {
    let registry = Registry::new();
    let exporter =
        opentelemetry_prometheus::exporter().with_registry(registry.clone()).scope_info_enabled(false).build().unwrap();
    let provider = SdkMeterProvider::builder().with_reader(exporter).build();
    (registry, provider)
}

fn text(registry: &Registry) -> String {
    TextEncoder::new().encode_to_string(&registry.gather()).unwrap()
}

#[test]
fn every_metric_is_scraped_under_the_name_the_catalogue_gives() {
    let (registry, provider) = scraped();
    let meter = provider.meter("muster");
    for entry in CATALOGUE {
        let labels: Vec<KeyValue> = entry.labels.iter().map(|label| KeyValue::new(*label, "x")).collect();
        match entry.kind {
            Kind::Counter => {
                meter.u64_counter(entry.instrument()).with_unit(entry.unit.code()).build().add(1, &labels);
            }
            Kind::Gauge => {
                meter.f64_gauge(entry.instrument()).with_unit(entry.unit.code()).build().record(1.0, &labels);
            }
            Kind::Histogram => {
                meter.f64_histogram(entry.instrument()).with_unit(entry.unit.code()).build().record(1.0, &labels);
            }
        }
    }
    let seen: BTreeSet<String> =
        registry.gather().iter().map(|family| family.name().to_owned()).filter(|name| name != "target_info").collect();
    let promised: BTreeSet<String> = CATALOGUE.iter().map(|entry| entry.name.to_owned()).collect();
    assert_eq!(seen, promised);
}

#[test]
fn instruments_show_their_labels_help_and_buckets_and_no_scope() {
    let (registry, provider) = scraped();
    let meters = Meters::from(provider.meter("muster"));
    meters.counter(&RECONCILE).one(["executor", "success"]);
    meters.gauge(&LEADER).set(1.0, []);
    meters.histogram(&RECONCILE_TIME).took(Duration::from_millis(20), ["executor"]);
    meters.observe(&LOOP_STUCK, |seen| {
        seen.tell(3.5, ["build"]);
        seen.tell(0.0, ["report"]);
    });
    meters.observe(&LOOP_COMPLETED, |seen| seen.tell(12.0, ["build"]));
    let text = text(&registry);
    for line in [
        "# HELP muster_reconcile_total Runs by result: success or error.",
        "muster_reconcile_total{controller=\"executor\",result=\"success\"} 1",
        "muster_leader 1",
        "muster_reconcile_time_seconds_bucket{controller=\"executor\",le=\"0.025\"} 1",
        "muster_reconcile_time_seconds_bucket{controller=\"executor\",le=\"0.01\"} 0",
        "muster_loop_stuck_seconds{loop=\"build\"} 3.5",
        "muster_loop_completed_total{loop=\"build\"} 12",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    assert!(!text.contains("otel_scope"), "{text}");
}

#[test]
fn the_catalogue_keeps_its_own_rules() {
    let names: BTreeSet<&str> = CATALOGUE.iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), CATALOGUE.len(), "a name is used twice");
    for entry in CATALOGUE {
        assert!(entry.name.starts_with("muster_"), "{}", entry.name);
        assert_eq!(entry.name.ends_with("_total"), entry.kind == Kind::Counter, "{}", entry.name);
        assert_eq!(entry.name.ends_with("_seconds"), entry.unit == Unit::Seconds, "{}", entry.name);
        assert_eq!(entry.buckets.is_empty(), entry.kind != Kind::Histogram, "{}", entry.name);
        assert!(entry.help.ends_with('.'), "{}", entry.name);
        for label in entry.labels {
            assert!(!["pod", "name", "namespace", "object", "uid", "executor"].contains(label), "{}", entry.name);
        }
    }
}
