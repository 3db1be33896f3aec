//! Labels that name a run of a plugin, and a cluster.
//!
//! Invariant: what is of the home cluster has no label `cluster`, so a host without other clusters shows none.

use std::fmt;
use std::sync::Arc;

use pilothouse_plugin::split_run;
use prometheus_client::encoding::{EncodeLabel, EncodeLabelSet, LabelSetEncoder};

/// The name of a run, and its cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RunLabels {
    /// The label that has the name.
    label: &'static str,
    name: Arc<str>,
}

impl RunLabels {
    pub(crate) fn new(label: &'static str, name: impl Into<Arc<str>>) -> Self {
        Self { label, name: name.into() }
    }
}

impl EncodeLabelSet for RunLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        EncodeLabel::encode(&(self.label, &*self.name), encoder.encode_label())?;
        encode_cluster(split_run(&self.name).1, encoder)
    }
}

/// The cluster of what is no plugin's; none of the home cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ClusterLabel(pub(crate) Option<Arc<str>>);

impl EncodeLabelSet for ClusterLabel {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        encode_cluster(self.0.as_deref(), encoder)
    }
}

fn encode_cluster(name: Option<&str>, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
    match name {
        Some(name) => EncodeLabel::encode(&("cluster", name), encoder.encode_label()),
        None => Ok(()),
    }
}
