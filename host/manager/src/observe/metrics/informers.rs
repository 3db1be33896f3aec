//! The figures of informers under client-go's names. An informer's series go with it: what is shown are the informers that
//! have leases.

use pilothouse_cache::{
    Histogram, InformerId, InformerMetrics, SharedInformerFactory, resource_version_gauge,
};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::EncodeLabelSet;

use super::labels::ClusterLabel;
use super::scraped::{Figure, Scraped, Spread, Value};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Informer {
    group: String,
    version: String,
    resource: String,
    /// Empty for all namespaces.
    namespace: String,
    /// Empty for all names.
    name: String,
}

impl Informer {
    fn new(id: &InformerId) -> Self {
        Self {
            group: id.resource.group.clone(),
            version: id.resource.version.clone(),
            resource: id.resource.resource.clone(),
            namespace: id.namespace.clone().unwrap_or_default(),
            name: id.name.clone().unwrap_or_default(),
        }
    }
}

const fn counter(
    name: &'static str,
    help: &'static str,
    read: fn(&InformerMetrics) -> u64,
) -> Figure<InformerMetrics> {
    Figure { name, help, value: Value::Counter(read) }
}

const fn gauge(
    name: &'static str,
    help: &'static str,
    read: fn(&InformerMetrics) -> i64,
) -> Figure<InformerMetrics> {
    Figure { name, help, value: Value::Int(read) }
}

const fn histogram(
    name: &'static str,
    help: &'static str,
    read: fn(&InformerMetrics) -> Spread,
) -> Figure<InformerMetrics> {
    Figure { name, help, value: Value::Histogram(read) }
}

fn spread(histogram: &Histogram) -> Spread {
    Spread { sum: histogram.sum(), count: histogram.count(), buckets: histogram.buckets().collect() }
}

fn int(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

static FIGURES: [Figure<InformerMetrics>; 23] = [
    counter("reflector_lists", "Lists started", |m| m.reflector_lists_total),
    counter("reflector_watches", "Watches started, streaming lists included", |m| m.reflector_watches_total),
    counter("reflector_short_watches", "Watches that ended at once", |m| m.reflector_short_watches_total),
    counter("pilothouse_reflector_list_failures", "Lists that failed", |m| m.reflector_list_failures_total),
    counter("pilothouse_reflector_watch_failures", "Watches that failed", |m| {
        m.reflector_watch_failures_total
    }),
    counter("pilothouse_reflector_events", "Events of watches", |m| m.reflector_items_watched_total),
    counter("pilothouse_reflector_skipped_events", "Events of watches that could not be decoded", |m| {
        m.reflector_skipped_events_total
    }),
    counter(
        "pilothouse_reflector_inconsistent_watch_lists",
        "Streaming lists that differed from a list of their version",
        |m| m.reflector_inconsistent_watch_lists_total,
    ),
    counter("pilothouse_reflector_transform_errors", "Objects that a transform refused", |m| {
        m.reflector_transform_errors_total
    }),
    counter("pilothouse_informer_restarts", "Panics after which an informer lists again", |m| {
        m.informer_restarts_total
    }),
    counter("pilothouse_informer_wakeups", "Wake-ups of an informer's task", |m| m.informer_wakeups_total),
    gauge(
        "reflector_last_resource_version",
        "Resource version that the next watch resumes from, its last 15 digits",
        |m| resource_version_gauge(&m.reflector_last_resource_version),
    ),
    gauge(
        "informer_store_resource_version",
        "Resource version that a store is complete to, its last 15 digits",
        |m| resource_version_gauge(&m.informer_store_resource_version),
    ),
    gauge("informer_queued_items", "Deltas queued before a store", |m| int(m.informer_queued_items)),
    gauge("pilothouse_cache_objects", "Objects in a store", |m| int(m.objects)),
    gauge("pilothouse_informer_listeners", "Listeners of an informer", |m| int(m.listeners)),
    gauge("pilothouse_listener_depth", "Changes that listeners have not handled yet", |m| {
        int(m.listener_depth)
    }),
    histogram("reflector_list_duration_seconds", "Duration of a list", |m| {
        spread(&m.reflector_list_duration_seconds)
    }),
    histogram("reflector_items_per_list", "Objects in a list", |m| spread(&m.reflector_items_per_list)),
    histogram("reflector_watch_duration_seconds", "Duration of a watch", |m| {
        spread(&m.reflector_watch_duration_seconds)
    }),
    histogram("reflector_items_per_watch", "Events of a watch", |m| spread(&m.reflector_items_per_watch)),
    histogram(
        "pilothouse_informer_long_polls_seconds",
        "CPU time of long polls of an informer's task",
        |m| spread(&m.informer_long_polls_seconds),
    ),
    histogram("informer_processing_latency_seconds", "Time for a batch to reach store and listeners", |m| {
        spread(&m.informer_processing_latency_seconds)
    }),
];

/// The informers of the factories, each of a cluster.
pub(crate) fn informers(factories: Vec<(ClusterLabel, SharedInformerFactory)>) -> Box<dyn Collector> {
    Scraped::new(&FIGURES, move || {
        let of_factory = |(cluster, factory): &(ClusterLabel, SharedInformerFactory)| {
            let cluster = cluster.clone();
            let row = move |(id, metrics)| ((Informer::new(&id), cluster.clone()), metrics);
            factory.metrics().into_iter().map(row)
        };
        factories.iter().flat_map(of_factory).collect()
    })
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
        let new = || {
            let source = source.clone();
            SharedInformerFactory::new(Arc::new(move |_, _| source.clone()), FactoryOptions::default())
        };
        let (factory, elsewhere) = (new(), new());
        let metrics = Metrics::new();
        metrics.watch_informers([(None, factory.clone()), (Some("east"), elsewhere.clone())].into_iter());
        let deployments = ApiResource::new(Gvk::new("apps", "v1", "Deployment"), "deployments", true);
        let lease = factory.informer(&deployments, Some("a"));
        assert!(lease.wait_synced().await);
        let text = metrics.encode();
        let labels = r#"group="apps",version="v1",resource="deployments",namespace="a",name="""#;
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
        let other = elsewhere.informer(&deployments, Some("a"));
        assert!(other.wait_synced().await);
        let (text, lists) =
            (metrics.encode(), format!("reflector_lists_total{{{labels},cluster=\"east\"}} 1"));
        assert!(text.contains(&lists), "{lists} is not in\n{text}");
        assert_eq!(text.matches("# TYPE reflector_lists counter").count(), 1, "{text}");
        drop((lease, other));
        assert!(!metrics.encode().contains("deployments"), "{}", metrics.encode());
        factory.shutdown().await;
        elsewhere.shutdown().await;
    }
}
