//! [`LeaseNames`]: the names of the Leases of a group of hosts. [`shard_of`] and [`weight`]: the hashes that place plugins and
//! shards. All hosts of a group must agree on them, so neither depends on the process, the machine or the version.

/// Prefix of the holder of a group's own Lease; the number of shards follows.
const SHARDED: &str = "pilothouse-shards/";

/// The names of the Leases of one group of hosts.
#[derive(Debug, Clone)]
pub(crate) struct LeaseNames {
    base: String,
    shard: String,
    host: String,
}

impl LeaseNames {
    /// `base` is the name of the group's own Lease.
    pub(crate) fn new(base: &str) -> Self {
        Self { base: base.to_owned(), shard: format!("{base}-shard-"), host: format!("{base}-host-") }
    }

    /// The Lease that says how the hosts of the group share the work. Hosts without shards elect their leader with it.
    pub(crate) fn group(&self) -> &str {
        &self.base
    }

    /// The Lease of a shard.
    pub(crate) fn shard(&self, shard: usize) -> String {
        format!("{}{shard}", self.shard)
    }

    /// The Lease of a host. An identity is `HOSTNAME_UUID`; a host name may hold what a Lease's name may not.
    pub(crate) fn host(&self, identity: &str) -> String {
        let unique = identity.rsplit('_').next().unwrap_or_default();
        format!("{}{unique}", self.host)
    }

    /// Whether a Lease is that of a host.
    pub(crate) fn is_host(&self, name: &str) -> bool {
        name.starts_with(&self.host)
    }

    /// Whether a Lease belongs to the group.
    pub(crate) fn contains(&self, name: &str) -> bool {
        name == self.base || name.starts_with(&self.shard) || self.is_host(name)
    }
}

/// The holder of the group's own Lease while hosts with so many shards run.
pub(crate) fn group_holder(shards: usize) -> String {
    format!("{SHARDED}{shards}")
}

/// The number of shards in the holder identity of a Lease; none if a host without shards holds it.
#[must_use]
pub fn shards_of_holder(holder: &str) -> Option<&str> {
    holder.strip_prefix(SHARDED)
}

/// The shard of a plugin.
pub(crate) fn shard_of(plugin: &str, shards: usize) -> usize {
    // The remainder is below `shards`, which fits.
    usize::try_from(hash(plugin.as_bytes()) % shards.max(1) as u64).unwrap_or_default()
}

/// Rendezvous hashing: the host with the greatest weight for a shard is the best owner. The weight for one host does not
/// depend on the others, so a host that comes takes shards for itself and moves none between others. The host name counts
/// first: a host that is started anew under its old name gets its old shards.
pub(crate) fn weight(identity: &str, shard: usize) -> (u64, u64) {
    let name = identity.rsplit_once('_').map_or(identity, |(name, _)| name);
    let of = |text: &str| hash(format!("{text}/{shard}").as_bytes());
    (of(name), of(identity))
}

/// FNV-1a, and the finalizer of SplitMix64: FNV alone spreads the last byte over few bits.
fn hash(bytes: &[u8]) -> u64 {
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let mut hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, fnv);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(hosts: &[String], shard: usize) -> &str {
        hosts.iter().max_by_key(|host| weight(host, shard)).unwrap()
    }

    #[test]
    fn hosts_of_all_versions_agree_on_the_hashes() {
        assert_eq!(hash(b""), 0xf52a_15e9_a9b5_e89b);
        assert_eq!(shard_of("pods-per-node", 16), 10);
        assert_eq!((shard_of("any", 1), shard_of("any", 0)), (0, 0));
    }

    #[test]
    fn names_are_those_of_one_group() {
        let names = LeaseNames::new("hosts");
        let host = names.host("Node.1_example_1b9d6bcd");
        assert_eq!((names.shard(3).as_str(), host.as_str()), ("hosts-shard-3", "hosts-host-1b9d6bcd"));
        assert!([names.group(), &names.shard(0), &host].iter().all(|name| names.contains(name)));
        assert!(!names.contains("hosts2") && !names.contains("other") && !names.is_host("hosts-shard-3"));
        assert_eq!(shards_of_holder(&group_holder(16)), Some("16"));
        assert_eq!(shards_of_holder("host_1b9d6bcd"), None);
    }

    #[test]
    fn plugins_and_shards_are_spread() {
        let mut plugins = [0; 16];
        (0..1600).for_each(|number| plugins[shard_of(&format!("plugin-{number}"), 16)] += 1);
        assert!(plugins.iter().all(|count| (60..=140).contains(count)), "{plugins:?}");
        let hosts: Vec<String> = (0..4).map(|number| format!("pilothouse-{number}_{number}")).collect();
        let mut shards = std::collections::BTreeMap::new();
        (0..1000).for_each(|shard| *shards.entry(best(&hosts, shard)).or_insert(0) += 1);
        assert!(shards.values().all(|count| (200..=300).contains(count)), "{shards:?}");
    }

    #[test]
    fn hosts_of_one_name_share_its_part_and_a_new_one_of_an_old_name_has_the_same() {
        let part = |hosts: &[&str], of: &str| -> Vec<usize> {
            let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
            (0..64).filter(|shard| best(&hosts, *shard).starts_with(of)).collect()
        };
        assert_eq!(part(&["a_1", "b_1"], "a_"), part(&["a_2", "b_1"], "a_"));
        let both = part(&["a_1", "a_2", "b_1"], "a_");
        assert_eq!(both, part(&["a_1", "b_1"], "a_"));
        let one = part(&["a_1", "a_2", "b_1"], "a_1").len();
        assert!(one > both.len() / 4 && one < both.len() * 3 / 4, "{one} of {}", both.len());
    }

    #[test]
    fn a_host_that_comes_or_goes_moves_its_own_shards_only() {
        let mut hosts: Vec<String> = (0..3).map(|number| format!("pilothouse-{number}_{number}")).collect();
        let before: Vec<String> = (0..64).map(|shard| best(&hosts, shard).to_owned()).collect();
        hosts.push("pilothouse-3_3".to_owned());
        let moved = (0..64).filter(|shard| best(&hosts, *shard) != before[*shard]).count();
        assert!((1..40).contains(&moved), "{moved}");
        assert!(
            (0..64).all(|shard| [before[shard].as_str(), "pilothouse-3_3"].contains(&best(&hosts, shard)))
        );
    }
}
