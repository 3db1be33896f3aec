//! [`KeyShards`]: the shards of the keys of one plugin, where hosts share its keys.
//!
//! All hosts of a group must agree on them, so they depend on names and the number of shards alone. Keys of one namespace are
//! in one shard. The name of the plugin counts as well: a namespace with many keys is in another shard for each plugin.

use std::sync::Arc;

use super::names;

/// The shards of the keys of one plugin; a cheap clone.
#[derive(Debug, Clone)]
pub struct KeyShards {
    plugin: Arc<str>,
    shards: usize,
}

impl KeyShards {
    /// Those of a plugin, in a group of hosts with so many shards.
    #[must_use]
    pub fn new(plugin: &str, shards: usize) -> Self {
        Self { plugin: Arc::from(plugin), shards }
    }

    /// Number of shards.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shards
    }

    /// The shard of the keys in a namespace. Keys without one are in the shard of the plugin.
    #[must_use]
    pub fn of(&self, namespace: Option<&str>) -> usize {
        let plugin = self.plugin.as_bytes().iter();
        match namespace {
            Some(namespace) => {
                names::shard_of_bytes(plugin.chain(b"/").chain(namespace.as_bytes()), self.shards)
            }
            None => names::shard_of_bytes(plugin, self.shards),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn hosts_of_all_versions_agree_on_the_shard_of_a_key() {
        let keys = KeyShards::new("pods-per-node", 16);
        assert_eq!((keys.of(Some("team-1")), keys.of(Some("team-2")), keys.of(None)), (6, 9, 10));
        assert_eq!(keys.of(None), names::shard_of("pods-per-node", 16));
        assert_eq!(KeyShards::new("any", 1).of(Some("team-1")), 0);
    }

    #[test]
    fn namespaces_that_differ_in_their_last_digits_are_spread() {
        let forms: [fn(usize) -> String; 2] = [|n| format!("team-{n}"), |n| format!("tenant-{n:03}")];
        for plugin in ["p", "counter", "pods-per-node"] {
            let keys = KeyShards::new(plugin, 16);
            // A sixteenth is 62, and the standard deviation of a random spread 8.
            for name in forms {
                let mut counts = [0; 16];
                (1..=1000).for_each(|n| counts[keys.of(Some(&name(n)))] += 1);
                assert!(counts.iter().all(|count| (38..=87).contains(count)), "{plugin}: {counts:?}");
            }
            let few: BTreeSet<usize> = (1..10).map(|n| keys.of(Some(&format!("team-{n}")))).collect();
            assert!(few.len() > 4, "{plugin}: {few:?}");
        }
    }

    #[test]
    fn the_namespaces_of_two_plugins_are_in_different_shards() {
        let [one, other] = ["p", "q"].map(|plugin| KeyShards::new(plugin, 16));
        let same = (0..1000).filter(|n| {
            let namespace = format!("team-{n}");
            one.of(Some(&namespace)) == other.of(Some(&namespace))
        });
        assert!(same.count() < 100);
    }
}
