//! [`Shards`] without Leases: a test begins and ends their terms.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::watch;

use super::{Inner, Shards, ShardsConfig, View};
use crate::clock::BootInstant;
use crate::config::LeaderElectionConfig;
use crate::leadership::{FencingToken, Leadership};

impl Shards {
    /// So many shards, of a host of this name, which has none of them.
    #[must_use]
    pub fn without_leases(identity: &str, shards: usize) -> Self {
        let election = LeaderElectionConfig::new(identity);
        Self(Arc::new(Inner {
            config: ShardsConfig { election, shards, join_delay: Duration::ZERO },
            lease: "default/hosts".to_owned(),
            terms: (0..shards).map(|_| watch::Sender::new(None)).collect(),
            // Nothing receives them.
            commands: unbounded_channel().0,
            view: Mutex::new(View::default()),
        }))
    }

    /// Begins a term of a shard, which lasts for so long.
    pub fn begin_term(&self, shard: usize, valid: Duration) {
        let token = FencingToken {
            lock: self.lease().to_owned(),
            uid: String::new(),
            transitions: 0,
            resource_version: String::new(),
        };
        self.0.terms[shard].send_replace(Some(Leadership::new(token, BootInstant::now(), valid)));
    }

    /// Asks the work of a shard to end; its term goes on.
    pub fn cancel_term(&self, shard: usize) {
        self.term(shard).iter().for_each(Leadership::cancel);
    }
}
