//! [`MutationDetector`]: shows that nobody changed an object behind the cache's back; client-go's detector of the same
//! name, as a checksum.
//!
//! Objects are immutable by type, so there is nothing to detect but code that breaks the language's rules (a foreign
//! library, a bug of the compiler, broken memory). In builds with debug assertions, and where the environment says
//! `KUBE_CACHE_MUTATION_DETECTOR=true`, each informer checks its objects once a second and panics at the first that is
//! not what it was when it came.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use pilothouse_object::{Held, ObjectKey};

use crate::indexer::Indexer;

/// How often objects are checked; client-go's figure.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);

/// The variable that switches the detector on; client-go's name.
const VARIABLE: &str = "KUBE_CACHE_MUTATION_DETECTOR";

/// The checksums of the objects of one store.
#[derive(Default)]
pub(crate) struct MutationDetector {
    hasher: RandomState,
    known: HashMap<ObjectKey, (Held, u64)>,
}

/// Whether informers of this process are to check their objects.
pub(crate) fn is_on() -> bool {
    cfg!(debug_assertions) && std::env::var(VARIABLE).is_ok_and(|value| value == "true")
}

impl MutationDetector {
    /// Compares what was there at the last check with what it was then, and takes the checksums of what is new.
    ///
    /// # Panics
    /// When an object has changed.
    pub(crate) fn check(&mut self, indexer: &Indexer) {
        for (key, (held, checksum)) in &self.known {
            assert_eq!(self.checksum(held), *checksum, "object {key} was changed in the cache");
        }
        let now = indexer.snapshot();
        let mut known = HashMap::with_capacity(now.len());
        for held in now.objects() {
            let checksum = match self.known.get(held.key()) {
                Some((same, checksum)) if same.is_same(held) => *checksum,
                _ => self.checksum(held),
            };
            known.insert(held.key().clone(), (held.clone(), checksum));
        }
        self.known = known;
    }

    fn checksum(&self, held: &Held) -> u64 {
        self.hasher.hash_one((held.key(), held.uid(), held.resource_version(), held.object().json()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config_map;

    #[test]
    fn objects_that_stay_or_are_replaced_pass_and_a_changed_one_is_told() {
        let indexer = Indexer::new(true);
        indexer.add(config_map("a/x", "1"));
        indexer.add(config_map("a/y", "2"));
        let mut detector = MutationDetector::default();
        detector.check(&indexer);
        indexer.add(config_map("a/x", "3"));
        indexer.delete(config_map("a/y", "2").key());
        detector.check(&indexer);
        // No safe code can change an object: the checksum is falsified instead.
        detector.known.values_mut().for_each(|(_, checksum)| *checksum ^= 1);
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| detector.check(&indexer)));
        assert!(told.is_err());
    }
}
