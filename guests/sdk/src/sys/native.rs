//! The border in native builds: [`Host`] is a trait object, and objects are values in memory.
//!
//! [`Object`], [`Cursor`] and [`Values`] have the methods of the generated bindings.

mod object;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

pub(crate) use object::{Object, select};

use crate::bindings::imports::types as raw;
use crate::cache::Query;
use crate::http;
use crate::log::Level;
use crate::{Key, Kind};

use super::{CallOptions, Called, Declaration, EventParts, MetricUse, Page, PatchKind, Refused};

/// The host behind a native [`Context`](crate::Context).
pub(crate) trait NativeHost {
    fn clusters(&self) -> Vec<String>;
    fn cache_get(&self, cluster: u32, kind: &Kind, namespace: &str, name: &str) -> Refused<Option<Object>>;
    fn cache_get_many(&self, cluster: u32, kind: &Kind, keys: &[Key]) -> Refused<Vec<Option<Object>>>;
    fn cache_list(&self, cluster: u32, kind: &Kind, query: &Query) -> Refused<Cursor>;
    fn cache_count(&self, cluster: u32, kind: &Kind, query: &Query) -> Refused<u64>;
    fn cache_index_values(&self, cluster: u32, kind: &Kind, index: &str) -> Refused<Values>;
    fn wait_for_writes(&self, milliseconds: u64) -> bool;
    fn client_get(&self, cluster: u32, kind: &Kind, key: &Key, options: &CallOptions<'_>) -> Called<Object>;
    fn client_list(&self, cluster: u32, kind: &Kind, options: &CallOptions<'_>) -> Called<Page>;
    fn client_create(
        &self,
        cluster: u32,
        kind: &Kind,
        body: &[u8],
        options: &CallOptions<'_>,
    ) -> Called<Object>;
    fn client_update(
        &self,
        cluster: u32,
        kind: &Kind,
        body: &[u8],
        options: &CallOptions<'_>,
    ) -> Called<Object>;
    fn client_patch(
        &self,
        cluster: u32,
        kind: &Kind,
        key: &Key,
        patch: PatchKind,
        body: &[u8],
        options: &CallOptions<'_>,
    ) -> Called<Object>;
    fn client_delete(
        &self,
        cluster: u32,
        kind: &Kind,
        key: &Key,
        options: &CallOptions<'_>,
    ) -> Called<Option<Object>>;
    fn client_delete_collection(&self, cluster: u32, kind: &Kind, options: &CallOptions<'_>) -> Called<()>;
    fn pod_log(&self, cluster: u32, key: &Key, options: &CallOptions<'_>) -> Called<Vec<u8>>;
    fn may(&self, cluster: u32, kind: &Kind, verb: &str, subresource: &str, key: &Key) -> Called<bool>;
    fn queue_add(&self, cluster: u32, key: &Key, priority: i32) -> Refused<()>;
    fn queue_add_many(&self, cluster: u32, keys: &[Key], priority: i32) -> Refused<()>;
    fn queue_add_after(&self, cluster: u32, key: &Key, milliseconds: u64) -> Refused<()>;
    fn queue_add_rate_limited(&self, cluster: u32, key: &Key) -> Refused<()>;
    fn queue_forget(&self, cluster: u32, key: &Key) -> Refused<()>;
    fn queue_num_requeues(&self, cluster: u32, key: &Key) -> u32;
    fn queue_len(&self) -> u32;
    fn record_event(&self, cluster: u32, parts: &EventParts<'_>) -> Refused<()>;
    fn now(&self) -> u64;
    fn now_rfc3339(&self) -> String;
    fn declare_metric(&self, declaration: &Declaration<'_>) -> Refused<MetricHandle>;
    fn use_metric(&self, metric: &MetricHandle, labels: &[&str], what: MetricUse) -> Refused<()>;
    fn send_http(&self, request: &http::Request) -> Result<http::Response, http::Error>;
}

/// The host, shared by the contexts of a test.
pub(crate) type Host = Rc<dyn NativeHost>;

/// A declared metric: its name.
#[derive(Debug, Clone)]
pub(crate) struct MetricHandle(pub(crate) String);

/// Objects that are read one after the other.
pub(crate) struct Cursor(RefCell<VecDeque<Object>>);

impl Cursor {
    pub(crate) fn new(objects: impl IntoIterator<Item = Object>) -> Self {
        Self(RefCell::new(objects.into_iter().collect()))
    }

    pub(crate) fn next(&self, max: u32) -> Refused<Vec<Object>> {
        let mut rest = self.0.borrow_mut();
        let count = rest.len().min(max as usize);
        Ok(rest.drain(..count).collect())
    }

    pub(crate) fn next_keys(&self, max: u32) -> Vec<raw::ObjectKey> {
        let mut rest = self.0.borrow_mut();
        let count = rest.len().min(max as usize);
        rest.drain(..count).map(|object| object.key()).collect()
    }

    pub(crate) fn remaining(&self) -> u64 {
        self.0.borrow().len() as u64
    }
}

/// The values of an index that are read one after the other.
pub(crate) struct Values(RefCell<VecDeque<String>>);

impl Values {
    pub(crate) fn new(values: impl IntoIterator<Item = String>) -> Self {
        Self(RefCell::new(values.into_iter().collect()))
    }

    pub(crate) fn next(&self, max: u32) -> Refused<Vec<String>> {
        let mut rest = self.0.borrow_mut();
        let count = rest.len().min(max as usize);
        Ok(rest.drain(..count).collect())
    }
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) level: Level,
    pub(crate) message: String,
    pub(crate) fields: Vec<(String, String)>,
}

thread_local! {
    /// Where the log macros of this thread write to: the lines of the world that was made or called last. They have no
    /// context, so a test thread has one log at a time.
    static LOG: RefCell<Option<Rc<RefCell<Vec<Line>>>>> = const { RefCell::new(None) };
    static LEVEL: Cell<Level> = const { Cell::new(Level::Trace) };
}

/// Sets the log of this thread.
pub(crate) fn log_to(lines: &Rc<RefCell<Vec<Line>>>) {
    LOG.with_borrow_mut(|log| *log = Some(Rc::clone(lines)));
}

/// Sets the lowest level that is logged in this thread.
pub(crate) fn log_from(level: Level) {
    LEVEL.set(level);
}

pub(crate) fn log_enabled(level: Level) -> bool {
    level >= LEVEL.get()
}

pub(crate) fn log_write(level: Level, message: &str, fields: &[(String, String)]) {
    let line = Line { level, message: message.to_owned(), fields: fields.to_vec() };
    LOG.with_borrow(|log| match log {
        Some(lines) => lines.borrow_mut().push(line),
        None => eprintln!("{level:?} {message} {fields:?}"),
    });
}

/// The configuration in native builds, where `describe` and `new` are called with one: empty.
pub(crate) fn config() -> Vec<u8> {
    b"{}".to_vec()
}
