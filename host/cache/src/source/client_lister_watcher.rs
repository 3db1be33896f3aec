//! [`ClientListerWatcher`]: the objects of one resource, in one scope, from an API server.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use pilothouse_client::{ApiResource, Client, ListParams, Result, WatchParams};
use pilothouse_object::ListMeta;

use crate::source::lister_watcher::{EventStream, ItemSink, ListerWatcher, both};

type Tweak<P> = Arc<dyn Fn(&mut P) + Send + Sync>;

/// Lists and watches one resource through a client, in one namespace or in all, under selectors.
#[derive(Clone)]
pub struct ClientListerWatcher {
    client: Client,
    resource: ApiResource,
    namespace: Option<String>,
    label_selector: String,
    field_selector: String,
    tweak_list: Option<Tweak<ListParams>>,
    tweak_watch: Option<Tweak<WatchParams>>,
}

impl ClientListerWatcher {
    /// All objects of a resource, in one namespace or in all.
    #[must_use]
    pub fn new(client: Client, resource: ApiResource, namespace: Option<&str>) -> Self {
        Self {
            client,
            resource,
            namespace: namespace.map(str::to_owned),
            label_selector: String::new(),
            field_selector: String::new(),
            tweak_list: None,
            tweak_watch: None,
        }
    }

    /// Only objects that match a label selector in the API's text form.
    #[must_use]
    pub fn label_selector(mut self, selector: impl Into<String>) -> Self {
        self.label_selector = selector.into();
        self
    }

    /// Only objects that match a field selector in the API's text form.
    #[must_use]
    pub fn field_selector(mut self, selector: impl Into<String>) -> Self {
        self.field_selector = selector.into();
        self
    }

    /// Changes the parameters of each list, after everything else.
    #[must_use]
    pub fn list_params(mut self, tweak: impl Fn(&mut ListParams) + Send + Sync + 'static) -> Self {
        self.tweak_list = Some(Arc::new(tweak));
        self
    }

    /// Changes the parameters of each watch, after everything else. Lists and watches must select the same objects.
    #[must_use]
    pub fn watch_params(mut self, tweak: impl Fn(&mut WatchParams) + Send + Sync + 'static) -> Self {
        self.tweak_watch = Some(Arc::new(tweak));
        self
    }
}

impl ListerWatcher for ClientListerWatcher {
    fn list<'a>(&'a self, params: &'a ListParams, item: ItemSink<'a>) -> BoxFuture<'a, Result<ListMeta>> {
        Box::pin(async move {
            let mut params = ListParams {
                label_selector: both(&params.label_selector, &self.label_selector),
                field_selector: both(&params.field_selector, &self.field_selector),
                ..params.clone()
            };
            self.tweak_list.iter().for_each(|tweak| tweak(&mut params));
            self.client.list_page(&self.resource, self.namespace.as_deref(), &params, item).await
        })
    }

    fn watch<'a>(&'a self, params: &'a WatchParams) -> BoxFuture<'a, Result<EventStream>> {
        Box::pin(async move {
            let mut params = WatchParams {
                label_selector: both(&params.label_selector, &self.label_selector),
                field_selector: both(&params.field_selector, &self.field_selector),
                ..params.clone()
            };
            self.tweak_watch.iter().for_each(|tweak| tweak(&mut params));
            let stream = self.client.watch(&self.resource, self.namespace.as_deref(), &params).await?;
            Ok(stream.boxed())
        })
    }

    fn supports_watch_list(&self) -> bool {
        true
    }

    fn is_served(&self) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move { self.client.discovery().is_served(&self.resource).await })
    }
}
