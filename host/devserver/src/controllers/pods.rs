//! The end of pods: a kubelet would end one that is being deleted, and there is none.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::queue::{Reference, Work};
use crate::store::Stored;
use crate::verbs::{Core, DeleteOptions};

const PODS: &str = "/pods";
/// How long a pod takes to end: containers that heed a signal are gone by then.
const TAKES: Duration = Duration::from_secs(1);
/// With the value `true` a pod stays for its whole grace period, as one whose containers heed no signal.
const KEEP: &str = "pilothouse.dev/keep-terminating";

/// Which pods end when.
#[derive(Debug, Default)]
pub(super) struct PodEnds {
    by_time: BTreeSet<(Instant, Reference)>,
    /// The end and the UID of each: a pod that is written again does not end twice.
    ends: HashMap<Reference, (Instant, Box<str>)>,
}

impl PodEnds {
    pub(super) fn observe(&mut self, table: &Arc<str>, now: &Stored) {
        if &**table != PODS || now.object.deletion_timestamp().is_none() {
            return;
        }
        let grace = now.object.get("/metadata/deletionGracePeriodSeconds").and_then(|s| s.parse().ok());
        // One that waits for finalizers alone is not waited for.
        let Some(grace) = grace.filter(|seconds: &u64| *seconds > 0) else { return };
        let grace = Duration::from_secs(grace.min(86_400));
        let keeps = now.object.annotation(KEEP).is_some_and(|value| value == "true");
        let end = Instant::now() + if keeps { grace } else { grace.min(TAKES) };
        let reference = Reference::new(table, now);
        if let Some((earlier, uid)) = self.ends.get(&reference) {
            if **uid == *now.object.uid() && *earlier <= end {
                return;
            }
            self.by_time.remove(&(*earlier, reference.clone()));
        }
        self.ends.insert(reference.clone(), (end, now.object.uid().into()));
        self.by_time.insert((end, reference));
    }

    /// When the next one ends.
    pub(super) fn next(&self) -> Option<Instant> {
        self.by_time.first().map(|(end, _)| *end)
    }

    /// Those that end now.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Work> {
        let mut due = Vec::new();
        while self.next().is_some_and(|end| end <= now) {
            let Some((_, reference)) = self.by_time.pop_first() else { break };
            if let Some((_, uid)) = self.ends.remove(&reference) {
                due.push(Work::EndPod(reference, uid));
            }
        }
        due
    }
}

/// Ends a pod whose time has come.
pub(super) fn end(core: &Core, pod: &Reference, uid: &str) {
    let Some(found) = core.store.get(&pod.table, pod.key.as_str()) else { return };
    let Some(write) = core.own_write(&pod.table, found.object.namespace(), found.object.name()) else {
        return;
    };
    // It fails only if the pod has gone already.
    let _ = core.delete_object(&write, &DeleteOptions::now(uid));
}
