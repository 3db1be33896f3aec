//! [`Predicate`]: a filter of the events of watched objects, parsed and validated.
//!
//! Predicates of changes judge updates; adds and deletes pass them. Others judge every event. What cannot be known — a field
//! of a deleted object whose last state was missed, a change since an unknown state — is neither true nor false, also within
//! `all`, `any` and `not`, and an event whose result is unknown passes: an event too many is harmless, one too few is not.

use pilothouse_object::{FieldValues, Pointer, json_string};

use super::text::{EventKindText, PredicateText};
use super::{DescribeError, at_most, error, pointer};
use crate::limits::DescriptorLimits;

/// A filter of events.
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    /// `metadata.generation` changed.
    GenerationChanged,
    /// `metadata.resourceVersion` changed.
    ResourceVersionChanged,
    /// A label changed.
    LabelsChanged,
    /// An annotation changed.
    AnnotationsChanged,
    /// The value at a pointer changed.
    FieldChanged(Pointer),
    /// The event is one of these.
    On(EventKinds),
    /// A value at the pointer equals this string, number, boolean or null.
    FieldEquals(Pointer, serde_json::Value),
    /// Whether there is a value at the pointer.
    FieldExists(Pointer, bool),
    /// All of them pass.
    All(Vec<Self>),
    /// One of them passes.
    Any(Vec<Self>),
    /// It does not pass.
    Not(Box<Self>),
}

/// Kinds of events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventKinds {
    /// Objects that are added, or come into view.
    pub adds: bool,
    /// Objects that change.
    pub updates: bool,
    /// Objects that are deleted, or go out of view.
    pub deletes: bool,
}

/// An event, as predicates judge it.
#[derive(Debug, Clone, Copy)]
enum Judged<'v, 'o> {
    Add(&'v FieldValues<'o>),
    Update(Option<&'v FieldValues<'o>>, &'v FieldValues<'o>),
    Delete(Option<&'v FieldValues<'o>>),
}

impl Predicate {
    /// Whether an add passes all of them; `updated` if updates are merged into it, any of which may have passed.
    #[must_use]
    pub fn all_pass_add(all: &[Self], object: &FieldValues<'_>, updated: bool) -> bool {
        all_pass(all, Judged::Add(object)) || (updated && Self::all_pass_update(all, None, object))
    }

    /// Whether an update passes all of them; `old` is none if that state is not known.
    #[must_use]
    pub fn all_pass_update<'o>(all: &[Self], old: Option<&FieldValues<'o>>, new: &FieldValues<'o>) -> bool {
        all_pass(all, Judged::Update(old, new))
    }

    /// Whether a delete passes all of them; `last` is none if the last state is not known.
    #[must_use]
    pub fn all_pass_delete(all: &[Self], last: Option<&FieldValues<'_>>) -> bool {
        all_pass(all, Judged::Delete(last))
    }

    /// Calls `found` with the pointers that it looks at.
    pub(super) fn pointers(&self, found: &mut dyn FnMut(&Pointer)) {
        match self {
            Self::FieldChanged(path) | Self::FieldEquals(path, _) | Self::FieldExists(path, _) => found(path),
            Self::All(of) | Self::Any(of) => of.iter().for_each(|predicate| predicate.pointers(found)),
            Self::Not(of) => of.pointers(found),
            _ => {}
        }
    }

    /// Whether the event passes; none if that cannot be known.
    fn judge(&self, event: Judged<'_, '_>) -> Option<bool> {
        let changed = |differ: &dyn Fn(&FieldValues<'_>, &FieldValues<'_>) -> bool| match event {
            Judged::Update(old, new) => old.map(|old| differ(old, new)),
            Judged::Add(_) | Judged::Delete(_) => Some(true),
        };
        let values = match event {
            Judged::Add(object) | Judged::Update(_, object) => Some(object),
            Judged::Delete(last) => last,
        };
        match self {
            Self::GenerationChanged => {
                changed(&|old, new| old.object().generation() != new.object().generation())
            }
            Self::ResourceVersionChanged => {
                changed(&|old, new| old.object().resource_version() != new.object().resource_version())
            }
            Self::LabelsChanged => changed(&|old, new| !old.object().same_labels(new.object())),
            Self::AnnotationsChanged => changed(&|old, new| !old.object().same_annotations(new.object())),
            Self::FieldChanged(path) => changed(&|old, new| old.select(path) != new.select(path)),
            Self::On(kinds) => Some(match event {
                Judged::Add(_) => kinds.adds,
                Judged::Update(..) => kinds.updates,
                Judged::Delete(_) => kinds.deletes,
            }),
            Self::FieldEquals(path, wanted) => values.map(|values| has_value(path, wanted, values)),
            Self::FieldExists(path, wanted) => values.map(|values| values.select(path).is_empty() != *wanted),
            Self::All(of) => decided(of, event, false),
            Self::Any(of) => decided(of, event, true),
            Self::Not(of) => of.judge(event).map(|passes| !passes),
        }
    }
}

fn all_pass(all: &[Predicate], event: Judged<'_, '_>) -> bool {
    all.iter().all(|predicate| predicate.judge(event) != Some(false))
}

/// `decisive` if one of them is, its opposite if all are that, else none.
fn decided(of: &[Predicate], event: Judged<'_, '_>, decisive: bool) -> Option<bool> {
    let mut result = Some(!decisive);
    for predicate in of {
        match predicate.judge(event) {
            Some(passes) if passes == decisive => return Some(decisive),
            Some(_) => {}
            None => result = None,
        }
    }
    result
}

fn has_value(path: &Pointer, wanted: &serde_json::Value, values: &FieldValues<'_>) -> bool {
    values.select(path).iter().any(|raw| match wanted {
        serde_json::Value::String(wanted) => json_string(raw).is_some_and(|value| value == *wanted),
        // A string, list or object is none of the others, however long it is.
        _ if raw.starts_with(['"', '[', '{']) => false,
        wanted => serde_json::from_str::<serde_json::Value>(raw).is_ok_and(|value| value == *wanted),
    })
}

/// Maximum depth of predicates within predicates.
const MOST_LEVELS: usize = 8;

/// Maximum length in bytes of a string that a field must equal.
const MAX_EQUALS: usize = 1024;

/// Parses the predicates of a watch; those within others count as well.
pub(super) fn predicates(
    at: &str,
    texts: Vec<PredicateText>,
    limits: &DescriptorLimits,
) -> Result<Vec<Predicate>, DescribeError> {
    let count = texts.iter().map(|text| text.count(MOST_LEVELS)).sum();
    at_most(at, "predicates", count, limits.predicates)?;
    list(at, texts, MOST_LEVELS)
}

fn list(at: &str, texts: Vec<PredicateText>, levels: usize) -> Result<Vec<Predicate>, DescribeError> {
    texts.into_iter().enumerate().map(|(i, text)| predicate(&format!("{at}[{i}]"), text, levels)).collect()
}

fn predicate(at: &str, text: PredicateText, levels: usize) -> Result<Predicate, DescribeError> {
    let inner = format!("{at}.of");
    let of = |texts: Vec<PredicateText>| {
        if texts.is_empty() {
            return Err(error(&inner, "it is empty", "name one predicate at least"));
        }
        list(&inner, texts, within(&inner, levels)?)
    };
    Ok(match text {
        PredicateText::GenerationChanged {} => Predicate::GenerationChanged,
        PredicateText::ResourceVersionChanged {} => Predicate::ResourceVersionChanged,
        PredicateText::LabelsChanged {} => Predicate::LabelsChanged,
        PredicateText::AnnotationsChanged {} => Predicate::AnnotationsChanged,
        PredicateText::FieldChanged { path } => Predicate::FieldChanged(pointer(at, &path)?),
        PredicateText::Field { path, equals, exists } => field(at, &path, equals, exists)?,
        PredicateText::On { events } => {
            if events.is_empty() {
                return Err(error(format!("{at}.events"), "it is empty", "name add, update or delete"));
            }
            Predicate::On(EventKinds {
                adds: events.contains(&EventKindText::Add),
                updates: events.contains(&EventKindText::Update),
                deletes: events.contains(&EventKindText::Delete),
            })
        }
        PredicateText::All { of: texts } => Predicate::All(of(texts)?),
        PredicateText::Any { of: texts } => Predicate::Any(of(texts)?),
        PredicateText::Not { of: text } => {
            Predicate::Not(Box::new(predicate(&inner, *text, within(&inner, levels)?)?))
        }
    })
}

/// The levels below one of these.
fn within(at: &str, levels: usize) -> Result<usize, DescribeError> {
    levels.checked_sub(1).filter(|levels| *levels > 0).ok_or_else(|| {
        let reason = format!("predicates are within each other more than {MOST_LEVELS} levels deep");
        error(at, reason, "write them with fewer levels")
    })
}

fn field(
    at: &str,
    path: &str,
    equals: Option<serde_json::Value>,
    exists: Option<bool>,
) -> Result<Predicate, DescribeError> {
    let path = pointer(at, path)?;
    match (equals, exists) {
        (Some(equals), None) => {
            let reason = match &equals {
                serde_json::Value::String(text) if text.len() > MAX_EQUALS => {
                    format!("it has {} bytes", text.len())
                }
                serde_json::Value::Array(_) | serde_json::Value::Object(_) => {
                    "it is a list or an object".to_owned()
                }
                _ => return Ok(Predicate::FieldEquals(path, equals)),
            };
            let remedy = format!("write a string of {MAX_EQUALS} bytes at most, a number, a boolean or null");
            Err(error(format!("{at}.equals"), reason, remedy))
        }
        (None, Some(exists)) => Ok(Predicate::FieldExists(path, exists)),
        _ => Err(error(at, "it has not exactly one of equals and exists", "write one of them")),
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_object::Object;

    use super::*;

    fn pod(node: &str, label: &str) -> Object {
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p","generation":1,"labels":{{"app":"{label}"}}}},
            "spec":{{"nodeName":"{node}"}}}}"#
        );
        Object::decode(json.as_bytes()).unwrap()
    }

    fn parsed(json: serde_json::Value) -> Result<Vec<Predicate>, DescribeError> {
        let texts = serde_json::from_value(json).unwrap();
        predicates("predicates", texts, &DescriptorLimits::default())
    }

    #[test]
    fn predicates_compare_what_they_name() {
        let (a, b) = (pod("n1", "web"), pod("n2", "web"));
        let passes = |predicate: Predicate, old: &Object, new: &Object| {
            Predicate::all_pass_update(&[predicate], Some(&FieldValues::new(old)), &FieldValues::new(new))
        };
        let field = |path: &str| Predicate::FieldChanged(path.parse().unwrap());
        assert!(passes(field("/spec/nodeName"), &a, &b));
        assert!(!passes(field("/metadata/name"), &a, &b));
        assert!(!passes(Predicate::GenerationChanged, &a, &b));
        assert!(!passes(Predicate::LabelsChanged, &a, &b));
        assert!(passes(Predicate::LabelsChanged, &a, &pod("n1", "db")));
    }

    /// What is unknown stays so within others, and passes.
    #[test]
    fn what_cannot_be_known_passes() {
        let on_node = serde_json::json!({"type": "field", "path": "/spec/nodeName", "equals": "n1"});
        let not = serde_json::json!({"type": "not", "of": on_node});
        let deletes = serde_json::json!({"type": "on", "events": ["delete"]});
        let never = serde_json::json!({"type": "on", "events": ["add"]});
        for (predicate, passes) in [
            (on_node.clone(), true),
            (not.clone(), true),
            (serde_json::json!({"type": "all", "of": [on_node, deletes]}), true),
            (serde_json::json!({"type": "all", "of": [not, never]}), false),
            (serde_json::json!({"type": "any", "of": [not, never]}), true),
            (serde_json::json!({"type": "not", "of": deletes}), false),
        ] {
            let parsed = parsed(serde_json::json!([predicate])).unwrap();
            assert_eq!(Predicate::all_pass_delete(&parsed, None), passes, "{predicate}");
        }
        let changed = parsed(serde_json::json!([{"type": "labelsChanged"}])).unwrap();
        assert!(Predicate::all_pass_update(&changed, None, &FieldValues::new(&pod("n", "a"))));
    }

    /// Neither the add nor an update that is merged into it is lost, with `not` either.
    #[test]
    fn an_add_with_updates_passes_where_either_would() {
        let on = |events: serde_json::Value| serde_json::json!({"type": "on", "events": events});
        let not = |of: serde_json::Value| serde_json::json!({"type": "not", "of": of});
        let (adds, updates) = (on(serde_json::json!(["add"])), on(serde_json::json!(["update"])));
        for (predicates, alone, merged) in [
            (serde_json::json!([adds]), true, true),
            (serde_json::json!([updates]), false, true),
            (serde_json::json!([not(updates.clone())]), true, true),
            (serde_json::json!([not(adds.clone())]), false, true),
            (serde_json::json!([not(serde_json::json!({"type": "generationChanged"}))]), false, true),
            (serde_json::json!([on(serde_json::json!(["delete"]))]), false, false),
            (serde_json::json!([adds, updates]), false, false),
        ] {
            let parsed = parsed(predicates.clone()).unwrap();
            let pod = pod("n", "a");
            let passes = |updated| Predicate::all_pass_add(&parsed, &FieldValues::new(&pod), updated);
            assert_eq!((passes(false), passes(true)), (alone, merged), "{predicates}");
        }
    }

    #[test]
    fn depth_and_number_are_bounded_and_malformed_ones_say_why() {
        let nested = |levels: usize| {
            (1..levels).fold(
                serde_json::json!({"type": "generationChanged"}),
                |of, _| serde_json::json!({"type": "not", "of": of}),
            )
        };
        assert!(parsed(serde_json::json!([nested(8)])).is_ok());
        for (predicates, at, reason) in [
            (serde_json::json!([nested(9)]), "predicates[0].of", "8 levels"),
            (serde_json::json!([{"type": "any", "of": vec![nested(1); 16]}]), "predicates", "17, and 16"),
            (serde_json::json!([{"type": "all", "of": []}]), "predicates[0].of", "is empty"),
            (serde_json::json!([{"type": "on", "events": []}]), "predicates[0].events", "is empty"),
            (serde_json::json!([{"type": "field", "path": "/a"}]), "predicates[0]", "equals and exists"),
            (serde_json::json!([{"type": "field", "path": "/a", "equals": [1]}]), "[0].equals", "a list"),
            (
                serde_json::json!([{"type": "field", "path": "/a", "equals": "x".repeat(1025)}]),
                "[0].equals",
                "1025 bytes",
            ),
            (serde_json::json!([{"type": "field", "path": "a", "exists": true}]), "[0]", "begin with"),
        ] {
            let error = parsed(predicates).unwrap_err().to_string();
            assert!(error.contains(at) && error.contains(reason), "{error}");
        }
    }
}
