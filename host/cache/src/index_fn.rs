//! [`IndexFn`]: how an index gets its values out of an object.
//!
//! A function is made from one source (a path, a label, the owners, a closure), may be kept to objects whose `where`
//! field has a value, and may split what it finds. It must depend on nothing but the object. The store calls it when an
//! object comes or changes and keeps the outcome, so taking an object out again calls nothing.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pilothouse_object::{Held, Object, ObjectPart, Pointer, json_string};

use crate::distinct_values::DistinctValues;

/// Gets the values of one index out of an object; a cheap clone.
#[derive(Clone)]
pub struct IndexFn {
    source: Source,
    only: Option<Pointer>,
    separator: Option<Arc<str>>,
    limits: Option<IndexLimits>,
    took: Option<Took>,
}

/// Is called with the time that computing the values of one object took.
type Took = Arc<dyn Fn(Duration) + Send + Sync>;

/// Is called with an object that is beyond a limit of an index.
pub type LimitExceeded = Arc<dyn Fn(&Object, IndexLimit) + Send + Sync>;

/// Limits of what one object costs in an index. Beyond one of them the object has no value in the index.
#[derive(Clone)]
pub struct IndexLimits {
    /// Values of one object.
    pub values: usize,
    /// Bytes of one text that is split.
    pub split_bytes: usize,
    /// Is called with each object that is beyond a limit, whenever its values are computed: it must be quick.
    pub exceeded: LimitExceeded,
}

/// A limit of [`IndexLimits`] that an object exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexLimit {
    /// It has too many values.
    Values,
    /// A text to split is too long.
    SplitBytes,
}

type Closure = dyn Fn(&Object, &mut dyn FnMut(&str)) + Send + Sync;

#[derive(Clone)]
enum Source {
    Path(Pointer),
    Label(Arc<str>),
    Annotation(Arc<str>),
    OwnerUid,
    Closure(Arc<Closure>),
}

impl IndexFn {
    /// Values at a pointer: strings as their content, numbers and booleans as their JSON text. Null, absent fields,
    /// objects and arrays have no value; `[*]` gives one for each element.
    #[must_use]
    pub fn path(pointer: Pointer) -> Self {
        Self::new(Source::Path(pointer))
    }

    /// The value of one label.
    #[must_use]
    pub fn label(name: &str) -> Self {
        Self::new(Source::Label(name.into()))
    }

    /// The value of one annotation.
    #[must_use]
    pub fn annotation(name: &str) -> Self {
        Self::new(Source::Annotation(name.into()))
    }

    /// The UID of every owner.
    #[must_use]
    pub fn owner_uid() -> Self {
        Self::new(Source::OwnerUid)
    }

    /// Whatever a closure hands on. One that panics gives no values for that object.
    #[must_use]
    pub fn closure(values: impl Fn(&Object, &mut dyn FnMut(&str)) + Send + Sync + 'static) -> Self {
        Self::new(Source::Closure(Arc::new(values)))
    }

    fn new(source: Source) -> Self {
        Self { source, only: None, separator: None, limits: None, took: None }
    }

    /// Keeps only objects where the pointer selects a value that is not null.
    #[must_use]
    pub fn where_present(mut self, pointer: Pointer) -> Self {
        self.only = Some(pointer);
        self
    }

    /// Cuts each value at a separator; parts are trimmed and empty ones left out.
    #[must_use]
    pub fn split(mut self, separator: &str) -> Self {
        self.separator = Some(separator.into()).filter(|s: &Arc<str>| !s.is_empty());
        self
    }

    /// Gives no values of an object that is beyond these limits.
    #[must_use]
    pub fn limited(mut self, limits: IndexLimits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Measures how long computing the values of each object takes, so that whoever asked for the index can be charged. The
    /// call must be quick.
    #[must_use]
    pub fn timed(mut self, took: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        self.took = Some(Arc::new(took));
        self
    }

    /// The values of an object, each once, in the order found.
    #[must_use]
    pub fn values(&self, object: &Object) -> Vec<Arc<str>> {
        self.changed_values(object, std::iter::empty()).unwrap_or_default()
    }

    /// Whether two states of an object have the same values because the text is the same from which those are read. `false`
    /// says nothing. It costs much less than the values.
    pub(crate) fn reads_same(&self, old: &Held, new: &Held) -> bool {
        let same = |pointer: &Pointer| {
            pointer.field().is_some_and(|name| old.has_same(new, ObjectPart::Field(name)))
        };
        let is_same = match &self.source {
            Source::Path(pointer) => same(pointer),
            Source::Label(_) => old.has_same(new, ObjectPart::Labels),
            Source::Annotation(_) => old.has_same(new, ObjectPart::Annotations),
            Source::OwnerUid => old.has_same(new, ObjectPart::OwnerReferences),
            Source::Closure(_) => false,
        };
        is_same && self.only.as_ref().is_none_or(same)
    }

    /// As [`values`](Self::values); `None` when the values are those that are held, which is found without copying one.
    pub(crate) fn changed_values<'a>(
        &self,
        object: &Object,
        held: impl Iterator<Item = &'a Arc<str>> + Clone,
    ) -> Option<Vec<Arc<str>>> {
        let Some(took) = &self.took else { return self.compute(object, held) };
        let began = Instant::now();
        let values = self.compute(object, held);
        took(began.elapsed());
        values
    }

    fn compute<'a>(
        &self,
        object: &Object,
        held: impl Iterator<Item = &'a Arc<str>> + Clone,
    ) -> Option<Vec<Arc<str>>> {
        let (most, most_bytes) = self
            .limits
            .as_ref()
            .map_or((usize::MAX, usize::MAX), |limits| (limits.values, limits.split_bytes));
        let mut exceeded = None;
        let mut values = DistinctValues::new(held);
        let mut keep = |value: &str| {
            if values.len() <= most {
                values.add(value);
            }
        };
        match self.separator.as_deref() {
            None => self.each(object, &mut keep),
            Some(separator) => self.each(object, &mut |value| {
                if value.len() > most_bytes {
                    exceeded = Some(IndexLimit::SplitBytes);
                    return;
                }
                value.split(separator).map(str::trim).filter(|part| !part.is_empty()).for_each(&mut keep);
            }),
        }
        if values.len() > most {
            exceeded = Some(IndexLimit::Values);
        }
        if let (Some(limit), Some(limits)) = (exceeded, &self.limits) {
            (limits.exceeded)(object, limit);
            values.clear();
        }
        values.changed()
    }

    fn each(&self, object: &Object, found: &mut dyn FnMut(&str)) {
        if let Some(only) = &self.only {
            let mut present = false;
            object.select(only, |raw| present |= raw != "null");
            if !present {
                return;
            }
        }
        match &self.source {
            Source::Path(pointer) => object.select(pointer, |raw| match raw.as_bytes().first() {
                Some(b'"') => {
                    if let Some(text) = json_string(raw) {
                        found(&text);
                    }
                }
                Some(b'{' | b'[' | b'n') | None => {}
                Some(_) => found(raw),
            }),
            Source::Label(name) => {
                if let Some(value) = object.label(name) {
                    found(&value);
                }
            }
            Source::Annotation(name) => {
                if let Some(value) = object.annotation(name) {
                    found(&value);
                }
            }
            Source::OwnerUid => object.owner_references().iter().for_each(|owner| found(&owner.uid)),
            Source::Closure(closure) => {
                // The store is in the middle of a change when it asks: a panic must not leave it half done.
                if catch_unwind(AssertUnwindSafe(|| closure(object, found))).is_err() {
                    tracing::error!(event = "index_function_panicked", object = %object.key(), "an index function panicked; the object gets no value");
                }
            }
        }
    }
}

impl fmt::Debug for IndexFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Path(pointer) => write!(f, "path {pointer}")?,
            Source::Label(name) => write!(f, "label {name}")?,
            Source::Annotation(name) => write!(f, "annotation {name}")?,
            Source::OwnerUid => f.write_str("owner UID")?,
            Source::Closure(_) => f.write_str("closure")?,
        }
        if let Some(only) = &self.only {
            write!(f, " where {only}")?;
        }
        match &self.separator {
            Some(separator) => write!(f, " split {separator:?}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Object {
        Object::decode(
            br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"b","labels":{"app":"x"},"annotations":{"note":"n \u00e9"},
                "ownerReferences":[{"apiVersion":"v1","kind":"A","name":"a","uid":"u1"},
                                   {"apiVersion":"v1","kind":"A","name":"b","uid":"u2"}]},
                "spec":{"nodeName":"n\u0031","priority":7,"host":true,"none":null,"list":"a, b,,a",
                        "containers":[{"image":"i"},{"image":"i"},{"image":"j"}]}}"#,
        )
        .unwrap()
    }

    fn pointer(text: &str) -> Pointer {
        text.parse().unwrap()
    }

    fn values(index: &IndexFn) -> Vec<String> {
        index.values(&pod()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_path_gives_strings_unquoted_and_scalars_as_json_and_nothing_for_null_or_absent() {
        assert_eq!(values(&IndexFn::path(pointer("/spec/nodeName"))), ["n1"]);
        assert_eq!(values(&IndexFn::path(pointer("/spec/priority"))), ["7"]);
        assert_eq!(values(&IndexFn::path(pointer("/spec/host"))), ["true"]);
        for none in ["/spec/none", "/spec/absent", "/spec/containers", "/spec"] {
            assert!(values(&IndexFn::path(pointer(none))).is_empty(), "{none}");
        }
    }

    #[test]
    fn a_star_gives_each_distinct_value_once() {
        assert_eq!(values(&IndexFn::path(pointer("/spec/containers/[*]/image"))), ["i", "j"]);
    }

    #[test]
    fn labels_annotations_and_owners_are_sources() {
        assert_eq!(values(&IndexFn::annotation("note")), ["n é"]);
        assert!(values(&IndexFn::annotation("app")).is_empty());
        assert_eq!(values(&IndexFn::label("app")), ["x"]);
        assert!(values(&IndexFn::label("no")).is_empty());
        assert_eq!(values(&IndexFn::owner_uid()), ["u1", "u2"]);
    }

    #[test]
    fn where_keeps_only_objects_whose_field_has_a_value() {
        let index = IndexFn::label("app");
        assert_eq!(values(&index.clone().where_present(pointer("/spec/nodeName"))), ["x"]);
        assert!(values(&index.clone().where_present(pointer("/spec/none"))).is_empty());
        assert!(values(&index.where_present(pointer("/spec/absent"))).is_empty());
    }

    #[test]
    fn split_cuts_a_list_and_drops_empty_parts() {
        assert_eq!(values(&IndexFn::path(pointer("/spec/list")).split(",")), ["a", "b"]);
    }

    #[test]
    fn an_object_beyond_a_limit_has_no_values_and_is_told_of() {
        let told = Arc::new(std::sync::Mutex::new(Vec::new()));
        let limited = |index: IndexFn, values, split_bytes| {
            let told = Arc::clone(&told);
            let exceeded = Arc::new(move |object: &Object, limit| {
                told.lock().unwrap().push((object.key().to_string(), limit));
            });
            index.limited(IndexLimits { values, split_bytes, exceeded })
        };
        let take = || std::mem::take(&mut *told.lock().unwrap());
        let images = || IndexFn::path(pointer("/spec/containers/[*]/image"));
        let list = || IndexFn::path(pointer("/spec/list")).split(",");
        // As many as are allowed, duplicates not counted.
        assert_eq!(values(&limited(images(), 2, 0)), ["i", "j"]);
        assert_eq!(values(&limited(list(), 2, 7)), ["a", "b"]);
        assert_eq!(take(), []);
        assert_eq!(values(&limited(images(), 1, 0)), [""; 0]);
        assert_eq!(take(), [("b/a".to_owned(), IndexLimit::Values)]);
        assert_eq!(values(&limited(list(), 2, 6)), [""; 0]);
        assert_eq!(take(), [("b/a".to_owned(), IndexLimit::SplitBytes)]);
    }

    /// States of an object that differ in some of five parts, a bit for each.
    fn state(bits: u32) -> Object {
        let bit = |n: u32| bits >> n & 1;
        let text = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a","labels":{{"a":"{}"}},"annotations":{{"a":"{}"}},
                "ownerReferences":[{{"apiVersion":"v1","kind":"A","name":"a","uid":"{}"}}]}},
                "spec":{{"a":"{}"}},"status":{{"a":{}}}}}"#,
            bit(0),
            bit(1),
            bit(2),
            bit(3),
            if bit(4) == 0 { "null" } else { "1" },
        );
        Object::decode(text.as_bytes()).unwrap()
    }

    #[test]
    fn values_stay_when_the_text_stays_that_they_are_read_from() {
        let [spec, status] = ["/spec/a", "/status/a"].map(pointer);
        let indexes = [
            (0b1, IndexFn::label("a")),
            (0b10, IndexFn::annotation("a")),
            (0b100, IndexFn::owner_uid()),
            (0b1000, IndexFn::path(spec.clone())),
            (0b1_0000, IndexFn::path(status.clone())),
            (0b1_0001, IndexFn::label("a").where_present(status)),
            (0b1010, IndexFn::annotation("a").where_present(spec)),
        ];
        let closure = IndexFn::closure(|object, found| found(object.name()));
        for old in 0..32 {
            for new in 0..32 {
                let (before, after) = (state(old), state(new));
                for (parts, index) in &indexes {
                    let same = index.reads_same(before.held(), after.held());
                    assert_eq!(same, (old ^ new) & parts == 0, "{index:?} of {old:b} and {new:b}");
                    assert!(!same || index.values(&before) == index.values(&after));
                }
                assert!(!closure.reads_same(before.held(), after.held()));
            }
        }
    }

    #[test]
    fn the_time_of_each_object_is_reported() {
        let total = Arc::new(std::sync::Mutex::new((0, Duration::ZERO)));
        let sum = Arc::clone(&total);
        let slow = IndexFn::closure(|_, _| {
            let began = Instant::now();
            while began.elapsed() < Duration::from_micros(200) {}
        });
        let slow = slow.timed(move |time| {
            let mut sum = sum.lock().unwrap();
            *sum = (sum.0 + 1, sum.1 + time);
        });
        for count in 1..=3 {
            values(&slow);
            let (calls, time) = *total.lock().unwrap();
            assert_eq!(calls, count);
            assert!(time >= Duration::from_micros(200) * count, "{time:?}");
        }
    }

    #[test]
    fn a_closure_that_panics_gives_what_it_gave_so_far() {
        let index = IndexFn::closure(|object, found| {
            found(object.name());
            panic!("no more");
        });
        assert_eq!(values(&index), ["a"]);
    }
}
