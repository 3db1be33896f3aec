//! The predicates of the descriptor under test. `tests/predicates.json` has cases that the host's predicates are tested
//! with as well.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::sys::select;

/// How deep predicates can be nested.
const LEVELS: usize = 8;

/// The longest text that a field is compared with.
const TEXT: usize = 1024;

#[derive(Deserialize, Clone)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum PredicateSpec {
    GenerationChanged,
    ResourceVersionChanged,
    LabelsChanged,
    AnnotationsChanged,
    FieldChanged {
        path: String,
    },
    Field {
        path: String,
        #[serde(default, deserialize_with = "with_null")]
        equals: Option<Value>,
        exists: Option<bool>,
    },
    On {
        events: Vec<EventKind>,
    },
    All {
        of: Vec<Self>,
    },
    Any {
        of: Vec<Self>,
    },
    Not {
        of: Box<Self>,
    },
}

/// A field that may be null, apart from one that is not there.
fn with_null<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(super) enum EventKind {
    Add,
    Update,
    Delete,
}

/// An event, as predicates judge it.
#[derive(Clone, Copy)]
pub(super) enum Judged<'a> {
    /// Whether updates are merged into it, any of which may have passed.
    Add(&'a Value, bool),
    /// Without the old object if that is not known.
    Update(Option<&'a Value>, &'a Value),
    /// Without the last object if that is not known.
    Delete(Option<&'a Value>),
}

/// Whether an event passes all of them. What cannot be known passes.
pub(super) fn all_pass(all: &[PredicateSpec], event: Judged<'_>) -> bool {
    let pass = |event| all.iter().all(|predicate| predicate.judge(event) != Some(false));
    match event {
        Judged::Add(object, true) => pass(event) || pass(Judged::Update(None, object)),
        event => pass(event),
    }
}

/// `decisive` if one of them is, its opposite if all are that, else none.
fn decided(of: &[PredicateSpec], event: Judged<'_>, decisive: bool) -> Option<bool> {
    let judged: Vec<_> = of.iter().map(|predicate| predicate.judge(event)).collect();
    if judged.contains(&Some(decisive)) {
        return Some(decisive);
    }
    (!judged.contains(&None)).then_some(!decisive)
}

impl PredicateSpec {
    /// Checks a predicate, as the host does.
    pub(super) fn check(&self) -> Result<(), String> {
        self.check_within(LEVELS)
    }

    fn check_within(&self, levels: usize) -> Result<(), String> {
        let Some(within) = levels.checked_sub(1) else {
            return Err(format!("predicates are nested more than {LEVELS} levels deep"));
        };
        match self {
            Self::Field { path, equals, exists } if equals.is_some() == exists.is_some() => {
                Err(format!("the predicate of field {path} has not exactly one of `equals` and `exists`"))
            }
            Self::Field { path, equals: Some(equals), .. } => match equals {
                Value::Array(_) | Value::Object(_) => {
                    Err(format!("a predicate compares field {path} with a list or an object"))
                }
                Value::String(text) if text.len() > TEXT => {
                    Err(format!("a predicate compares field {path} with more than {TEXT} bytes"))
                }
                _ => Ok(()),
            },
            Self::On { events } if events.is_empty() => Err("a predicate of events has no event".to_owned()),
            Self::All { of } | Self::Any { of } if of.is_empty() => {
                Err("`all` or `any` of no predicates".to_owned())
            }
            Self::All { of } | Self::Any { of } => {
                of.iter().try_for_each(|predicate| predicate.check_within(within))
            }
            Self::Not { of } => of.check_within(within),
            _ => Ok(()),
        }
    }

    /// The fields that it looks at.
    pub(super) fn paths(&self) -> Vec<&str> {
        match self {
            Self::FieldChanged { path } | Self::Field { path, .. } => vec![path],
            Self::All { of } | Self::Any { of } => of.iter().flat_map(Self::paths).collect(),
            Self::Not { of } => of.paths(),
            _ => Vec::new(),
        }
    }

    /// Whether an event passes; none if that cannot be known.
    fn judge(&self, event: Judged<'_>) -> Option<bool> {
        let changed = |differ: &dyn Fn(&Value, &Value) -> bool| match event {
            Judged::Update(old, new) => old.map(|old| differ(old, new)),
            Judged::Add(..) | Judged::Delete(_) => Some(true),
        };
        let differs = |path: &str| changed(&|old, new| select(old, path) != select(new, path));
        // No labels and an empty map of them are the same.
        let entries =
            |object: &Value, name: &str| object["metadata"][name].as_object().cloned().unwrap_or_default();
        let entries_differ = |name: &str| changed(&|old, new| entries(old, name) != entries(new, name));
        match self {
            Self::GenerationChanged => differs("/metadata/generation"),
            Self::ResourceVersionChanged => differs("/metadata/resourceVersion"),
            Self::LabelsChanged => entries_differ("labels"),
            Self::AnnotationsChanged => entries_differ("annotations"),
            Self::FieldChanged { path } => differs(path),
            Self::Field { path, equals, exists } => {
                let object = match event {
                    Judged::Add(object, _) | Judged::Update(_, object) => Some(object),
                    Judged::Delete(last) => last,
                };
                let found = values(object?, path);
                Some(match equals {
                    Some(wanted) => found.contains(wanted),
                    None => found.is_empty() != exists.unwrap_or_default(),
                })
            }
            Self::On { events } => Some(events.contains(&match event {
                Judged::Add(..) => EventKind::Add,
                Judged::Update(..) => EventKind::Update,
                Judged::Delete(_) => EventKind::Delete,
            })),
            Self::All { of } => decided(of, event, false),
            Self::Any { of } => decided(of, event, true),
            Self::Not { of } => of.judge(event).map(|passes| !passes),
        }
    }
}

/// The values at a pointer: several with `[*]`.
fn values(object: &Value, path: &str) -> Vec<Value> {
    match select(object, path) {
        Some(Value::Array(elements)) if path.contains("/[*]") => elements,
        found => found.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Case {
        name: String,
        predicate: Value,
        event: EventKind,
        /// Whether updates are merged into an add.
        #[serde(default)]
        updated: bool,
        /// Null if it is not known.
        old: Value,
        new: Value,
        expected: bool,
    }

    #[test]
    fn predicates_judge_as_those_of_the_host() {
        let cases: Vec<Case> = serde_json::from_str(include_str!("../../tests/predicates.json")).unwrap();
        for case in cases {
            let predicate: PredicateSpec = serde_json::from_value(case.predicate).unwrap();
            predicate.check().unwrap();
            let old = Some(&case.old).filter(|old| !old.is_null());
            let event = match case.event {
                EventKind::Add => Judged::Add(&case.new, case.updated),
                EventKind::Update => Judged::Update(old, &case.new),
                EventKind::Delete => Judged::Delete(old),
            };
            assert_eq!(all_pass(&[predicate], event), case.expected, "{}", case.name);
        }
    }

    #[test]
    fn malformed_predicates_are_refused_as_by_the_host() {
        let check = |value: Value| serde_json::from_value::<PredicateSpec>(value).unwrap().check();
        let nested = |levels: usize| {
            (1..levels).fold(json!({"type": "generationChanged"}), |of, _| json!({"type": "not", "of": of}))
        };
        assert_eq!(check(nested(8)), Ok(()));
        assert_eq!(check(json!({"type": "field", "path": "/a", "equals": null})), Ok(()));
        for (predicate, reason) in [
            (nested(9), "8 levels"),
            (json!({"type": "any", "of": []}), "no predicates"),
            (json!({"type": "on", "events": []}), "no event"),
            (json!({"type": "field", "path": "/a"}), "exactly one"),
            (json!({"type": "field", "path": "/a", "equals": 1, "exists": true}), "exactly one"),
            (json!({"type": "field", "path": "/a", "equals": []}), "a list"),
            (json!({"type": "field", "path": "/a", "equals": "x".repeat(1025)}), "1024 bytes"),
        ] {
            let error = check(predicate).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
