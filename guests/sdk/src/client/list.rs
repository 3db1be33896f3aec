//! [`List`]: a live list, fetched page by page during the iteration.

use super::ListOptions;
use crate::{Context, Error, Kind, Object};

/// Iterator over the objects of a live list. It ends after an error. If the continue token has expired
/// ([`Error::is_expired`]), start the list again.
pub struct List<'call> {
    pages: Pages<'call>,
    page: std::vec::IntoIter<Object<'call>>,
}

/// Iterator over the pages of a live list.
pub struct Pages<'call> {
    ctx: &'call Context,
    kind: Kind,
    /// Options of the next page; `None` after the last page.
    next: Option<ListOptions>,
}

/// One page of a live list.
#[derive(Debug)]
#[non_exhaustive]
pub struct Page<'call> {
    /// The objects.
    pub items: Vec<Object<'call>>,
    /// The resource version of the list.
    pub resource_version: String,
    /// How many objects follow, if the server says so.
    pub remaining_items: Option<u64>,
}

impl<'call> List<'call> {
    pub(super) fn new(ctx: &'call Context, kind: &Kind, options: &ListOptions) -> Self {
        Self {
            pages: Pages { ctx, kind: kind.clone(), next: Some(options.clone()) },
            page: Vec::new().into_iter(),
        }
    }

    /// Iterates over pages instead of objects.
    pub fn pages(self) -> Pages<'call> {
        self.pages
    }
}

impl<'call> Iterator for List<'call> {
    type Item = Result<Object<'call>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(object) = self.page.next() {
                return Some(Ok(object));
            }
            // An empty page may be followed by further pages.
            match self.pages.next()? {
                Ok(page) => self.page = page.items.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl<'call> Iterator for Pages<'call> {
    type Item = Result<Page<'call>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut options = self.next.take()?;
        let page = match self.ctx.host().client_list(self.ctx.cluster(), &self.kind, &options.raw()) {
            Ok(page) => page,
            Err(error) => return Some(Err(error.into())),
        };
        if page.continue_token.is_some() {
            // The token already determines the version; the API server rejects both together.
            options.resource_version = None;
            options.version_match = None;
            options.continue_token = page.continue_token;
            self.next = Some(options);
        }
        let items = page.items.into_iter().map(Object::new).collect();
        Some(Ok(Page {
            items,
            resource_version: page.resource_version,
            remaining_items: page.remaining_items,
        }))
    }
}
