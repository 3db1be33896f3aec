//! [`ListerWatcher`]: where a reflector gets its objects from; and [`FnListerWatcher`], one made of two closures.
//!
//! The other one is `ClientListerWatcher` (an API server).

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use pilothouse_client::{ListParams, Result, WatchEvent, WatchParams};
use pilothouse_object::{ListMeta, Object};

/// The events of one watch. `ERROR` frames and broken connections are errors of the stream.
pub type EventStream = BoxStream<'static, Result<WatchEvent>>;

/// Takes the items of a list page one by one, as they are decoded.
pub type ItemSink<'a> = &'a mut (dyn FnMut(Object) + Send);

/// Lists and watches the objects of one kind in one scope. Selectors belong to the source: a reflector sets none; a
/// source adds its own to those it is given.
pub trait ListerWatcher: Send + Sync {
    /// One page of a list; items go to `item` in order. After an error the items handed on so far are void.
    fn list<'a>(&'a self, params: &'a ListParams, item: ItemSink<'a>) -> BoxFuture<'a, Result<ListMeta>>;

    /// Opens a watch: returns when the server has accepted it.
    fn watch<'a>(&'a self, params: &'a WatchParams) -> BoxFuture<'a, Result<EventStream>>;

    /// Whether a watch may begin with the present objects (`sendInitialEvents`).
    fn supports_watch_list(&self) -> bool {
        false
    }

    /// Whether the server's discovery, read anew, has the resource. `Ok(false)` alone confirms that it is gone: then the
    /// reflector removes its objects. A source that has no discovery never says so.
    fn is_served(&self) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async { Ok(true) })
    }
}

/// A source made of two closures: the list gives all items of a page at once.
pub struct FnListerWatcher<L, W> {
    list: L,
    watch: W,
    watch_list: bool,
}

impl<L, W> FnListerWatcher<L, W>
where
    L: Fn(&ListParams) -> Result<(Vec<Object>, ListMeta)> + Send + Sync,
    W: Fn(&WatchParams) -> Result<EventStream> + Send + Sync,
{
    /// A source that answers with what the closures return.
    pub fn new(list: L, watch: W) -> Self {
        Self { list, watch, watch_list: false }
    }

    /// Says that the watches may begin with the present objects (`sendInitialEvents`).
    #[must_use]
    pub fn with_watch_list(mut self) -> Self {
        self.watch_list = true;
        self
    }
}

impl<L, W> ListerWatcher for FnListerWatcher<L, W>
where
    L: Fn(&ListParams) -> Result<(Vec<Object>, ListMeta)> + Send + Sync,
    W: Fn(&WatchParams) -> Result<EventStream> + Send + Sync,
{
    fn list<'a>(&'a self, params: &'a ListParams, item: ItemSink<'a>) -> BoxFuture<'a, Result<ListMeta>> {
        Box::pin(async move {
            let (items, meta) = (self.list)(params)?;
            items.into_iter().for_each(item);
            Ok(meta)
        })
    }

    fn watch<'a>(&'a self, params: &'a WatchParams) -> BoxFuture<'a, Result<EventStream>> {
        Box::pin(async move { (self.watch)(params) })
    }

    fn supports_watch_list(&self) -> bool {
        self.watch_list
    }
}

/// What both selectors select, in the API's text form.
pub(crate) fn both(a: &str, b: &str) -> String {
    match (a, b) {
        ("", one) | (one, "") => one.to_owned(),
        _ => format!("{a},{b}"),
    }
}
