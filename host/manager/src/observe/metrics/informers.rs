//! [`InformerCollector`]: the figures of informers under client-go's names, read when a scrape comes.
//!
//! An informer's series go with it: what is shown are the informers that have leases.

use std::fmt;

use pilothouse_cache::{
    Histogram, InformerId, InformerMetrics, SharedInformerFactory, resource_version_gauge,
};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Informer {
    group: String,
    version: String,
    resource: String,
    /// Empty for all namespaces.
    namespace: String,
}

impl Informer {
    fn new(id: &InformerId) -> Self {
        Self {
            group: id.resource.group.clone(),
            version: id.resource.version.clone(),
            resource: id.resource.resource.clone(),
            namespace: id.namespace.clone().unwrap_or_default(),
        }
    }
}

/// A figure of an informer.
type Figure<T> = fn(&InformerMetrics) -> T;

/// How a figure is spread.
type Spread = fn(&InformerMetrics) -> &Histogram;

/// Without `_total`, which the encoder adds.
const COUNTERS: [(&str, &str, Figure<u64>); 7] = [
    ("reflector_lists", "Lists begun", |m| m.reflector_lists_total),
    ("reflector_watches", "Watches begun, streaming lists included", |m| m.reflector_watches_total),
    ("reflector_short_watches", "Watches that ended at once", |m| m.reflector_short_watches_total),
    ("pilothouse_reflector_list_failures", "Lists that failed", |m| m.reflector_list_failures_total),
    ("pilothouse_reflector_watch_failures", "Watches that failed", |m| m.reflector_watch_failures_total),
    ("pilothouse_reflector_events", "Events of watches", |m| m.reflector_items_watched_total),
    ("pilothouse_reflector_transform_errors", "Objects passed over", |m| m.reflector_transform_errors_total),
];

const GAUGES: [(&str, &str, Figure<i64>); 6] = [
    (
        "reflector_last_resource_version",
        "Version that the next watch goes on from, its last 15 digits",
        |m| resource_version_gauge(&m.reflector_last_resource_version),
    ),
    ("informer_store_resource_version", "Version that a store is complete to, its last 15 digits", |m| {
        resource_version_gauge(&m.informer_store_resource_version)
    }),
    ("informer_queued_items", "Deltas before a store", |m| int(m.informer_queued_items)),
    ("pilothouse_cache_objects", "Objects in a store", |m| int(m.objects)),
    ("pilothouse_informer_listeners", "Listeners of an informer", |m| int(m.listeners)),
    ("pilothouse_listener_depth", "Changes not dealt with yet", |m| int(m.listener_depth)),
];

const HISTOGRAMS: [(&str, &str, Spread); 5] = [
    ("reflector_list_duration_seconds", "Length of a list", |m| &m.reflector_list_duration_seconds),
    ("reflector_items_per_list", "Objects in a list", |m| &m.reflector_items_per_list),
    ("reflector_watch_duration_seconds", "Length of a watch", |m| &m.reflector_watch_duration_seconds),
    ("reflector_items_per_watch", "Events of a watch", |m| &m.reflector_items_per_watch),
    ("informer_processing_latency_seconds", "Time for a batch to reach store and listeners", |m| {
        &m.informer_processing_latency_seconds
    }),
];

fn int(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The informers of a factory.
pub(crate) struct InformerCollector(pub(crate) SharedInformerFactory);

impl fmt::Debug for InformerCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InformerCollector")
    }
}

impl Collector for InformerCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let informers: Vec<(Informer, InformerMetrics)> =
            self.0.metrics().into_iter().map(|(id, metrics)| (Informer::new(&id), metrics)).collect();
        for (name, help, value) in COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (labels, metrics) in &informers {
                ConstCounter::new(value(metrics)).encode(family.encode_family(labels)?)?;
            }
        }
        for (name, help, value) in GAUGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (labels, metrics) in &informers {
                ConstGauge::new(value(metrics)).encode(family.encode_family(labels)?)?;
            }
        }
        for (name, help, value) in HISTOGRAMS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
            for (labels, metrics) in &informers {
                let histogram = value(metrics);
                let buckets: Vec<_> = histogram.buckets().collect();
                family.encode_family(labels)?.encode_histogram::<NoLabelSet>(
                    histogram.sum(),
                    histogram.count(),
                    &buckets,
                    None,
                )?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::StreamExt as _;
    use pilothouse_cache::{FactoryOptions, FnListerWatcher};
    use pilothouse_client::ApiResource;
    use pilothouse_object::{Gvk, ListMeta, Object};

    use crate::observe::metrics::Metrics;

    use super::*;

    #[tokio::test]
    async fn an_informer_s_series_have_client_go_s_names_and_go_with_it() {
        let list = |_: &_| {
            let object =
                br#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x","namespace":"a"}}"#;
            let meta = ListMeta { resource_version: "9123456789012345".to_owned(), ..ListMeta::default() };
            Ok((vec![Object::decode(object).unwrap()], meta))
        };
        let source = Arc::new(FnListerWatcher::new(list, |_| Ok(futures_util::stream::pending().boxed())));
        let factory =
            SharedInformerFactory::new(Arc::new(move |_, _| source.clone()), FactoryOptions::default());
        let metrics = Metrics::new();
        metrics.watch_informers(factory.clone());
        let deployments = ApiResource::new(Gvk::new("apps", "v1", "Deployment"), "deployments", true);
        let lease = factory.informer(&deployments, Some("a"));
        assert!(lease.wait_synced().await);
        let text = metrics.encode();
        let labels = r#"group="apps",version="v1",resource="deployments",namespace="a""#;
        for line in [
            format!("reflector_lists_total{{{labels}}} 1"),
            format!("reflector_short_watches_total{{{labels}}} 0"),
            format!("reflector_list_duration_seconds_count{{{labels}}} 1"),
            format!("reflector_items_per_list_sum{{{labels}}} 1.0"),
            format!("reflector_items_per_list_bucket{{le=\"1.0\",{labels}}} 1"),
            format!("reflector_items_per_list_bucket{{le=\"+Inf\",{labels}}} 1"),
            format!("reflector_watch_duration_seconds_count{{{labels}}} 0"),
            format!("reflector_items_per_watch_count{{{labels}}} 0"),
            format!("reflector_last_resource_version{{{labels}}} 123456789012345"),
            format!("informer_store_resource_version{{{labels}}} 123456789012345"),
            format!("informer_queued_items{{{labels}}} 0"),
            format!("informer_processing_latency_seconds_count{{{labels}}} 1"),
            format!("pilothouse_cache_objects{{{labels}}} 1"),
        ] {
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
        assert!(text.contains("reflector_watches_total{"), "{text}");
        drop(lease);
        assert!(!metrics.encode().contains("deployments"), "{}", metrics.encode());
        factory.shutdown().await;
    }
}
