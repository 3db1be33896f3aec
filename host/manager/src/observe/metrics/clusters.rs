//! Whether the clusters beside the home cluster answer.

use std::sync::Arc;

use prometheus_client::collector::Collector;

use super::labels::ClusterLabel;
use super::scraped::{Figure, Scraped, Value};
use crate::manager::Cluster;

static FIGURES: [Figure<bool>; 1] = [Figure {
    name: "pilothouse_cluster_up",
    help: "Whether the API server of a cluster beside the home cluster answers, as far as is known",
    value: Value::Int(|is_up| i64::from(*is_up)),
}];

/// These clusters.
pub(crate) fn clusters(clusters: Vec<Arc<Cluster>>) -> Box<dyn Collector> {
    Scraped::new(&FIGURES, move || {
        let row = |cluster: &Arc<Cluster>| {
            (ClusterLabel(cluster.name().map(Arc::from)), cluster.trouble().is_none())
        };
        clusters.iter().map(row).collect()
    })
}
