//! JSON patch, RFC 6902, as the server does it.
//!
//! Not by the `json-patch` crate: the server's library answers differently from the RFC, and clients see it. A member
//! that is absent is taken for null, so `replace` may add one, `copy` of it yields null and `test` against null
//! passes; array indexes may count from the end; an unknown `op` is found only when its turn comes; a root may be
//! tested and replaced, nothing else.
//!
//! Three limits: what is copied in total, as on the real server; how deep the result may be, since a few small
//! copies of an object into itself would build one that can be neither read nor dropped; and how many steps all operations
//! may take, since each may move all elements of a list.

use serde_json::{Map, Value};

use super::PatchError;

/// The most operations that the real server accepts in one patch.
pub(super) const MAX_OPERATIONS: usize = 10_000;
/// The most bytes of JSON that the `copy` operations of one patch may add up to on the real server.
pub(super) const MAX_COPIED_BYTES: usize = 3 << 20;
/// The most elements that the operations of one patch may move or look at together: a second at most.
pub(super) const MAX_STEPS: usize = 20_000_000;
/// The most levels that `serde_json` reads: nothing deeper could be sent back by a client.
pub(super) const MAX_DEPTH: usize = 127;

/// One operation; what it lacks is found missing only when it is carried out.
struct Operation<'a> {
    op: Option<&'a str>,
    path: Option<&'a str>,
    from: Option<&'a str>,
    value: &'a Value,
}

/// What contains the place that a path names.
enum Place<'a> {
    Member(&'a mut Map<String, Value>, String),
    Element(&'a mut Vec<Value>, String),
}

/// Applies a JSON patch.
pub(super) fn apply(patch: &Value, current: &Value) -> Result<Value, PatchError> {
    let operations = match patch {
        Value::Array(operations) => operations.iter().map(Operation::parse).collect::<Result<Vec<_>, _>>()?,
        Value::Null => Vec::new(),
        _ => return Err(PatchError::Malformed("a JSON patch is an array of operations".to_owned())),
    };
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooManyOperations { got: operations.len() });
    }
    let mut document = current.clone();
    let mut spent = Spent::default();
    for (index, operation) in operations.iter().enumerate() {
        operation
            .carry_out(&mut document, &mut spent)
            .map_err(|reason| PatchError::DoesNotApply(format!("operation {index}: {reason}")))?;
    }
    Ok(document)
}

/// What the operations so far have cost.
#[derive(Default)]
struct Spent {
    copied: usize,
    steps: usize,
}

impl Spent {
    fn steps(&mut self, steps: usize) -> Result<(), String> {
        self.steps = self.steps.saturating_add(steps);
        let is_too_much = self.steps > MAX_STEPS;
        (!is_too_much).then_some(()).ok_or_else(|| format!("the patch takes more than {MAX_STEPS} steps"))
    }
}

impl<'a> Operation<'a> {
    fn parse(operation: &'a Value) -> Result<Self, PatchError> {
        let member = |name| match operation.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(PatchError::Malformed(format!("{name:?} of an operation is a string"))),
        };
        if !operation.is_object() && !operation.is_null() {
            return Err(PatchError::Malformed("an operation is a JSON object".to_owned()));
        }
        Ok(Self {
            op: member("op")?,
            path: member("path")?,
            from: member("from")?,
            value: operation.get("value").unwrap_or(&Value::Null),
        })
    }

    fn path(&self) -> Result<&'a str, String> {
        self.path.ok_or_else(|| "it has no path".to_owned())
    }

    fn from(&self) -> Result<&'a str, String> {
        self.from.ok_or_else(|| "it has no \"from\"".to_owned())
    }

    fn carry_out(&self, document: &mut Value, spent: &mut Spent) -> Result<(), String> {
        match self.op.unwrap_or_default() {
            "add" => add(document, self.path()?, self.value.clone(), spent),
            "remove" => Place::find(document, self.path()?)?.remove(spent).map(drop),
            "replace" => self.replace(document, spent),
            "test" => self.test(document),
            "move" => {
                let value = Place::find(document, self.from()?)?.remove(spent)?;
                add(document, self.path()?, value, spent)
            }
            "copy" => {
                let value = Place::find(document, self.from()?)?.get()?.cloned().unwrap_or_default();
                spent.copied += value.to_string().len();
                if spent.copied > MAX_COPIED_BYTES {
                    return Err(format!("copies add up to more than {MAX_COPIED_BYTES} bytes"));
                }
                add(document, self.path()?, value, spent)
            }
            unknown => Err(format!("unknown op {unknown:?}")),
        }
    }

    fn replace(&self, document: &mut Value, spent: &mut Spent) -> Result<(), String> {
        let path = self.path()?;
        let place = match path {
            "" if matches!(self.value, Value::Object(_) | Value::Array(_)) => {
                *document = self.value.clone();
                return Ok(());
            }
            _ => Place::find(document, path)?,
        };
        check_depth(path, self.value, spent)?;
        match place {
            Place::Member(members, name) => {
                members.insert(name, self.value.clone());
            }
            Place::Element(elements, index) => {
                let index = existing(&index, elements.len())?;
                elements[index] = self.value.clone();
            }
        }
        Ok(())
    }

    fn test(&self, document: &mut Value) -> Result<(), String> {
        let path = self.path()?;
        let equal = match path {
            "" => *document == *self.value,
            _ => Place::find(document, path)?.get()?.unwrap_or(&Value::Null) == self.value,
        };
        equal.then_some(()).ok_or_else(|| format!("testing the value at {path:?} failed"))
    }
}

fn add(document: &mut Value, path: &str, value: Value, spent: &mut Spent) -> Result<(), String> {
    let place = Place::find(document, path)?;
    check_depth(path, &value, spent)?;
    match place {
        Place::Member(members, name) => {
            members.insert(name, value);
        }
        Place::Element(elements, index) => {
            let end = elements.len();
            let index = if index == "-" { end } else { existing(&index, end + 1)? };
            spent.steps(end - index)?;
            elements.insert(index, value);
        }
    }
    Ok(())
}

impl<'a> Place<'a> {
    /// Follows a path to what contains its last step. What stands before the first slash is ignored.
    fn find(document: &'a mut Value, path: &str) -> Result<Self, String> {
        let missing = || format!("there is no {path:?}");
        let unescape = |step: &str| step.replace("~1", "/").replace("~0", "~");
        let (_, steps) = path.split_once('/').ok_or_else(missing)?;
        let (steps, last) = steps.rsplit_once('/').map_or((None, steps), |(steps, last)| (Some(steps), last));
        let last = unescape(last);
        let mut inner = document;
        for step in steps.into_iter().flat_map(|steps| steps.split('/')).map(unescape) {
            inner = match inner {
                Value::Object(members) => members.get_mut(&step).ok_or_else(missing)?,
                Value::Array(elements) => {
                    let index = existing(&step, elements.len())?;
                    &mut elements[index]
                }
                _ => return Err(missing()),
            };
        }
        match inner {
            Value::Object(members) => Ok(Self::Member(members, last)),
            Value::Array(elements) => Ok(Self::Element(elements, last)),
            _ => Err(missing()),
        }
    }

    fn get(self) -> Result<Option<&'a Value>, String> {
        match self {
            Self::Member(members, name) => Ok(members.get(&name)),
            Self::Element(elements, index) => {
                let index = existing(&index, elements.len())?;
                Ok(elements.get(index))
            }
        }
    }

    fn remove(self, spent: &mut Spent) -> Result<Value, String> {
        match self {
            Self::Member(members, name) => {
                members.remove(&name).ok_or_else(|| format!("there is no {name:?}"))
            }
            Self::Element(elements, index) => {
                let index = existing(&index, elements.len())?;
                spent.steps(elements.len() - index)?;
                Ok(elements.remove(index))
            }
        }
    }
}

/// An index below `len`; a negative one counts from the end.
fn existing(step: &str, len: usize) -> Result<usize, String> {
    let index: i64 = step.parse().map_err(|_| format!("{step:?} is not an index"))?;
    let from_start = if index < 0 { index.saturating_add_unsigned(len as u64) } else { index };
    let index = usize::try_from(from_start).ok().filter(|index| *index < len);
    index.ok_or_else(|| format!("there is no element {step}"))
}

fn check_depth(path: &str, value: &Value, spent: &mut Spent) -> Result<(), String> {
    let mut values = 0;
    let depth = path.matches('/').count() + depth(value, &mut values);
    spent.steps(values)?;
    (depth <= MAX_DEPTH).then_some(()).ok_or_else(|| format!("the result is deeper than {MAX_DEPTH} levels"))
}

/// How many levels a value has; `values` counts all in it.
fn depth(value: &Value, values: &mut usize) -> usize {
    *values += 1;
    match value {
        Value::Object(members) => 1 + members.values().map(|value| depth(value, values)).max().unwrap_or(0),
        Value::Array(elements) => 1 + elements.iter().map(|value| depth(value, values)).max().unwrap_or(0),
        _ => 0,
    }
}
