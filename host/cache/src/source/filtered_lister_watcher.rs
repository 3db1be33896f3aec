//! [`FilteredListerWatcher`]: a source narrowed by selectors, or with its requests changed in any other way.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use pilothouse_client::{ListParams, Result, WatchParams};
use pilothouse_object::ListMeta;

use crate::source::lister_watcher::{EventStream, ItemSink, ListerWatcher, both};

type Tweak<P> = Arc<dyn Fn(&mut P) + Send + Sync>;

/// A source around another one: client-go's `NewFilteredListWatchFromClient` with its options modifier.
#[derive(Clone)]
pub struct FilteredListerWatcher {
    inner: Arc<dyn ListerWatcher>,
    label_selector: String,
    field_selector: String,
    list: Option<Tweak<ListParams>>,
    watch: Option<Tweak<WatchParams>>,
}

impl FilteredListerWatcher {
    /// The source as it is.
    #[must_use]
    pub fn new(inner: Arc<dyn ListerWatcher>) -> Self {
        Self { inner, label_selector: String::new(), field_selector: String::new(), list: None, watch: None }
    }

    /// Only objects that match this label selector too, in the API's text form.
    #[must_use]
    pub fn label_selector(mut self, selector: &str) -> Self {
        self.label_selector = both(&self.label_selector, selector);
        self
    }

    /// Only objects that match this field selector too, in the API's text form.
    #[must_use]
    pub fn field_selector(mut self, selector: &str) -> Self {
        self.field_selector = both(&self.field_selector, selector);
        self
    }

    /// Changes the parameters of each list, after everything else.
    #[must_use]
    pub fn list_params(mut self, tweak: impl Fn(&mut ListParams) + Send + Sync + 'static) -> Self {
        self.list = Some(Arc::new(tweak));
        self
    }

    /// Changes the parameters of each watch, after everything else. Lists and watches must select the same objects.
    #[must_use]
    pub fn watch_params(mut self, tweak: impl Fn(&mut WatchParams) + Send + Sync + 'static) -> Self {
        self.watch = Some(Arc::new(tweak));
        self
    }
}

impl ListerWatcher for FilteredListerWatcher {
    fn list<'a>(&'a self, params: &'a ListParams, item: ItemSink<'a>) -> BoxFuture<'a, Result<ListMeta>> {
        Box::pin(async move {
            let mut params = ListParams {
                label_selector: both(&params.label_selector, &self.label_selector),
                field_selector: both(&params.field_selector, &self.field_selector),
                ..params.clone()
            };
            self.list.iter().for_each(|tweak| tweak(&mut params));
            self.inner.list(&params, item).await
        })
    }

    fn watch<'a>(&'a self, params: &'a WatchParams) -> BoxFuture<'a, Result<EventStream>> {
        Box::pin(async move {
            let mut params = WatchParams {
                label_selector: both(&params.label_selector, &self.label_selector),
                field_selector: both(&params.field_selector, &self.field_selector),
                ..params.clone()
            };
            self.watch.iter().for_each(|tweak| tweak(&mut params));
            self.inner.watch(&params).await
        })
    }

    fn supports_watch_list(&self) -> bool {
        self.inner.supports_watch_list()
    }
}
