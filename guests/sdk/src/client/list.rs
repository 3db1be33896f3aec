//! [`List`]: a live list, fetched page by page during the iteration.

use super::{ApiError, ListOptions, options};
use crate::bindings::imports::client as raw;
use crate::{Kind, Object};

/// Iterator over the objects of a live list. It ends after an error. If the continue token has expired
/// ([`ApiError::is_expired`]), start the list again.
#[derive(Debug)]
pub struct List {
    pages: Pages,
    page: std::vec::IntoIter<Object>,
}

/// Iterator over the pages of a live list.
#[derive(Debug)]
pub struct Pages {
    kind: Kind,
    /// Options of the next page; `None` after the last page.
    next: Option<ListOptions>,
}

/// One page of a live list.
#[derive(Debug)]
pub struct Page {
    /// The objects.
    pub items: Vec<Object>,
    /// The resource version of the list.
    pub resource_version: String,
}

impl List {
    pub(super) fn new(kind: &Kind, options: &ListOptions) -> Self {
        Self {
            pages: Pages { kind: kind.clone(), next: Some(options.clone()) },
            page: Vec::new().into_iter(),
        }
    }

    /// Iterates over pages instead of objects.
    pub fn pages(self) -> Pages {
        self.pages
    }
}

impl Iterator for List {
    type Item = Result<Object, ApiError>;

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

impl Iterator for Pages {
    type Item = Result<Page, ApiError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut options = self.next.take()?;
        let page = match raw::list(&self.kind.raw(), &options::text(&options)) {
            Ok(page) => page,
            Err(error) => return Some(Err(error.into())),
        };
        if page.continue_token.is_some() {
            // The token already determines the version; the API server rejects both together.
            options.resource_version = None;
            options.continue_token = page.continue_token;
            self.next = Some(options);
        }
        let items = page.items.into_iter().map(Object::new).collect();
        Some(Ok(Page { items, resource_version: page.resource_version }))
    }
}
