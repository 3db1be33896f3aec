//! Lists: one page with its items handed on while decoding, and the pager over all pages.
//!
//! A page is read whole, then split item by item, each item copied out, so that the page's bytes are gone when the call
//! returns. Pages too large to decode between two polls of a task are decoded on a blocking thread and handed over in
//! batches. The pager keeps client-go's rules: pages of 500, and a continue token that has expired after the first page
//! turns the whole into one list without a limit at the version that was asked for.

use bytes::Bytes;
use pilothouse_object::{Gvk, ListMeta, Object, decode_list};
use tokio::sync::mpsc;

use crate::call::{Call, LIST_LIMIT, protocol};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::params::{ApiResource, ListParams};
use crate::url::Target;

/// Items in a page when the caller names no number.
pub const PAGE_SIZE: u32 = 500;
/// About 10 ms of decoding.
const INLINE_LIMIT: usize = 4 << 20;
/// Items handed over from the blocking thread at a time.
const BATCH: usize = 128;

/// All pages of a list.
#[derive(Debug, Clone)]
pub struct ObjectList {
    /// Metadata of the last page, or of the full list that replaced the pages; without a continue token.
    pub meta: ListMeta,
    /// The items in the server's order.
    pub items: Vec<Object>,
    /// Whether the server answered in more than one page.
    pub paginated: bool,
}

impl Client {
    /// Reads one page of a list; each item goes to `item` as soon as it is decoded.
    ///
    /// # Errors
    /// As the server answers; [`Error::Protocol`] when the page is not a list of objects. Items before the fault have
    /// been handed on by then.
    pub async fn list_page(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        params: &ListParams,
        item: &mut (dyn FnMut(Object) + Send),
    ) -> Result<ListMeta> {
        let mut target = Target::collection(resource, namespace)?;
        target.list(params);
        let mut call = Call::list(target, params);
        if params.limit == 0 {
            call = call.while_bytes_come();
        }
        let page = self.fetch_ok(&call, LIST_LIMIT).await?;
        let decoded = if page.len() <= INLINE_LIMIT {
            decode_list(&page, &resource.gvk, item).map_err(|e| e.to_string())
        } else {
            self.decode_aside(page, resource.gvk.clone(), item).await
        };
        decoded.map_err(|message| protocol(self.doing(&call), &message))
    }

    /// Reads all pages of a list. `params.limit` is the page size, 0 for [`PAGE_SIZE`].
    ///
    /// # Errors
    /// As [`Client::list_page`]; [`Error::Request`] when `params` names a continue token.
    pub async fn list_all(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        params: &ListParams,
    ) -> Result<ObjectList> {
        self.list_all_with(resource, namespace, params, &mut Some).await
    }

    /// Reads all pages of a list and keeps of each item what `keep` makes of it, so that nothing larger is held than
    /// what is wanted. `keep` may see an item twice: when a continue token expires, the list begins anew.
    ///
    /// # Errors
    /// As [`Client::list_all`].
    pub async fn list_all_with(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        params: &ListParams,
        keep: &mut (dyn FnMut(Object) -> Option<Object> + Send),
    ) -> Result<ObjectList> {
        if params.continue_token.is_some() {
            return Err(Error::Request(
                "a list of all pages begins with the first: no continue token".to_owned(),
            ));
        }
        let mut page = params.clone();
        if page.limit == 0 {
            page.limit = PAGE_SIZE;
        }
        let mut items = Vec::new();
        let mut paginated = false;
        loop {
            let listed =
                self.list_page(resource, namespace, &page, &mut |object| items.extend(keep(object))).await;
            let mut meta = match listed {
                Ok(meta) => meta,
                Err(error) if paginated && error.is_expired() && page.limit > 0 => {
                    items.clear();
                    page = ListParams { limit: 0, ..params.clone() };
                    continue;
                }
                Err(error) => return Err(error),
            };
            if meta.continue_token.is_empty() {
                if paginated {
                    meta.remaining_item_count = None;
                }
                return Ok(ObjectList { meta, items, paginated });
            }
            paginated = true;
            page.continue_token = Some(meta.continue_token);
            // The token holds the version; naming one beside it is an error.
            page.resource_version = None;
            page.resource_version_match = None;
        }
    }

    async fn decode_aside(
        &self,
        page: Bytes,
        kind: Gvk,
        item: &mut (dyn FnMut(Object) + Send),
    ) -> std::result::Result<ListMeta, String> {
        let (sender, mut receiver) = mpsc::channel::<Vec<Object>>(4);
        let decoding = self.shared.runtime.spawn_blocking(move || {
            let mut batch = Vec::with_capacity(BATCH);
            let decoded = decode_list(&page, &kind, |object| {
                batch.push(object);
                if batch.len() == BATCH {
                    // Nobody listens when the caller has given up; the rest is then decoded for nothing.
                    let _ = sender.blocking_send(std::mem::replace(&mut batch, Vec::with_capacity(BATCH)));
                }
            });
            let _ = sender.blocking_send(batch);
            decoded.map_err(|e| e.to_string())
        });
        while let Some(batch) = receiver.recv().await {
            batch.into_iter().for_each(&mut *item);
        }
        decoding.await.unwrap_or_else(|e| Err(format!("decoding stopped: {e}")))
    }
}
