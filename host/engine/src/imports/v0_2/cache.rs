//! The `cache` interface: reads from the host's stores, within the plugin's grants.
//!
//! Reads run on the guest's thread and are charged to its CPU budget. Only the wait for writes is not charged.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use pilothouse_object::Object;
use wasmtime::component::Resource;

use super::{MAX_TEXT, Refused, key, set_text, wit_key};
use crate::bindings::v0_2::pilothouse::controller::cache::{
    Host, HostCursor, HostQuery, HostValues, ObjectKey,
};
use crate::error::OverLimit;
use crate::handles::Entry;
use crate::host::{CacheQuery, ObjectCursor};
use crate::imports::sorted::{First, SORTED_BYTES, Sorted, Unsorted};
use crate::imports::{Answer, Cursor, ImportCall, Kind, Query, Values};
use crate::state::StoreState;

/// How many entries of an answer are made between two looks at the CPU budget.
const CHECK_EVERY: usize = 1024;

/// Most keys and values of one portion.
const MAX_KEYS: usize = 16_384;

/// Maximum length in bytes of the name of an index and of a value in it.
const MAX_INDEX_TEXT: usize = 4 << 10;

/// The cost of a text in an answer: its bytes, and its pointer and length in the guest.
fn text_bytes(text: &str) -> usize {
    text.len() + 8
}

impl StoreState {
    /// The objects of a query, in no order.
    fn queried(&mut self, this: &Resource<Query>) -> Result<(Box<dyn ObjectCursor>, u64), Refused> {
        let query = self.handles.get(this)?;
        if let Some(refusal) = &query.refusal {
            return Err(refusal.clone().into());
        }
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
        let object = self.host.cache_get(self.kind(&kind)?, &key)?;
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
            let object = self.host.cache_get(self.kind(&kind)?, &key(&k.namespace, &k.name)?)?;
            objects.push(object.map(|object| self.handles.push_cached(object.fresh())).transpose()?);
            self.budget.check()?;
        }
        Ok(objects)
    }

    fn index_values(&mut self, kind: Resource<Kind>, index: String) -> Result<Resource<Values>, Refused> {
        let mut values = Vec::new();
        let (mut bytes, mut visited) = (0_usize, 0_usize);
        let most = self.handles.free_bytes();
        let mut broken: Result<(), Refused> = Ok(());
        self.host.cache_index_values(self.kind(&kind)?, &index, &mut |value| {
            if let Some(value) = value {
                bytes += value.len() + size_of::<String>();
                if bytes > most {
                    let over = "the values exceed what is left of limits.handleBytes: drop handles that are no longer \
                                needed, or raise the limit";
                    broken = Err(OverLimit::new(over).into());
                    return ControlFlow::Break(());
                }
                values.push(value.to_owned());
            }
            visited += 1;
            if visited.is_multiple_of(CHECK_EVERY) && let Err(trap) = self.budget.check() {
                broken = Err(trap.into());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        broken?;
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
            kind: self.kind(&kind)?.clone(),
            namespace: String::new(),
            label_selector: String::new(),
            index: None,
            limit: u64::MAX,
            refusal: None,
        };
        Ok(self.handles.push_builder(Entry::Query(query))?)
    }

    fn namespace(&mut self, this: Resource<Query>, name: String) -> wasmtime::Result<()> {
        let query = self.handles.get(&this)?;
        set_text(&mut query.namespace, &mut query.refusal, "the namespace", name, MAX_INDEX_TEXT);
        Ok(())
    }

    fn label_selector(&mut self, this: Resource<Query>, selector: String) -> wasmtime::Result<()> {
        let query = self.handles.get(&this)?;
        set_text(&mut query.label_selector, &mut query.refusal, "the label selector", selector, MAX_TEXT);
        Ok(())
    }

    fn index(&mut self, this: Resource<Query>, name: String, value: String) -> wasmtime::Result<()> {
        let query = self.handles.get(&this)?;
        let (of_index, of_value) = query.index.get_or_insert_default();
        set_text(of_index, &mut query.refusal, "the name of the index", name, MAX_INDEX_TEXT);
        set_text(of_value, &mut query.refusal, "the value of the index", value, MAX_INDEX_TEXT);
        Ok(())
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
                "the query selects more than {most} objects, for which limits.handleBytes has no room: narrow it, drop \
                 handles that are no longer needed, or raise the limit"
            ))
        };
        if objects.is_in_order() {
            let all = objects.remaining();
            if all > most {
                return Err(too_many().into());
            }
            let cursor = Cursor(Box::new(First::new(objects, limit)));
            return Ok(self.handles.push(Entry::Cursor(cursor), all * SORTED_BYTES)?);
        }
        let sorted = match Sorted::new(objects, limit, most, &self.budget) {
            Ok(sorted) => sorted,
            Err(Unsorted::Budget) => return Err(crate::budget::used_up().into()),
            Err(Unsorted::TooMany) => return Err(too_many().into()),
        };
        let held = sorted.taken() * SORTED_BYTES;
        Ok(self.handles.push(Entry::Cursor(Cursor(Box::new(sorted))), held)?)
    }

    fn count(&mut self, this: Resource<Query>) -> Result<u64, Refused> {
        let (objects, limit) = self.queried(&this)?;
        Ok((objects.remaining() as u64).min(limit))
    }

    fn drop(&mut self, this: Resource<Query>) -> wasmtime::Result<()> {
        self.handles.delete(&this);
        Ok(())
    }
}

impl HostCursor for ImportCall<'_> {
    fn next(&mut self, this: Resource<Cursor>, max: u32) -> Result<Vec<Resource<Object>>, Refused> {
        let most = (max as usize).min(self.limits.page_objects);
        let portion: Vec<Object> = self.handles.get(&this)?.0.by_ref().take(most).collect();
        let mut handles = Vec::with_capacity(portion.len());
        for object in portion {
            handles.push(self.handles.push_cached(object)?);
        }
        Ok(handles)
    }

    fn next_keys(&mut self, this: Resource<Cursor>, max: u32) -> wasmtime::Result<Vec<ObjectKey>> {
        let most = (max as usize).min(MAX_KEYS);
        let objects = self.handles.get(&this)?.0.by_ref();
        Ok(objects.take(most).map(|object| wit_key(object.key())).collect())
    }

    fn remaining(&mut self, this: Resource<Cursor>) -> wasmtime::Result<u64> {
        Ok(self.handles.get(&this)?.0.remaining() as u64)
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
