//! [`SyncProgress`]: which informers a start still waits for, and how far they have come.
//!
//! Told by `SharedInformerFactory::wait_for_cache_sync_with`.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use pilothouse_client::Error;
use tokio::time::sleep;

use crate::factory::InformerId;
use crate::factory_informer::FactoryInformer;

/// How far the informers of a factory have come.
#[derive(Debug, Clone)]
pub struct SyncProgress {
    /// How many are synced.
    pub synced: usize,
    /// How many have ended before they were.
    pub ended: usize,
    /// Those that are not, in the order of their ids.
    pub missing: Vec<MissingInformer>,
}

/// An informer that is not synced yet.
#[derive(Debug, Clone)]
pub struct MissingInformer {
    /// What it watches, and where.
    pub id: InformerId,
    /// Objects that have come in the list under way.
    pub objects: usize,
    /// Why its last list or watch failed; `None` since one went well.
    pub last_error: Option<Error>,
}

/// Waits for informers; which of them are synced.
pub(crate) async fn wait_for(
    informers: Vec<(InformerId, FactoryInformer)>,
    every: Duration,
    mut progress: impl FnMut(&SyncProgress),
) -> BTreeMap<InformerId, bool> {
    let mut outcome = BTreeMap::new();
    let mut waits: FuturesUnordered<_> =
        informers.iter().map(async |(id, of)| (id.clone(), of.informer.wait_synced().await)).collect();
    loop {
        progress(&look(&informers, &outcome));
        tokio::select! {
            biased;
            ended = waits.next() => match ended {
                Some((id, synced)) => outcome.insert(id, synced),
                None => return outcome,
            },
            () = sleep(every) => None,
        };
    }
}

fn look(informers: &[(InformerId, FactoryInformer)], outcome: &BTreeMap<InformerId, bool>) -> SyncProgress {
    let missing = informers.iter().filter(|(id, _)| !outcome.contains_key(id));
    let missing = missing.map(|(id, of)| MissingInformer {
        id: id.clone(),
        objects: of.source.items(),
        last_error: of.informer.status().reflector.last_error,
    });
    let synced = outcome.values().filter(|synced| **synced).count();
    SyncProgress { synced, ended: outcome.len() - synced, missing: missing.collect() }
}
