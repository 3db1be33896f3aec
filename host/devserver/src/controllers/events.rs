//! The end of Events: a cluster forgets them an hour after they were written last.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::store::Stored;
use crate::verbs::Core;

const EVENTS: &str = "/events";
/// How long an Event stays: what a real server does without a flag.
const STAYS: Duration = Duration::from_secs(3600);

/// When each Event was written last.
#[derive(Debug, Default)]
pub(super) struct EventExpiry {
    written: HashMap<Box<str>, (Instant, u64)>,
}

impl EventExpiry {
    pub(super) fn observe(&mut self, table: &Arc<str>, now: &Stored) {
        if &**table == EVENTS {
            let entry = (Instant::now(), now.revision);
            self.written.insert(now.object.key().as_str().into(), entry);
        }
    }

    pub(super) fn observe_end(&mut self, table: &Arc<str>, last: &Stored) {
        if &**table == EVENTS {
            self.written.remove(last.object.key().as_str());
        }
    }

    /// Ends those that have grown old. What is removed here is seen by [`EventExpiry::observe_end`].
    pub(super) fn sweep(&mut self, core: &Core, now: Instant) {
        let table: Arc<str> = EVENTS.into();
        for (key, (written, revision)) in &self.written {
            if now.duration_since(*written) < STAYS {
                continue;
            }
            if let Some(found) = core.store.get(EVENTS, key).filter(|found| found.revision == *revision) {
                // It was written again: then it is not old.
                let _ = core.store.remove(&table, key, &found);
            }
        }
    }
}
