//! Lists: one page with its items handed on while decoding, and the pager over all pages.
//!
//! A page is decoded while its bytes come, each item copied out, so that memory does not grow with the page: servers
//! answer a list of version "0" in one piece, whatever limit is asked for. The pager keeps client-go's rules: pages of
//! 500, and a continue token that has expired after the first page turns the whole into one list without a limit at the
//! version that was asked for: the items then are those of one version, and the items before are void.

use pilothouse_object::{DecodeError, ListDecoder, ListMeta, Object};

use crate::client::Call;
use crate::client::Client;
use crate::client::failure::undecodable;
use crate::error::{Error, Result};
use crate::params::{ApiResource, ListParams};
use crate::url::Target;

/// Items in a page when the caller names no number.
pub const PAGE_SIZE: u32 = 500;

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

/// An item of a list of all pages, or its restart.
#[derive(Debug, Clone)]
pub enum Listed {
    /// The next item.
    Item(Object),
    /// The continue token has expired: the list begins anew, at another version. The items before are void.
    Restarted,
}

/// Metadata of a list of all pages.
#[derive(Debug, Clone)]
pub struct ListSummary {
    /// Metadata of the last page, or of the full list that replaced the pages; without a continue token.
    pub meta: ListMeta,
    /// Whether the server answered in more than one page.
    pub paginated: bool,
}

impl Client {
    /// Reads one page of a list, however large; each item goes to `item` as soon as it is decoded. It may take longer
    /// than the request timeout as long as bytes keep coming.
    ///
    /// # Errors
    /// As the server answers; [`Error::Protocol`] when the page is not a list of objects, or one of them is longer than
    /// 16 MiB. Items before the fault have been handed on by then.
    pub async fn list_page(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        params: &ListParams,
        item: &mut (dyn FnMut(Object) + Send),
    ) -> Result<ListMeta> {
        let take = &mut |object| {
            item(object);
            Ok(())
        };
        self.list_page_until(resource, namespace, params, take).await
    }

    /// As [`Client::list_page`]; an error of `take` ends the call, and the rest of the page is not read.
    ///
    /// # Errors
    /// As [`Client::list_page`]; and the error of `take`.
    pub async fn list_page_until(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        params: &ListParams,
        take: &mut (dyn FnMut(Object) -> Result<()> + Send),
    ) -> Result<ListMeta> {
        let mut target = Target::collection(resource, namespace)?;
        target.list(params);
        let call = Call::list(target, params);
        let unexpected = |error: DecodeError| undecodable(self.doing(&call), &error);
        let mut decoder = ListDecoder::new(resource.gvk.clone());
        // The decoder cannot be stopped within a piece.
        let mut taken = Ok(());
        let mut item = |object, taken: &mut Result<()>| {
            if taken.is_ok() {
                *taken = take(object);
            }
        };
        self.fetch_pieces(&call, &mut |piece| {
            decoder.push(piece, &mut |object| item(object, &mut taken)).map_err(unexpected)?;
            std::mem::replace(&mut taken, Ok(()))
        })
        .await?;
        let meta = decoder.finish(&mut |object| item(object, &mut taken)).map_err(unexpected)?;
        taken.map(|()| meta)
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
        let mut items = Vec::new();
        let mut take = |listed| {
            match listed {
                Listed::Item(object) => items.extend(keep(object)),
                Listed::Restarted => items.clear(),
            }
            Ok(())
        };
        let ListSummary { meta, paginated } = self.list_each(resource, namespace, params, &mut take).await?;
        Ok(ObjectList { meta, items, paginated })
    }

    /// Reads all pages of a list and keeps nothing: each item goes to `take` as soon as it is decoded. `params.limit` is the page
    /// size, 0 for [`PAGE_SIZE`]. A page is asked for when the one before has been taken.
    ///
    /// # Errors
    /// As [`Client::list_all`]; and the error of `take`, after which no more is read. Items before the fault have been handed on by then.
    pub async fn list_each(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        params: &ListParams,
        take: &mut (dyn FnMut(Listed) -> Result<()> + Send),
    ) -> Result<ListSummary> {
        if params.continue_token.is_some() {
            return Err(Error::Request(
                "a list of all pages begins with the first: no continue token".to_owned(),
            ));
        }
        let mut page = params.clone();
        if page.limit == 0 {
            page.limit = PAGE_SIZE;
        }
        let mut paginated = false;
        loop {
            let mut stopped = false;
            let mut item = |object| take(Listed::Item(object)).inspect_err(|_| stopped = true);
            let listed = self.list_page_until(resource, namespace, &page, &mut item).await;
            let mut meta = match listed {
                Ok(meta) => meta,
                Err(error) if paginated && error.is_expired() && page.limit > 0 && !stopped => {
                    take(Listed::Restarted)?;
                    page = ListParams { limit: 0, ..params.clone() };
                    continue;
                }
                Err(error) => return Err(error),
            };
            if meta.continue_token.is_empty() {
                if paginated {
                    meta.remaining_item_count = None;
                }
                return Ok(ListSummary { meta, paginated });
            }
            if page.continue_token.as_ref() == Some(&meta.continue_token) {
                return Err(Error::Protocol {
                    doing: format!("listing {}", resource.gvr()),
                    message:
                        "the continue token of a page is that of the page before: the list would never end"
                            .to_owned(),
                });
            }
            paginated = true;
            page.continue_token = Some(meta.continue_token);
            // The token holds the version; naming one beside it is an error.
            page.resource_version = None;
            page.resource_version_match = None;
        }
    }
}
