//! [`ShardLease`]: one version of a Lease of the group; [`KnownLeases`]: the newest version of each that this host has seen,
//! and when it saw it first.
//!
//! Invariants: a version never replaces a newer one, whichever of list, watch and answer comes last; `at` is never earlier
//! than the moment at which the version was written, by this host's clock.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::lock::Stored;
use crate::record::LeaderElectionRecord;

/// The state that a host writes into its Lease.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum HostState {
    /// It works, and its plugins are not loaded yet: shards are not moved to it.
    Warming,
    /// Its plugins are loaded, and its caches are filled.
    #[default]
    Ready,
    /// It ends, and takes no shard any more.
    Leaving,
}

impl HostState {
    const ALL: [Self; 3] = [Self::Warming, Self::Ready, Self::Leaving];

    /// The word in the annotation of the Lease.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Warming => "warming",
            Self::Ready => "ready",
            Self::Leaving => "leaving",
        }
    }

    /// The state of this word; ready without one.
    pub(crate) fn parse(word: &str) -> Self {
        Self::ALL.into_iter().find(|state| state.as_str() == word).unwrap_or_default()
    }
}

/// One version of a Lease.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShardLease {
    pub(crate) name: String,
    /// Of a host's Lease.
    pub(crate) state: HostState,
    pub(crate) stored: Stored,
}

impl ShardLease {
    pub(crate) fn record(&self) -> &LeaderElectionRecord {
        &self.stored.record
    }

    pub(crate) fn holder(&self) -> &str {
        &self.stored.record.holder_identity
    }

    /// Whether nobody has written between the two.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.stored.uid == other.stored.uid && self.stored.resource_version == other.stored.resource_version
    }

    /// Versions of API servers are numbers that grow, over all objects. Another one counts as newer than all.
    fn version(&self) -> u64 {
        self.stored.resource_version.parse().unwrap_or(u64::MAX)
    }
}

/// A Lease as far as it is known.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    /// None when it is absent.
    pub(crate) lease: Option<ShardLease>,
    /// When this version, or the absence, was seen first.
    pub(crate) at: Duration,
    /// When the version before was seen first.
    pub(crate) before: Option<Duration>,
    /// The record that it had last, if it is absent now.
    pub(crate) last: Option<LeaderElectionRecord>,
    /// From when on it has said that its host is ready.
    pub(crate) ready_since: Option<Duration>,
    version: u64,
}

impl Known {
    pub(crate) fn holder(&self) -> &str {
        self.lease.as_ref().map_or("", ShardLease::holder)
    }

    /// Until when the lease lasts if nobody writes; a Lease that is absent lasts as long as its last record did.
    pub(crate) fn expires(&self, usual: Duration) -> Duration {
        let record = self.lease.as_ref().map(ShardLease::record).or(self.last.as_ref());
        self.at + record.map_or(usual, |record| duration(record, usual))
    }
}

/// The duration of a lease; a record without one lasts as `usual`.
pub(crate) fn duration(record: &LeaderElectionRecord, usual: Duration) -> Duration {
    let seconds = u64::try_from(record.lease_duration_seconds).ok().filter(|seconds| *seconds > 0);
    seconds.map_or(usual, Duration::from_secs)
}

/// All Leases of the group that were ever seen.
#[derive(Debug, Default)]
pub(crate) struct KnownLeases(BTreeMap<String, Known>);

impl KnownLeases {
    pub(crate) fn get(&self, name: &str) -> Option<&Known> {
        self.0.get(name)
    }

    /// The Lease, unless it is absent or was never seen.
    pub(crate) fn lease(&self, name: &str) -> Option<&ShardLease> {
        self.get(name)?.lease.as_ref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Known)> {
        self.0.iter().map(|(name, known)| (name.as_str(), known))
    }

    /// A version was seen; an older one than is known is ignored.
    pub(crate) fn put(&mut self, now: Duration, lease: ShardLease) {
        let (version, known) = (lease.version(), self.0.get(&lease.name));
        if known.is_some_and(|known| {
            let is_known = known.lease.as_ref().is_some_and(|known| known.is_same(&lease));
            is_known || version < known.version
        }) {
            return;
        }
        let is_ready = lease.state == HostState::Ready;
        let ready_since = known
            .and_then(|known| known.ready_since)
            .or(Some(now))
            .filter(|_| is_ready && !lease.holder().is_empty());
        let before = known.filter(|known| known.lease.is_some()).map(|known| known.at);
        let name = lease.name.clone();
        self.0.insert(name, Known { lease: Some(lease), at: now, before, last: None, ready_since, version });
    }

    /// The Lease is absent at a version, unless a newer one is known.
    pub(crate) fn gone(&mut self, now: Duration, name: &str, version: u64) {
        let known = self.0.get(name);
        if known.is_some_and(|known| known.lease.is_none() || version < known.version) {
            return;
        }
        let last = known.and_then(|known| known.lease.as_ref()).map(|lease| lease.record().clone());
        let absent = Known { lease: None, at: now, before: None, last, ready_since: None, version };
        self.0.insert(name.to_owned(), absent);
    }

    /// A read that was sent when `known` was known has found none. Whatever was seen since is newer.
    pub(crate) fn not_found(&mut self, now: Duration, name: &str, known: Option<&ShardLease>) {
        let is_unchanged = match (self.lease(name), known) {
            (None, _) => true,
            (Some(present), Some(known)) => present.is_same(known),
            (Some(_), None) => false,
        };
        if is_unchanged {
            let version = self.get(name).map_or(0, |known| known.version);
            self.gone(now, name, version);
        }
    }

    /// All Leases of the group at a version.
    pub(crate) fn listed(&mut self, now: Duration, version: u64, leases: Vec<ShardLease>) {
        let absent: Vec<String> =
            self.0.keys().filter(|name| leases.iter().all(|lease| lease.name != **name)).cloned().collect();
        absent.iter().for_each(|name| self.gone(now, name, version));
        leases.into_iter().for_each(|lease| self.put(now, lease));
    }

    /// Notes that a Lease is absent, if nothing is known of it: from now on it counts as such.
    pub(crate) fn expect(&mut self, now: Duration, name: &str) -> &Known {
        let absent =
            || Known { lease: None, at: now, before: None, last: None, ready_since: None, version: 0 };
        self.0.entry(name.to_owned()).or_insert_with(absent)
    }

    /// Forgets absent Leases that `keep` does not name.
    pub(crate) fn forget_absent(&mut self, keep: impl Fn(&str) -> bool) {
        self.0.retain(|name, known| known.lease.is_some() || keep(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn lease(version: u64, holder: &str, state: HostState) -> ShardLease {
        let record = LeaderElectionRecord { holder_identity: holder.to_owned(), ..Default::default() };
        let stored = Stored { record, resource_version: version.to_string(), ..Stored::default() };
        ShardLease { name: "l".to_owned(), state, stored }
    }

    #[test]
    fn an_older_version_never_replaces_a_newer_one() {
        let mut known = KnownLeases::default();
        known.put(SECOND, lease(5, "a", HostState::Ready));
        known.put(SECOND * 2, lease(4, "b", HostState::Ready));
        known.gone(SECOND * 2, "l", 4);
        known.listed(SECOND * 2, 4, Vec::new());
        known.not_found(SECOND * 2, "l", None);
        let of =
            |known: &KnownLeases| (known.get("l").unwrap().holder().to_owned(), known.get("l").unwrap().at);
        assert_eq!(of(&known), ("a".to_owned(), SECOND));
        // The same version again is no sign of life.
        known.put(SECOND * 3, lease(5, "a", HostState::Ready));
        assert_eq!(of(&known), ("a".to_owned(), SECOND));
        known.put(SECOND * 4, lease(6, "a", HostState::Ready));
        assert_eq!(
            (of(&known), known.get("l").unwrap().before),
            (("a".to_owned(), SECOND * 4), Some(SECOND))
        );
    }

    #[test]
    fn an_absent_lease_lasts_as_its_last_record_did() {
        let mut known = KnownLeases::default();
        let mut held = lease(5, "a", HostState::Ready);
        held.stored.record.lease_duration_seconds = 7;
        known.put(SECOND, held.clone());
        assert_eq!(known.get("l").unwrap().expires(SECOND * 15), SECOND * 8);
        known.not_found(SECOND * 3, "l", Some(&held));
        assert_eq!(known.get("l").unwrap().expires(SECOND * 15), SECOND * 10);
        // Nothing of it again, and it is as old as before.
        known.gone(SECOND * 4, "l", 9);
        assert_eq!(known.get("l").unwrap().at, SECOND * 3);
        assert_eq!(known.expect(SECOND * 5, "m").expires(SECOND * 15), SECOND * 20);
    }

    #[test]
    fn a_host_is_ready_from_when_it_was_first_seen_so() {
        let mut known = KnownLeases::default();
        let ready = |known: &KnownLeases| known.get("l").unwrap().ready_since;
        known.put(SECOND, lease(1, "a", HostState::Warming));
        assert_eq!(ready(&known), None);
        known.put(SECOND * 2, lease(2, "a", HostState::Ready));
        known.put(SECOND * 3, lease(3, "a", HostState::Ready));
        assert_eq!(ready(&known), Some(SECOND * 2));
        known.put(SECOND * 4, lease(4, "a", HostState::Leaving));
        assert_eq!(ready(&known), None);
        for state in HostState::ALL {
            assert_eq!(HostState::parse(state.as_str()), state);
        }
        assert_eq!(HostState::parse("?"), HostState::Ready);
    }
}
