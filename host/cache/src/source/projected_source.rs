//! [`ProjectedSource`]: the source of an informer of the factory: the server's objects, cut to the fields that the users of
//! the informer asked for.
//!
//! Invariants:
//! - a list and a watch are cut by one projection each, the one that was current when they began;
//! - a list at an exact version checks a streaming list, is passed on to nobody, and moves nothing here;
//! - `listed` is the generation of the last projection of which the reflector has passed on a list. Widening makes a new
//!   generation, and the factory then asks the informer for a list.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::unfold;
use futures_util::{StreamExt as _, TryStreamExt as _};
use parking_lot::Mutex;
use pilothouse_client::{ApiResource, ListParams, ResourceVersionMatch, Result, WatchEvent, WatchParams};
use pilothouse_object::{ListMeta, Object, Projection};
use tokio::sync::watch;

use crate::source::lister_watcher::{EventStream, ItemSink, ListerWatcher, both};

/// The generation of the projection that an informer begins with.
pub(crate) const FIRST_GENERATION: u64 = 1;

/// The source of one informer.
pub(crate) struct ProjectedSource {
    server: Arc<dyn ListerWatcher>,
    resource: ApiResource,
    /// `metadata.name=NAME` of an informer of a single name; otherwise empty.
    field_selector: String,
    wanted: Mutex<Wanted>,
    listed: watch::Sender<u64>,
}

/// The fields that the users of an informer asked for.
struct Wanted {
    projection: Projection,
    /// Grows each time that the projection becomes wider.
    generation: u64,
    /// The generation that the list under way began with.
    listing: u64,
}

impl ProjectedSource {
    pub(crate) fn new(
        server: Arc<dyn ListerWatcher>,
        resource: ApiResource,
        name: Option<&str>,
        projection: Projection,
    ) -> Arc<Self> {
        let wanted = Wanted { projection, generation: FIRST_GENERATION, listing: 0 };
        Arc::new(Self {
            server,
            resource,
            field_selector: name.map(|name| format!("metadata.name={name}")).unwrap_or_default(),
            wanted: Mutex::new(wanted),
            listed: watch::Sender::new(0),
        })
    }

    /// Widens the projection where it does not cover this one; the generation that covers it, and whether that is new.
    pub(crate) fn widen(&self, projection: &Projection) -> (u64, bool) {
        let mut wanted = self.wanted.lock();
        let widens = !wanted.projection.covers(projection);
        if widens {
            wanted.projection = wanted.projection.union(projection);
            wanted.generation += 1;
        }
        (wanted.generation, widens)
    }

    /// Whether it has the objects of a single name only.
    pub(crate) fn is_of_one_name(&self) -> bool {
        !self.field_selector.is_empty()
    }

    pub(crate) fn projection(&self) -> Projection {
        self.wanted.lock().projection.clone()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.wanted.lock().generation
    }

    /// The generation of which the reflector has passed on a list.
    pub(crate) fn listed(&self) -> watch::Receiver<u64> {
        self.listed.subscribe()
    }

    /// Notes that the store got a list of a generation.
    pub(crate) fn set_listed(&self, generation: u64) {
        self.listed.send_replace(generation);
    }

    fn cut(&self, object: Object, projection: &Projection) -> Object {
        if object.kind() == "PartialObjectMetadata" && object.api_version().starts_with("meta.k8s.io/") {
            // The kind is the resource's, however it was asked for: owners, keys and users go by it.
            projection.apply_as(&object, &self.resource.gvk)
        } else if projection.is_full() {
            object
        } else {
            projection.apply(&object)
        }
    }

    fn cut_event(&self, event: WatchEvent, projection: &Projection) -> WatchEvent {
        match event {
            WatchEvent::Added(object) => WatchEvent::Added(self.cut(object, projection)),
            WatchEvent::Modified(object) => WatchEvent::Modified(self.cut(object, projection)),
            WatchEvent::Deleted(object) => WatchEvent::Deleted(self.cut(object, projection)),
            bookmark @ WatchEvent::Bookmark { .. } => bookmark,
        }
    }
}

impl ListerWatcher for Arc<ProjectedSource> {
    fn list<'a>(&'a self, params: &'a ListParams, item: ItemSink<'a>) -> BoxFuture<'a, Result<ListMeta>> {
        Box::pin(async move {
            let begins_list = params.continue_token.is_none();
            let checks = params.resource_version_match == Some(ResourceVersionMatch::Exact);
            let projection = {
                let mut wanted = self.wanted.lock();
                if begins_list && !checks {
                    wanted.listing = wanted.generation;
                }
                wanted.projection.clone()
            };
            let params = ListParams {
                metadata_only: projection.is_metadata_only(),
                field_selector: both(&params.field_selector, &self.field_selector),
                ..params.clone()
            };
            let mut keep = |object: Object| item(self.cut(object, &projection));
            self.server.list(&params, &mut keep).await
        })
    }

    fn watch<'a>(&'a self, params: &'a WatchParams) -> BoxFuture<'a, Result<EventStream>> {
        Box::pin(async move {
            let (projection, generation, listing) = {
                let wanted = self.wanted.lock();
                (wanted.projection.clone(), wanted.generation, wanted.listing)
            };
            let params = WatchParams {
                metadata_only: projection.is_metadata_only(),
                field_selector: both(&params.field_selector, &self.field_selector),
                ..params.clone()
            };
            if !params.send_initial_events && listing > *self.listed.borrow() {
                // The reflector opens a watch after it has passed its list on.
                self.set_listed(listing);
            }
            let stream = self.server.watch(&params).await?;
            let source = Arc::clone(self);
            let events = stream.map_ok(move |event| source.cut_event(event, &projection));
            if !params.send_initial_events {
                return Ok(events.boxed());
            }
            let source = Arc::clone(self);
            let noted = unfold((events, false), move |(mut events, complete)| {
                let source = Arc::clone(&source);
                async move {
                    if complete {
                        // The reflector asks for the next event after it has passed the initial ones on.
                        source.set_listed(generation);
                    }
                    let event = events.next().await?;
                    let complete = matches!(event, Ok(WatchEvent::Bookmark { initial_events_end: true, .. }));
                    Some((event, (events, complete)))
                }
            });
            Ok(noted.boxed())
        })
    }

    fn supports_watch_list(&self) -> bool {
        self.server.supports_watch_list()
    }

    fn is_served(&self) -> BoxFuture<'_, Result<bool>> {
        self.server.is_served()
    }
}
