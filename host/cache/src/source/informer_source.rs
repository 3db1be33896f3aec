//! [`InformerSource`]: where an informer of the factory gets its objects from: the server, or an informer of the same
//! resource in all namespaces; cut to what the informer's users want to see of them.
//!
//! ```text
//!                       ┌ the wide informer has synced ─► joins it; goes on with its own watch until that has shown ┐
//!  server's watch ──────┤                                 all that the wide one had when it was joined              │
//!       ▲               └ the users want more fields ───► the watch ends as expired: the reflector lists            ▼
//!       └──────────── the wide informer ends: a watch from the last version told ◄──────────────── its events from there
//! ```
//!
//! The reflector behind it sees one source and one sequence of versions. Invariants:
//! - no event is lost or told twice when the source changes over: the own watch is left only at a version N that is not
//!   older than anything the wide informer had applied when it was joined; of the wide informer's events those up to N are
//!   dropped, and everything behind N is still to come from it;
//! - every version told (by an event or a bookmark) is one of the server, and everything up to it has been told: a watch
//!   of the server can go on from it;
//! - a list is cut by one projection or a wider one, and what the reflector follows was listed with the present one.
//!
//! Made by the factory, which says which informer is the wide one ([`InformerSource::follow`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use pilothouse_client::{ApiResource, ListParams, Result, WatchEvent, WatchParams};
use pilothouse_object::{ListMeta, Object, Projection};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::shared_informer::SharedInformer;
use crate::source::feed::Feed;
use crate::source::lister_watcher::{EventStream, ItemSink, ListerWatcher};
use crate::source::tap::Tap;

/// How long a list waits for the wide informer to have what this one has seen, before it goes to the server.
const CATCH_UP_PATIENCE: Duration = Duration::from_secs(5);

/// An informer and its source.
#[derive(Clone)]
pub(crate) struct Sourced {
    pub(crate) informer: SharedInformer,
    pub(crate) source: Arc<InformerSource>,
}

/// The wide informer to follow.
#[derive(Clone)]
pub(crate) struct Wide {
    pub(crate) of: Sourced,
    /// Of its projection, when that covers the one of the follower.
    pub(crate) generation: u64,
}

/// What the users of an informer want to see of its objects.
pub(crate) struct Wanted {
    projection: Projection,
    /// Grows each time that the projection becomes wider.
    pub(crate) generation: u64,
}

/// The source of one informer.
pub(crate) struct InformerSource {
    server: Arc<dyn ListerWatcher>,
    pub(crate) resource: ApiResource,
    pub(crate) namespace: Option<String>,
    pub(crate) wanted: watch::Sender<Wanted>,
    pub(crate) wide: watch::Sender<Option<Wide>>,
    /// The generation that the reflector has a list of.
    pub(crate) listed: watch::Sender<u64>,
    /// Items that came in the list under way, or in the last one.
    items: AtomicUsize,
    /// The next list is to come from the server, whatever the wide informer has.
    ask_server: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The generation that the list under way began with.
    listing: u64,
    /// A tap from which the next watch goes on, if it begins at that version.
    parked: Option<(Tap, Arc<str>)>,
}

impl Sourced {
    /// Waits until the store has all objects with the fields of a generation. `false`: the informer ended before.
    pub(crate) async fn wait_complete(&self, generation: u64) -> bool {
        if !self.informer.wait_synced().await {
            return false;
        }
        if generation <= FIRST {
            return true;
        }
        let mut listed = self.source.listed.subscribe();
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
            && (generation <= FIRST
                || (*self.source.listed.borrow() >= generation && self.informer.are_lists_handled()))
    }
}

/// The generation of the projection that an informer begins with.
const FIRST: u64 = 1;

impl InformerSource {
    pub(crate) fn new(
        server: Arc<dyn ListerWatcher>,
        resource: ApiResource,
        namespace: Option<&str>,
        projection: Projection,
    ) -> Arc<Self> {
        Arc::new(Self {
            server,
            resource,
            namespace: namespace.map(str::to_owned),
            wanted: watch::Sender::new(Wanted { projection, generation: FIRST }),
            wide: watch::Sender::new(None),
            listed: watch::Sender::new(0),
            items: AtomicUsize::new(0),
            ask_server: AtomicBool::new(false),
            state: Mutex::default(),
        })
    }

    /// Widens the projection where it does not cover this one, and has the informer list again; the generation that
    /// covers it.
    pub(crate) fn widen(&self, projection: &Projection) -> u64 {
        self.wanted.send_if_modified(|wanted| {
            let widens = !wanted.projection.covers(projection);
            if widens {
                wanted.projection = wanted.projection.union(projection);
                wanted.generation += 1;
            }
            widens
        });
        self.wanted.borrow().generation
    }

    pub(crate) fn projection(&self) -> Projection {
        self.wanted.borrow().projection.clone()
    }

    /// Has the next list come from the server. The wide informer may hold what whoever asks for a list doubts.
    pub(crate) fn ask_server(&self) {
        self.ask_server.store(true, Relaxed);
    }

    /// Items that came in the list under way, or in the last one.
    pub(crate) fn items(&self) -> usize {
        self.items.load(Relaxed)
    }

    /// Names the informer of all namespaces to follow, if its projection covers this one's.
    pub(crate) fn follow(&self, wide: Option<&Sourced>) {
        let wide = wide.and_then(|of| {
            let theirs = of.source.wanted.borrow();
            let covered = theirs.projection.covers(&self.wanted.borrow().projection);
            covered.then(|| Wide { of: of.clone(), generation: theirs.generation })
        });
        self.wide.send_if_modified(|held| {
            let same = match (&*held, &wide) {
                (None, None) => true,
                // A generation that covered this one still does.
                (Some(held), Some(wide)) => Arc::ptr_eq(&held.of.source, &wide.of.source),
                _ => false,
            };
            if !same {
                *held = wide;
            }
            !same
        });
    }

    fn cut(&self, object: &Object, projection: &Projection) -> Object {
        if object.kind() == "PartialObjectMetadata" && object.api_version().starts_with("meta.k8s.io/") {
            // The kind is the resource's, however it was asked for: owners, keys and users go by it.
            projection.apply_as(object, &self.resource.gvk)
        } else {
            projection.apply(object)
        }
    }

    pub(crate) fn cut_event(&self, event: WatchEvent) -> WatchEvent {
        let projection = &self.wanted.borrow().projection;
        match event {
            WatchEvent::Added(object) => WatchEvent::Added(self.cut(&object, projection)),
            WatchEvent::Modified(object) => WatchEvent::Modified(self.cut(&object, projection)),
            WatchEvent::Deleted(object) => WatchEvent::Deleted(self.cut(&object, projection)),
            bookmark @ WatchEvent::Bookmark { .. } => bookmark,
        }
    }

    /// Opens a watch of the server.
    pub(crate) async fn watch_server(&self, params: WatchParams) -> Result<EventStream> {
        let metadata_only = self.wanted.borrow().projection.is_metadata_only();
        self.server.watch(&WatchParams { metadata_only, ..params }).await
    }

    /// Keeps a tap for a watch that begins at this version.
    pub(crate) fn park(&self, tap: Tap, version: Arc<str>) {
        self.state.lock().parked = Some((tap, version));
    }

    /// The wide informer, if it can be read now.
    fn complete_wide(&self) -> Option<Wide> {
        self.wide.borrow().clone().filter(|wide| wide.of.is_complete(wide.generation))
    }

    /// Joins the wide informer when it has all that was seen up to `version`.
    async fn join_at(&self, version: Option<&str>) -> Option<Tap> {
        let wide = self.complete_wide()?.of.informer;
        let namespace = self.namespace.as_deref()?;
        if let Some(version) = version.filter(|version| !matches!(*version, "" | "0")) {
            timeout(CATCH_UP_PATIENCE, wide.indexer().wait_until_seen(version)).await.ok()?;
        }
        Tap::join(&wide, namespace).ok().filter(|tap| !tap.is_void())
    }
}

impl ListerWatcher for Arc<InformerSource> {
    fn list<'a>(&'a self, params: &'a ListParams, item: ItemSink<'a>) -> BoxFuture<'a, Result<ListMeta>> {
        Box::pin(async move {
            if params.continue_token.is_none() {
                let generation = self.wanted.borrow().generation;
                *self.state.lock() = State { listing: generation, parked: None };
                self.items.store(0, Relaxed);
                // A list without a version is to show the newest state, which only the server has.
                let may_join = params.resource_version.is_some() && !self.ask_server.swap(false, Relaxed);
                if may_join && let Some(tap) = self.join_at(params.resource_version.as_deref()).await {
                    let initial = tap.initial();
                    self.items.store(initial.len(), Relaxed);
                    initial.into_iter().for_each(item);
                    let version = tap.version.clone();
                    self.state.lock().parked = Some((tap, version.clone()));
                    return Ok(ListMeta { resource_version: version.to_string(), ..ListMeta::default() });
                }
            }
            let projection = self.projection();
            let params = ListParams { metadata_only: projection.is_metadata_only(), ..params.clone() };
            let mut keep = |object: Object| {
                self.items.fetch_add(1, Relaxed);
                item(self.cut(&object, &projection));
            };
            self.server.list(&params, &mut keep).await
        })
    }

    fn watch<'a>(&'a self, params: &'a WatchParams) -> BoxFuture<'a, Result<EventStream>> {
        Box::pin(async move {
            let generation = self.wanted.borrow().generation;
            let mut feed = Feed::new(Arc::clone(self), params, generation);
            if params.send_initial_events {
                // Without a version, after a list, the newest state is asked for, which only the server has.
                let may_join = (params.resource_version.is_some() || *self.listed.borrow() == 0)
                    && !self.ask_server.swap(false, Relaxed);
                if may_join && let Some(tap) = self.join_at(params.resource_version.as_deref()).await {
                    feed.begin_with(tap);
                    return Ok(feed.stream());
                }
            } else {
                let parked = {
                    let mut state = self.state.lock();
                    // A list that began with less is not followed: the feed sees that and expires.
                    feed.generation = state.listing;
                    state.parked.take()
                };
                // The reflector has handed the list on.
                self.listed.send_replace(feed.generation);
                if let Some((tap, version)) = parked
                    && Some(&*version) == params.resource_version.as_deref()
                {
                    feed.go_on_with(tap);
                    return Ok(feed.stream());
                }
            }
            feed.read(self.watch_server(params.clone()).await?);
            Ok(feed.stream())
        })
    }

    fn supports_watch_list(&self) -> bool {
        self.server.supports_watch_list()
    }
}
