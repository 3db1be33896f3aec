//! [`FactoryInformer`]: an informer of the factory. One of a single namespace follows the one of all namespaces of the same
//! resource while there is one that has the fields it needs.
//!
//! ```text
//!   own watch ──► the wide informer is complete and not older: the own watch ends, what it has read is handled
//!       ▲                                                                              │
//!       │ the wide informer ends, or lacks fields:                                     ▼
//!       └─ a watch from the version of the store, or a list ◄── the wide informer applies its changes of the namespace
//! ```
//!
//! A follower has a store of its own, which shares the objects and has its own indexes, and listeners of its own. The wide
//! informer applies changes to both under its lock; a follower has no watch, no queue, and no task that a change wakes.
//! Invariants:
//! - a store never goes back in time: the wide informer takes over when its version is that of the own store or newer, and
//!   the difference is delivered as after a list;
//! - a follower that is on its own again resumes at exactly the version of its store.
//!
//! Made and run by the factory, which says which informer is the wide one ([`FactoryInformer::follow`]).

use std::cmp::Ordering;
use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::shared_informer::SharedInformer;
use crate::source::projected_source::{FIRST_GENERATION, ProjectedSource};
use crate::version::compare_resource_versions;

/// How long a wide informer may need to reach the version of a watch that has ended for it.
const CATCH_UP_PATIENCE: Duration = Duration::from_secs(5);

/// An informer, its source, and the informer that it follows.
#[derive(Clone)]
pub(crate) struct FactoryInformer {
    pub(crate) informer: SharedInformer,
    pub(crate) source: Arc<ProjectedSource>,
    wide: Arc<watch::Sender<Option<WideInformer>>>,
}

/// The informer of all namespaces to follow.
#[derive(Clone)]
struct WideInformer {
    of: FactoryInformer,
    /// The generation of its projection, which covers the one of the follower.
    generation: u64,
    /// The generation of the follower's own projection: with more fields it begins to follow anew.
    own_generation: u64,
}

impl WideInformer {
    /// Whether both name the same informer for the same fields of the follower. A generation of the wide informer that
    /// covered these fields still does.
    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.of.source, &other.of.source) && self.own_generation == other.own_generation
    }
}

impl FactoryInformer {
    pub(crate) fn new(informer: SharedInformer, source: Arc<ProjectedSource>) -> Self {
        Self { informer, source, wide: Arc::new(watch::Sender::new(None)) }
    }

    /// Waits until the store has all objects with the fields of a generation. `false`: the informer ended before.
    pub(crate) async fn wait_complete(&self, generation: u64) -> bool {
        if !self.informer.wait_synced().await {
            return false;
        }
        if generation <= FIRST_GENERATION {
            return true;
        }
        let mut listed = self.source.listed();
        let handled = async {
            // It cannot fail: the sender lives in the source.
            let _ = listed.wait_for(|listed| *listed >= generation).await;
            self.informer.wait_lists_handled().await;
        };
        tokio::select! {
            biased;
            () = handled => true,
            () = self.informer.wait_ended() => false,
        }
    }

    /// Whether [`wait_complete`](Self::wait_complete) would return `true` at once.
    pub(crate) fn is_complete(&self, generation: u64) -> bool {
        self.informer.has_synced()
            && (generation <= FIRST_GENERATION
                || (*self.source.listed().borrow() >= generation && self.informer.are_lists_handled()))
    }

    /// Makes it list again from the server; one that follows passes that on to the wide informer, and lists by itself if
    /// that one ends before it has listed.
    pub(crate) fn relist(&self) {
        self.informer.relist();
        if let Some(wide) = self.informer.followed() {
            wide.relist();
        }
    }

    /// Names the informer of all namespaces to follow, if its projection covers this one's.
    pub(crate) fn follow(&self, wide: Option<&FactoryInformer>) {
        let wide = wide.and_then(|of| {
            let covers = of.source.projection().covers(&self.source.projection());
            let (generation, own_generation) = (of.source.generation(), self.source.generation());
            covers.then(|| WideInformer { of: of.clone(), generation, own_generation })
        });
        self.wide.send_if_modified(|held| {
            let same = match (&*held, &wide) {
                (Some(held), Some(wide)) => held.is_same(wide),
                (None, None) => true,
                _ => false,
            };
            if !same {
                *held = wide;
            }
            !same
        });
    }

    /// Runs the informer until it is cancelled.
    pub(crate) async fn run(&self, cancel: CancellationToken) {
        let Some(_ending) = self.informer.begin() else { return };
        if self.informer.namespace().is_none() || self.source.is_of_one_name() {
            return self.informer.run_own(false, cancel).await;
        }
        let mut backoff = Backoff::reflector();
        while !cancel.is_cancelled() {
            let resume = self.is_resumable();
            let wide = match self.followable().now_or_never() {
                Some(wide) => wide,
                None => {
                    let stop = cancel.child_token();
                    let mut own = Box::pin(self.informer.run_own(resume, stop.clone()));
                    let wide = tokio::select! {
                        biased;
                        () = &mut own => return,
                        wide = self.followable() => wide,
                    };
                    stop.cancel();
                    // What it has read is handled before the wide informer takes over.
                    own.await;
                    wide
                }
            };
            let reached = timeout(CATCH_UP_PATIENCE, self.is_reached(&wide));
            if cancel.run_until_cancelled(reached).await == Some(Ok(true)) {
                let following = AssertUnwindSafe(self.run_following(&wide, &cancel)).catch_unwind().await;
                self.informer.detach(&wide.of.informer).await;
                if following.is_err() {
                    // The store may have half of a change.
                    self.informer.relist();
                    let pause = sleep(self.informer.panicked(&mut backoff));
                    cancel.run_until_cancelled(pause).await;
                }
            }
        }
    }

    async fn run_following(&self, wide: &WideInformer, cancel: &CancellationToken) {
        let generation = self.source.generation();
        if !self.informer.attach(&wide.of.informer).await {
            return;
        }
        self.source.set_listed(generation);
        if self.informer.is_list_wanted() {
            wide.of.informer.relist();
        }
        tracing::debug!(resource = %self.informer.resource().gvr(), namespace = self.informer.namespace(),
            "following the informer of all namespaces");
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = self.until_unfollowed(wide) => {}
            () = self.informer.run_background() => {}
        }
    }

    /// Whether a watch can go on at the version of the store: it has all objects, with all fields that are wanted.
    fn is_resumable(&self) -> bool {
        self.is_complete(self.source.generation()) && !self.informer.is_list_wanted()
    }

    /// Waits for a wide informer that is complete and not older than the own store.
    async fn followable(&self) -> WideInformer {
        let mut wide = self.wide.subscribe();
        loop {
            let named = wide.borrow_and_update().clone();
            let ready = async {
                match named {
                    Some(named)
                        if named.of.wait_complete(named.generation).await
                            && !named.of.informer.is_stopped()
                            && self.is_reached(&named).await =>
                    {
                        named
                    }
                    _ => pending().await,
                }
            };
            tokio::select! {
                biased;
                // It cannot fail: the sender lives in `self`.
                _ = wide.changed() => {}
                ready = ready => return ready,
            }
        }
    }

    /// Waits until the wide informer has all that the own store has. `false`: their versions cannot be compared.
    async fn is_reached(&self, wide: &WideInformer) -> bool {
        let theirs = wide.of.informer.indexer();
        while self.informer.has_synced() {
            let version = self.informer.indexer().resource_version();
            match compare_resource_versions(&version, &theirs.resource_version()) {
                Some(Ordering::Greater) => theirs.wait_until_seen(&version).await,
                Some(_) => return true,
                None => return false,
            }
        }
        true
    }

    /// Waits until the wide informer has ended or is not the one to follow any more.
    async fn until_unfollowed(&self, followed: &WideInformer) {
        let mut wide = self.wide.subscribe();
        let is_other =
            |wide: &Option<WideInformer>| !wide.as_ref().is_some_and(|wide| wide.is_same(followed));
        tokio::select! {
            _ = wide.wait_for(is_other) => {}
            () = followed.of.informer.wait_ended() => {}
        }
    }
}
