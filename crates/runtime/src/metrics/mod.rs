//! Metrics as data first: an instrument can only be made from an entry of the catalogue, and its labels are given in the
//! catalogue's order and number, so the documentation made from the catalogue cannot be wrong about the code.

mod catalogue;

use std::time::Duration;

use opentelemetry::metrics::Meter;
use opentelemetry::{KeyValue, metrics as otel};

pub use catalogue::*;

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Distribution over [`Metric::buckets`].
    Histogram,
}

/// Unit of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of things.
    Count,
    /// Seconds.
    Seconds,
}

/// One metric with `N` labels.
#[derive(Debug)]
pub struct Metric<const N: usize> {
    /// Name as Prometheus shows it.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Unit of the values.
    pub unit: Unit,
    /// Its labels; their values come from closed lists, never from an object's or pod's name.
    pub labels: [&'static str; N],
    /// Upper bounds of a histogram's buckets.
    pub buckets: &'static [f64],
    /// What it tells.
    pub help: &'static str,
}

/// A [`Metric`] without its number of labels: a line of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// Name as Prometheus shows it.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Unit of the values.
    pub unit: Unit,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// Upper bounds of a histogram's buckets.
    pub buckets: &'static [f64],
    /// What it tells.
    pub help: &'static str,
}

/// Makes instruments. Clones are the same meter; the default one records nothing.
#[derive(Clone, Debug)]
pub struct Meters(Meter);

/// A counter with `N` labels.
#[derive(Clone, Debug)]
pub struct Counter<const N: usize> {
    inner: otel::Counter<u64>,
    labels: [&'static str; N],
}

/// A gauge with `N` labels.
#[derive(Clone, Debug)]
pub struct Gauge<const N: usize> {
    inner: otel::Gauge<f64>,
    labels: [&'static str; N],
}

/// A histogram with `N` labels.
#[derive(Clone, Debug)]
pub struct Histogram<const N: usize> {
    inner: otel::Histogram<f64>,
    labels: [&'static str; N],
}

/// Takes the values of an observed metric at the time of a scrape.
pub struct Observation<'a, const N: usize> {
    observe: &'a dyn Fn(f64, &[KeyValue]),
    labels: [&'static str; N],
}

impl<const N: usize> Metric<N> {
    /// The line of the catalogue.
    pub const fn entry(&'static self) -> Entry {
        Entry {
            name: self.name,
            kind: self.kind,
            unit: self.unit,
            labels: &self.labels,
            buckets: self.buckets,
            help: self.help,
        }
    }
}

impl Entry {
    /// Name of the OpenTelemetry instrument: the exporter adds `_total` and the unit.
    pub fn instrument(&self) -> &'static str {
        let name = self.name.strip_suffix("_total").unwrap_or(self.name);
        match self.unit {
            Unit::Seconds => name.strip_suffix("_seconds").unwrap_or(name),
            Unit::Count => name,
        }
    }
}

impl Unit {
    /// The unit's UCUM code, as OpenTelemetry wants it; none for counts, or it would become part of the name.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Count => "",
            Self::Seconds => "s",
        }
    }
}

impl Default for Meters {
    fn default() -> Self {
        use opentelemetry::metrics::MeterProvider as _;
        Self(otel::noop::NoopMeterProvider::new().meter("muster"))
    }
}

impl From<Meter> for Meters {
    fn from(meter: Meter) -> Self {
        Self(meter)
    }
}

impl Meters {
    /// The counter of this entry.
    pub fn counter<const N: usize>(&self, metric: &'static Metric<N>) -> Counter<N> {
        let entry = metric.entry();
        let builder = self.0.u64_counter(entry.instrument()).with_unit(entry.unit.code());
        Counter { inner: builder.with_description(entry.help).build(), labels: metric.labels }
    }

    /// The gauge of this entry.
    pub fn gauge<const N: usize>(&self, metric: &'static Metric<N>) -> Gauge<N> {
        let entry = metric.entry();
        let builder = self.0.f64_gauge(entry.instrument()).with_unit(entry.unit.code());
        Gauge { inner: builder.with_description(entry.help).build(), labels: metric.labels }
    }

    /// The histogram of this entry.
    pub fn histogram<const N: usize>(&self, metric: &'static Metric<N>) -> Histogram<N> {
        let entry = metric.entry();
        let builder = self.0.f64_histogram(entry.instrument()).with_unit(entry.unit.code());
        let builder = builder.with_description(entry.help).with_boundaries(entry.buckets.to_vec());
        Histogram { inner: builder.build(), labels: metric.labels }
    }

    /// Observes a counter or gauge whose values already exist somewhere; `read` is called at each scrape or push.
    pub fn observe<const N: usize>(
        &self,
        metric: &'static Metric<N>,
        read: impl Fn(&Observation<'_, N>) + Send + Sync + 'static,
    ) {
        let (entry, labels) = (metric.entry(), metric.labels);
        match entry.kind {
            Kind::Counter => {
                let builder = self.0.f64_observable_counter(entry.instrument()).with_unit(entry.unit.code());
                let _registered = builder
                    .with_description(entry.help)
                    .with_callback(move |observer| {
                        let observe = |value, labels: &[KeyValue]| observer.observe(value, labels);
                        read(&Observation { observe: &observe, labels });
                    })
                    .build();
            }
            Kind::Gauge | Kind::Histogram => {
                let builder = self.0.f64_observable_gauge(entry.instrument()).with_unit(entry.unit.code());
                let _registered = builder
                    .with_description(entry.help)
                    .with_callback(move |observer| {
                        let observe = |value, labels: &[KeyValue]| observer.observe(value, labels);
                        read(&Observation { observe: &observe, labels });
                    })
                    .build();
            }
        }
    }
}

impl<const N: usize> Counter<N> {
    /// A scrape sees it at zero with these values of the labels before anything was counted: `rate` and `increase` do not
    /// see the first step of a series that was not there, and that may be the only one.
    #[must_use]
    pub fn from_zero(self, values: impl IntoIterator<Item = [&'static str; N]>) -> Self {
        for values in values {
            self.add(0, values);
        }
        self
    }

    /// Counts one, with the values of the labels in the catalogue's order.
    pub fn one(&self, values: [&str; N]) {
        self.add(1, values);
    }

    /// Counts `count`.
    pub fn add(&self, count: u64, values: [&str; N]) {
        self.inner.add(count, &attributes(self.labels, values));
    }
}

impl<const N: usize> Gauge<N> {
    /// Sets the value.
    pub fn set(&self, value: f64, values: [&str; N]) {
        self.inner.record(value, &attributes(self.labels, values));
    }
}

impl<const N: usize> Histogram<N> {
    /// Records one duration, in seconds.
    pub fn took(&self, duration: Duration, values: [&str; N]) {
        self.record(duration.as_secs_f64(), values);
    }

    /// Records one value.
    pub fn record(&self, value: f64, values: [&str; N]) {
        self.inner.record(value, &attributes(self.labels, values));
    }
}

impl<const N: usize> Observation<'_, N> {
    /// Tells one value.
    pub fn tell(&self, value: f64, values: [&str; N]) {
        (self.observe)(value, &attributes(self.labels, values));
    }
}

fn attributes<const N: usize>(labels: [&'static str; N], values: [&str; N]) -> [KeyValue; N] {
    std::array::from_fn(|index| KeyValue::new(labels[index], values[index].to_owned()))
}

#[cfg(test)]
mod tests;
