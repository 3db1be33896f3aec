//! Listing: which version is asked for, page by page, and what is done when the server has it no more or not yet.
//!
//! Items go from the decoder straight into the list that the queue will get; one that the store holds in the same
//! version is dropped at once in favour of that one, so a relist costs little more than its changes.

use std::sync::atomic::Ordering;

use pilothouse_client::{Error, ListParams, Result};
use pilothouse_object::Object;
use tokio::time::Instant;

use super::{Reflector, Stop, count, gated};
use crate::version::ResourceVersion;

/// A list as it came.
struct Listed {
    items: Vec<Object>,
    version: ResourceVersion,
    paged: bool,
}

impl Reflector {
    /// Lists, and hands the list to the queue.
    pub(super) async fn list(&mut self) -> std::result::Result<(), Stop> {
        // A wish for a list that came before this is met by it.
        self.relist.mark_unchanged();
        let mut asked = self.list_version();
        let began = Instant::now();
        count(&self.shared.lists);
        let outcome = match self.list_at(&asked).await {
            Err(error) if error.is_expired() => {
                self.tell_expired();
                None
            }
            Err(error) if error.is_too_large_resource_version() => None,
            // The watch cache of a server that has just started may lag behind what another one told us.
            Ok(listed) if !asked.is_empty() && listed.version.is_older_than(&self.newest) => {
                tracing::info!(event = "stale_list", cluster = self.shared.cluster(), resource = %self.resource,
                    got = %listed.version, newest = %self.newest,
                    "the list is older than what was seen; asking for the newest state");
                None
            }
            other => Some(other),
        };
        let outcome = match outcome {
            Some(outcome) => outcome,
            None => {
                // Once, and at once.
                self.version_unavailable = true;
                asked = String::new();
                self.list_at("").await
            }
        };
        self.shared.list_duration.lock().observe(began.elapsed().as_secs_f64());
        let listed = outcome.inspect_err(|_| count(&self.shared.list_failures))?;
        if asked == "0" && listed.paged {
            self.paged_from_zero = true;
        }
        self.shared.items_per_list.lock().observe(listed.items.len() as f64);
        self.hand_over(listed.items, listed.version).await
    }

    /// Hands all objects as of a version to the queue; from there the watch goes on.
    pub(super) async fn hand_over(
        &mut self,
        objects: Vec<Object>,
        version: ResourceVersion,
    ) -> std::result::Result<(), Stop> {
        if version.is_older_than(&self.newest) {
            tracing::warn!(event = "backup_restored", cluster = self.shared.cluster(), resource = %self.resource,
                got = %version, newest = %self.newest,
                "the newest state of the server is older than what was seen: it was restored from a backup");
            self.newest = version.clone();
        }
        self.fifo.replace(objects, version.clone()).await?;
        self.version_unavailable = false;
        if !self.relist.has_changed().unwrap_or(false) {
            self.shared.list_wanted.store(false, Ordering::Relaxed);
        }
        self.set_version(version);
        self.succeeded();
        Ok(())
    }

    fn list_version(&self) -> String {
        if self.version_unavailable {
            String::new()
        } else if !self.version.is_empty() {
            self.version.to_string()
        } else if self.options.first_list_quorum {
            String::new()
        } else {
            "0".to_owned()
        }
    }

    /// All pages of a list; "" is a quorum read.
    async fn list_at(&self, version: &str) -> Result<Listed> {
        // A limit makes the server read from etcd instead of its watch cache.
        let limit = match version {
            "" | "0" => self.options.page_size,
            _ if self.paged_from_zero => self.options.page_size,
            _ => 0,
        };
        let first = ListParams {
            resource_version: (!version.is_empty()).then(|| version.to_owned()),
            limit,
            ..ListParams::default()
        };
        let mut items = Vec::new();
        let mut params = first.clone();
        let mut list_version = None;
        loop {
            let page = self.page(&params, &mut items).await;
            let meta = match page {
                Ok(meta) => meta,
                // The token ran out in the middle: one list without pages, from where the first page was asked for.
                Err(error) if error.is_expired() && params.continue_token.is_some() => {
                    items.clear();
                    let whole = ListParams { limit: 0, ..first };
                    let meta = self.page(&whole, &mut items).await?;
                    return listed(items, meta.resource_version, true);
                }
                Err(error) => return Err(error),
            };
            let list_version = list_version.get_or_insert(meta.resource_version);
            if meta.continue_token.is_empty() {
                let paged = params.continue_token.is_some();
                return listed(items, std::mem::take(list_version), paged);
            }
            params.resource_version = None;
            params.continue_token = Some(meta.continue_token);
        }
    }

    async fn page(
        &self,
        params: &ListParams,
        items: &mut Vec<Object>,
    ) -> Result<pilothouse_object::ListMeta> {
        count(&self.shared.list_pages);
        let known = items.len();
        let mut keep = |object: Object| items.extend(self.receiver.listed(object));
        let outcome = gated(&self.options.availability, self.source.list(params, &mut keep)).await;
        if outcome.is_err() {
            items.truncate(known);
        }
        outcome
    }
}

fn listed(items: Vec<Object>, version: String, paged: bool) -> Result<Listed> {
    if version.is_empty() {
        return Err(Error::Protocol {
            doing: "list".to_owned(),
            message: "the list has no resourceVersion, so no watch can go on from it".to_owned(),
        });
    }
    Ok(Listed { items, version: version.as_str().into(), paged })
}
