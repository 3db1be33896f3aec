//! The `cache` interface: reads from the host's stores, within the plugin's grants.
//!
//! Reads run on the guest's thread and are charged to its CPU budget. Only the wait for writes is not charged.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pilothouse_object::Object;
use wasmtime::component::Resource;

use super::builders::{Builder, built, set_text};
use super::{MAX_TEXT, Refused, key, wit_key};
use crate::bindings::pilothouse::controller::cache::{Host, HostCursor, HostQuery, HostValues, ObjectKey};
use crate::error::OverLimit;
use crate::handles::Entry;
use crate::host::{CacheQuery, ObjectCursor, Refusal};
use crate::imports::scan::{Scan, portion, remaining};
use crate::imports::sorted::{First, SORTED_BYTES, Sorted};
use crate::imports::{Answer, Cursor, ImportCall, Kind, Query, Values};
use crate::state::StoreState;

/// Most keys and values of one portion.
const MAX_KEYS: usize = 16_384;

/// Maximum length in bytes of the name of an index and of a value in it.
const MAX_INDEX_TEXT: usize = 4 << 10;

/// The cost of a text in an answer: its bytes, and its pointer and length in the guest.
fn text_bytes(text: &str) -> usize {
    text.len() + 8
}

impl Builder for Query {
    fn held(&self) -> usize {
        let index = self.index.as_ref().map_or(0, |(name, value)| name.len() + value.len());
        self.namespace.len() + self.label_selector.len() + index
    }

    fn clear(&mut self) {
        self.namespace = String::new();
        self.label_selector = String::new();
        self.index = None;
    }

    fn refusal(&mut self) -> &mut Option<Refusal> {
        &mut self.refusal
    }
}

impl StoreState {
    /// The objects of a query, in no order.
    fn queried(&mut self, this: &Resource<Query>) -> Result<(Box<dyn ObjectCursor>, u64), Refused> {
        let query = built(&mut self.handles, this)?;
        let index = query.index.as_ref().map(|(name, value)| (&**name, &**value));
        let asked = CacheQuery { namespace: &query.namespace, label_selector: &query.label_selector, index };
        Ok((self.host.cache_list(&query.kind, asked)?, query.limit))
    }
}

impl Host for ImportCall<'_> {
    fn get(
        &mut self,
        kind: Resource<Kind>,
        namespace: String,
        name: String,
    ) -> Result<Option<Resource<Object>>, Refused> {
        let key = key(&namespace, &name)?;
        let object = self.host.cache_get(self.cached_kind(&kind)?, &key)?;
        Ok(object.map(|object| self.read_alone(object)).transpose()?)
    }

    fn get_many(
        &mut self,
        kind: Resource<Kind>,
        keys: Vec<ObjectKey>,
    ) -> Result<Vec<Option<Resource<Object>>>, Refused> {
        let most = self.limits.page_objects;
        if keys.len() > most {
            return Err(OverLimit::new(format_args!(
                "get-many was called with {} keys, at most {most} are allowed (limits.pageObjects): make several calls",
                keys.len()
            ))
            .into());
        }
        let mut objects = Vec::with_capacity(keys.len());
        for k in keys {
            objects.push(self.host.cache_get(self.cached_kind(&kind)?, &key(&k.namespace, &k.name)?)?);
            self.budget.check()?;
        }
        // All handles or none: those that are made and not answered could not be dropped.
        self.handles.check_room_for(objects.iter().flatten().count())?;
        let handles = objects
            .into_iter()
            .map(|object| object.map(|object| self.handles.push_cached(object.fresh())).transpose());
        Ok(handles.collect::<Result<_, _>>()?)
    }

    fn index_values(&mut self, kind: Resource<Kind>, index: String) -> Result<Resource<Values>, Refused> {
        let mut values = Vec::new();
        let mut bytes = 0_usize;
        let most = self.handles.free_bytes();
        let mut scan = Scan::new(&self.budget);
        self.host.cache_index_values(self.cached_kind(&kind)?, &index, &mut |value| {
            if let Some(value) = value {
                bytes += value.len() + size_of::<String>();
                if bytes > most {
                    return ControlFlow::Break(());
                }
                values.push(value.to_owned());
            }
            scan.look()
        })?;
        scan.end()?;
        if bytes > most {
            return Err(OverLimit::new(
                "the values exceed what is left of limits.handleBytes: drop handles that are no longer needed, or raise the \
                 limit",
            )
            .into());
        }
        values.reverse();
        Ok(self.handles.push(Entry::Values(Values(values)), bytes)?)
    }

    async fn wait_for_writes(&mut self, milliseconds: u64) -> wasmtime::Result<bool> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        // A tenth of the remaining time is left for the guest to act on the result.
        let limit = Duration::from_millis(milliseconds).min(left - left / 10);
        let wait = self.host.cache_wait_for_writes(limit);
        Ok(wait.await)
    }
}

impl HostQuery for ImportCall<'_> {
    fn new(&mut self, kind: Resource<Kind>) -> Result<Resource<Query>, Refused> {
        let query = Query {
            kind: self.cached_kind(&kind)?.clone(),
            namespace: String::new(),
            label_selector: String::new(),
            index: None,
            limit: u64::MAX,
            refusal: None,
        };
        Ok(self.handles.push_builder(Entry::Query(query), 0)?)
    }

    fn namespace(&mut self, this: Resource<Query>, name: String) -> wasmtime::Result<()> {
        self.build(&this, |query| set_text(&mut query.namespace, "the namespace", name, MAX_INDEX_TEXT))
    }

    fn label_selector(&mut self, this: Resource<Query>, selector: String) -> wasmtime::Result<()> {
        self.build(&this, |query| {
            set_text(&mut query.label_selector, "the label selector", selector, MAX_TEXT)
        })
    }

    fn index(&mut self, this: Resource<Query>, name: String, value: String) -> wasmtime::Result<()> {
        self.build(&this, |query| {
            let (of_index, of_value) = query.index.get_or_insert_default();
            set_text(of_index, "the name of the index", name, MAX_INDEX_TEXT)?;
            set_text(of_value, "the value of the index", value, MAX_INDEX_TEXT)
        })
    }

    fn limit(&mut self, this: Resource<Query>, objects: u64) -> wasmtime::Result<()> {
        self.handles.get(&this)?.limit = objects;
        Ok(())
    }

    fn run(&mut self, this: Resource<Query>) -> Result<Resource<Cursor>, Refused> {
        let (objects, limit) = self.queried(&this)?;
        let most = self.handles.free_bytes() / SORTED_BYTES;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let too_many = || {
            OverLimit::new(format_args!(
                "the query selects more objects than limits.handleBytes has room to sort, which is {most}: narrow it, drop \
                 handles that are no longer needed, or raise the limit"
            ))
        };
        if objects.is_in_order() {
            let first = First::new(objects, limit, most, &self.budget)?.ok_or_else(too_many)?;
            let held = first.taken() * SORTED_BYTES;
            return Ok(self.handles.push(Entry::Cursor(Cursor(Box::new(first))), held)?);
        }
        let sorted = Sorted::new(objects, limit, most, &self.budget)?.ok_or_else(too_many)?;
        let held = sorted.taken() * SORTED_BYTES;
        Ok(self.handles.push(Entry::Cursor(Cursor(Box::new(sorted))), held)?)
    }

    fn count(&mut self, this: Resource<Query>) -> Result<u64, Refused> {
        let (objects, limit) = self.queried(&this)?;
        Ok((remaining(&*objects, &self.budget)? as u64).min(limit))
    }

    fn drop(&mut self, this: Resource<Query>) -> wasmtime::Result<()> {
        self.handles.delete(&this);
        Ok(())
    }
}

impl HostCursor for ImportCall<'_> {
    fn next(&mut self, this: Resource<Cursor>, max: u32) -> Result<Vec<Resource<Object>>, Refused> {
        let budget = Arc::clone(&self.budget);
        let (room, page) = (self.handles.room(), self.limits.page_objects);
        let Cursor(objects) = self.handles.get(&this)?;
        let most = (max as usize).min(page).min(remaining(&**objects, &budget)?);
        // A shorter portion where the room ends. Nothing is taken before there is room for it: a guest that dropped handles
        // goes on where it was.
        let objects = portion(most.min(room), &budget, |visit| objects.visit(visit))?;
        if objects.is_empty() && most > 0 {
            self.handles.check_room_for(1)?;
        }
        Ok(objects.into_iter().map(|object| self.handles.push_cached(object)).collect::<Result<_, _>>()?)
    }

    fn next_keys(&mut self, this: Resource<Cursor>, max: u32) -> wasmtime::Result<Vec<ObjectKey>> {
        let most = (max as usize).min(MAX_KEYS);
        let budget = Arc::clone(&self.budget);
        let Cursor(objects) = self.handles.get(&this)?;
        portion(most, &budget, |visit| objects.visit_keys(&mut |key| visit(key.map(wit_key))))
    }

    fn remaining(&mut self, this: Resource<Cursor>) -> wasmtime::Result<u64> {
        let budget = Arc::clone(&self.budget);
        Ok(remaining(&*self.handles.get(&this)?.0, &budget)? as u64)
    }

    fn drop(&mut self, this: Resource<Cursor>) -> wasmtime::Result<()> {
        self.handles.delete(&this);
        Ok(())
    }
}

impl HostValues for ImportCall<'_> {
    fn next(&mut self, this: Resource<Values>, max: u32) -> Result<Vec<String>, Refused> {
        let mut room = Answer::new("next", self.limits.answer_bytes);
        let Values(values) = self.handles.get(&this)?;
        let mut portion = Vec::new();
        let most = (max as usize).min(MAX_KEYS);
        while portion.len() < most
            && let Some(value) = values.pop()
        {
            if let Err(over) = room.add(text_bytes(&value)) {
                let is_alone = portion.is_empty();
                values.push(value);
                if is_alone {
                    return Err(over.into());
                }
                break;
            }
            portion.push(value);
        }
        Ok(portion)
    }

    fn drop(&mut self, this: Resource<Values>) -> wasmtime::Result<()> {
        self.handles.delete(&this);
        Ok(())
    }
}
