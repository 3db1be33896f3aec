//! Strategic merge patch: a merge patch that knows the type of the object, and so which lists to merge by which key.
//!
//! | in the patch | effect |
//! |---|---|
//! | a map | merged member by member; null deletes; `$patch: replace` and `$patch: delete` replace and empty it |
//! | `$retainKeys: [a, b]` | the live map loses all other members; the patch may set no others |
//! | a list that merges, of maps | merged by key; new elements are added |
//! | … `$patch: delete` in an element | deletes the elements that have its key |
//! | … `$patch: replace` in an element | the other elements replace the list |
//! | a list that merges, of scalars | the union |
//! | any other list | replaces the live one |
//! | `$deleteFromPrimitiveList/f: [a]` | deletes scalars from the list `f` |
//! | `$setElementOrder/f: [...]` | the order of the list `f`; it must agree with that of the patch |
//!
//! What is added as a whole (a new field) loses its nulls and what carries `$patch`; an element added to a list is
//! taken as it stands. Directives that are not where they have a meaning stay in the object as unknown fields, as on
//! the server.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::PatchError;
use super::order::{Item, ListOrder, arrange};
use crate::apply::go_text;
use crate::schema::{BuiltinTypes, Field, Kind, Type, TypeId, clipped};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";

type Object = Map<String, Value>;

/// Applies a strategic merge patch to an object of the type `schema`.
pub(super) fn apply(patch: &Value, current: &Value, schema: &Type) -> Result<Value, PatchError> {
    let live = current.as_object().cloned().unwrap_or_default();
    match patch {
        Value::Object(patch) => Ok(Value::Object(merge_map(live, patch, schema)?)),
        Value::Null => Ok(current.clone()),
        _ => Err(PatchError::Malformed("a strategic merge patch is a JSON object".to_owned())),
    }
}

fn merge_map(mut live: Object, patch: &Object, schema: &Type) -> Result<Object, PatchError> {
    match patch.get(DIRECTIVE) {
        None => {}
        Some(directive) if directive == "replace" => {
            let mut replacement = patch.clone();
            replacement.remove(DIRECTIVE);
            return Ok(replacement);
        }
        Some(directive) if directive == "delete" => return Ok(Object::new()),
        Some(directive) => return Err(unknown_directive(directive)),
    }
    retain_keys(&mut live, patch)?;
    let ordered = merge_ordered_lists(&mut live, patch, schema)?;

    for (name, change) in patch {
        if name == RETAIN_KEYS || name.starts_with(SET_ELEMENT_ORDER) || ordered.contains(name.as_str()) {
            continue;
        }
        let deletes = name.starts_with(DELETE_FROM_LIST);
        let name = if deletes { directive_target(name, DELETE_FROM_LIST)? } else { name };
        let merged = match (live.get_mut(name), change) {
            (_, Value::Null) => None,
            (Some(Value::Object(inner)), Value::Object(change)) => {
                let field = field_of(schema, name)?;
                let inner = std::mem::take(inner);
                let whole = field.patch.replace;
                Some(Value::Object(if whole {
                    change.clone()
                } else {
                    merge_map(inner, change, type_of(field.value_type))?
                }))
            }
            (Some(Value::Array(inner)), Value::Array(change)) => {
                let list = List::of(schema, name)?;
                Some(Value::Array(list.merge_field(std::mem::take(inner), change, deletes)?))
            }
            _ if deletes => continue,
            _ => without_directives(change, Nulls::Drop),
        };
        match merged {
            Some(value) => live.insert(name.to_owned(), value),
            None => live.remove(name),
        };
    }
    Ok(live)
}

/// Carries out `$retainKeys`.
fn retain_keys(live: &mut Object, patch: &Object) -> Result<(), PatchError> {
    let Some(retained) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let malformed = |reason: &str| PatchError::Malformed(format!("{RETAIN_KEYS}: {reason}"));
    let retained = retained.as_array().ok_or_else(|| malformed("it must be a list"))?;
    let retained: HashSet<_> = retained.iter().filter_map(Value::as_str).collect();
    let sets_another = patch.iter().any(|(name, value)| {
        let directive =
            name == RETAIN_KEYS || name.starts_with(DELETE_FROM_LIST) || name.starts_with(SET_ELEMENT_ORDER);
        !directive && !value.is_null() && !retained.contains(name.as_str())
    });
    if sets_another {
        return Err(malformed("the patch sets a field that the list does not hold"));
    }
    live.retain(|name, _| retained.contains(name.as_str()));
    Ok(())
}

/// Merges the lists for which the patch gives an order, and says which.
fn merge_ordered_lists<'p>(
    live: &mut Object,
    patch: &'p Object,
    schema: &Type,
) -> Result<HashSet<&'p str>, PatchError> {
    let mut merged = HashSet::new();
    for (directive, order) in patch {
        if !directive.starts_with(SET_ELEMENT_ORDER) {
            continue;
        }
        let order = elements_of(order, directive)?;
        let name = directive_target(directive, SET_ELEMENT_ORDER)?;
        let change = patch.get(name).map(|change| elements_of(change, name)).transpose()?.map(Vec::as_slice);
        let current = live.get(name).map(|current| elements_of(current, name)).transpose()?;
        let list = List::of(schema, name)?;
        list.check_order(change.unwrap_or_default(), order)?;
        let value = match (current, change) {
            (None, None) => continue,
            (None, Some(change)) => {
                let added = change.iter().filter_map(|element| without_directives(element, Nulls::Keep));
                list.arrange(added.collect(), order, &[], change)?
            }
            (Some(current), None) => list.arrange(current.clone(), order, current, &[])?,
            (Some(current), Some(change)) => {
                let merged = list.merge_field(current.clone(), change, false)?;
                list.arrange(merged, order, current, change)?
            }
        };
        live.insert(name.to_owned(), Value::Array(value));
        merged.insert(name);
    }
    Ok(merged)
}

/// A field that holds a list.
struct List<'a> {
    name: &'a str,
    field: &'a Field,
    element: &'a Type,
    key: Option<&'a str>,
}

/// The types that elements of a merged list may have; all must have the same.
#[derive(PartialEq)]
enum ElementKind {
    Object,
    String,
    Integer,
    Float,
    Boolean,
}

impl<'a> List<'a> {
    fn of(schema: &'a Type, name: &'a str) -> Result<Self, PatchError> {
        let field = field_of(schema, name)?;
        let element = type_of(field.value_type).items.map(type_of);
        let element =
            element.ok_or_else(|| PatchError::Conflicting(format!("the field {name} is not a list")))?;
        Ok(Self { name, field, element, key: field.merge_key.as_deref() })
    }

    /// What the patch makes of the list, by its strategy; `delete` is for `$deleteFromPrimitiveList`.
    fn merge_field(&self, live: Vec<Value>, patch: &[Value], delete: bool) -> Result<Vec<Value>, PatchError> {
        if !self.field.patch.merge && !delete {
            return Ok(patch.to_vec());
        }
        if live.is_empty() && patch.is_empty() {
            return Ok(live);
        }
        match self.element_kind([&live, patch])? {
            ElementKind::Object => self.merge_objects(live, patch),
            _ if delete => {
                let deleted = ListOrder::of(patch.iter().map(Value::to_string));
                Ok(live
                    .into_iter()
                    .map(scalar)
                    .filter(|item| !deleted.contains(item))
                    .map(|i| i.value)
                    .collect())
            }
            _ => {
                let live_order = ListOrder::of(live.iter().map(Value::to_string));
                let named = ListOrder::of(patch.iter().map(Value::to_string));
                let mut seen = HashSet::new();
                let mut union: Vec<_> = live.into_iter().chain(patch.iter().cloned()).map(scalar).collect();
                union.retain(|item| seen.insert(item.identity.clone()));
                Ok(arrange(union, &named, &live_order))
            }
        }
    }

    fn merge_objects(&self, mut live: Vec<Value>, patch: &[Value]) -> Result<Vec<Value>, PatchError> {
        let (mut named, mut deleted, mut replaces) = (Vec::new(), HashSet::new(), false);
        for element in patch {
            match element.get(DIRECTIVE) {
                None => named.push(element),
                Some(directive) if directive == "delete" => {
                    deleted.insert(self.identity(element)?);
                }
                Some(directive) if directive == "replace" => replaces = true,
                Some(directive) => return Err(unknown_directive(directive)),
            }
        }
        if replaces {
            let named: Vec<_> = named.into_iter().cloned().collect();
            let order = self.order(&named)?;
            let items = named.into_iter().map(|element| self.item(element)).collect::<Result<Vec<_>, _>>()?;
            return Ok(arrange(items, &ListOrder::of([]), &order));
        }
        live.retain(|element| self.identity(element).map_or(true, |identity| !deleted.contains(&identity)));
        let live_order = self.order(&live)?;
        let mut items = live.into_iter().map(|element| self.item(element)).collect::<Result<Vec<_>, _>>()?;
        let mut places = HashMap::new();
        for (place, item) in items.iter().enumerate() {
            places.entry(item.identity.clone()).or_insert(place);
        }
        for element in &named {
            let identity = self.identity(element)?;
            match (places.get(&identity), element) {
                (Some(&place), Value::Object(change)) => {
                    let value = items[place].value.take();
                    let inner = if let Value::Object(inner) = value { inner } else { Object::new() };
                    items[place] = self.item(Value::Object(merge_map(inner, change, self.element)?))?;
                }
                _ => {
                    places.insert(identity, items.len());
                    items.push(self.item((*element).clone())?);
                }
            }
        }
        let named = named.into_iter().map(|element| self.identity(element)).collect::<Result<Vec<_>, _>>()?;
        Ok(arrange(items, &ListOrder::of(named), &live_order))
    }

    /// Puts the elements of the merged list into the order that the patch gives.
    fn arrange(
        &self,
        merged: Vec<Value>,
        order: &[Value],
        live: &[Value],
        patch: &[Value],
    ) -> Result<Vec<Value>, PatchError> {
        if live.is_empty() && patch.is_empty() {
            return Err(PatchError::Conflicting(format!("nothing in {} to put into an order", self.name)));
        }
        self.element_kind([live, patch])?;
        let items = merged.into_iter().map(|element| self.item(element)).collect::<Result<Vec<_>, _>>()?;
        Ok(arrange(items, &self.order(order)?, &ListOrder::of(self.places(live, patch)?)))
    }

    /// The identities of the live list, place by place, while the patch is applied.
    ///
    /// The server deletes from and appends to the array that it then takes for the live order: new elements stand in
    /// the places of deleted ones, as many as there are.
    fn places(&self, live: &[Value], patch: &[Value]) -> Result<Vec<String>, PatchError> {
        let identities =
            |elements: &[Value]| elements.iter().map(|e| self.identity(e)).collect::<Result<Vec<_>, _>>();
        let mut places = identities(live)?;
        if self.key.is_none() || places.is_empty() {
            return Ok(places);
        }
        let (special, plain): (Vec<_>, Vec<_>) =
            patch.iter().cloned().partition(|e| e.get(DIRECTIVE).is_some());
        let (deleting, replacing): (Vec<_>, Vec<_>) =
            special.into_iter().partition(|e| e[DIRECTIVE] == "delete");
        let deleted: HashSet<_> = identities(&deleting)?.into_iter().collect();
        places.retain(|identity| !deleted.contains(identity));
        if replacing.is_empty() {
            let freed = live.len() - places.len();
            let mut known: HashSet<_> = places.iter().cloned().collect();
            let added = identities(&plain)?.into_iter().filter(|identity| known.insert(identity.clone()));
            places.extend(added.take(freed));
        }
        Ok(places)
    }

    /// Checks that the elements of the patch stand in the order that it gives, and are all in it.
    fn check_order(&self, patch: &[Value], order: &[Value]) -> Result<(), PatchError> {
        if patch.is_empty() || order.is_empty() {
            return Ok(());
        }
        let deleted =
            |element: &&Value| self.key.is_some() && element.get(DIRECTIVE).is_some_and(|d| d == "delete");
        let mut wanted = patch.iter().filter(|element| !deleted(element)).peekable();
        let mut order = order.iter().peekable();
        while let Some(element) = wanted.peek()
            && let Some(place) = order.peek()
        {
            if element.get(DIRECTIVE).is_some() {
                wanted.next();
                continue;
            }
            if self.identity(element)? == self.identity(place)? {
                wanted.next();
            }
            order.next();
        }
        if wanted.peek().is_some() {
            let reason = format!("the order in {} differs from that in {SET_ELEMENT_ORDER}/{0}", self.name);
            return Err(PatchError::Conflicting(reason));
        }
        Ok(())
    }

    fn order(&self, elements: &[Value]) -> Result<ListOrder, PatchError> {
        Ok(ListOrder::of(
            elements.iter().map(|element| self.identity(element)).collect::<Result<Vec<_>, _>>()?,
        ))
    }

    fn item(&self, value: Value) -> Result<Item, PatchError> {
        Ok(Item { identity: self.identity(&value)?, value })
    }

    /// What identifies an element: its merge key, or itself in a list of scalars.
    fn identity(&self, element: &Value) -> Result<String, PatchError> {
        let Some(key) = self.key else {
            return match element {
                Value::Object(_) | Value::Array(_) => {
                    Err(PatchError::Conflicting(format!("elements of {} have no merge key", self.name)))
                }
                scalar => Ok(scalar.to_string()),
            };
        };
        if !element.is_object() {
            return Err(PatchError::Conflicting(format!(
                "an element of {} is not a map: {element}",
                self.name
            )));
        }
        let identity = element.get(key).map(Value::to_string);
        identity.ok_or_else(|| PatchError::MissingMergeKey {
            element: go_text(element, false),
            key: key.to_owned(),
        })
    }

    fn element_kind(&self, lists: [&[Value]; 2]) -> Result<ElementKind, PatchError> {
        let mut kind = None;
        for element in lists.into_iter().flatten() {
            let this = match element {
                Value::Object(_) => Some(ElementKind::Object),
                Value::String(_) => Some(ElementKind::String),
                Value::Number(number) if number.is_f64() => Some(ElementKind::Float),
                Value::Number(_) => Some(ElementKind::Integer),
                Value::Bool(_) => Some(ElementKind::Boolean),
                Value::Array(_) if kind.is_none() => {
                    return Err(PatchError::DoesNotApply(format!("{} is a list of lists", self.name)));
                }
                Value::Array(_) | Value::Null => None,
            };
            if this.is_none() || kind.is_some() && kind != this {
                let lists = lists.map(|list| go_text(&list.to_vec().into(), false)).join(" ");
                let why = format!("list element types are not identical: [{}]", clipped(&lists));
                return Err(PatchError::Conflicting(why));
            }
            kind = this;
        }
        kind.ok_or_else(|| PatchError::Conflicting("no elements in any of the given slices".to_owned()))
    }
}

fn scalar(value: Value) -> Item {
    Item { identity: value.to_string(), value }
}

/// One of the types of the built-in kinds, which alone take strategic merge patches.
fn type_of(id: TypeId) -> &'static Type {
    BuiltinTypes::get().types().get(id)
}

fn field_of<'a>(schema: &'a Type, name: &str) -> Result<&'a Field, PatchError> {
    schema.fields.get(name).ok_or_else(|| {
        PatchError::Conflicting(match schema.kind == Kind::Any {
            // It is the only struct that live objects have fields of, although it has none.
            true => format!(
                "unable to find api field in struct RawExtension for the json field {}",
                Value::from(name)
            ),
            false => format!("the type of the object has no field {name}"),
        })
    })
}

/// The field that a directive such as `$setElementOrder/ports` is for.
fn directive_target<'a>(name: &'a str, directive: &str) -> Result<&'a str, PatchError> {
    let target = name.strip_prefix(directive).and_then(|rest| rest.strip_prefix('/'));
    target.ok_or_else(|| PatchError::Malformed(format!("{name:?} is not of the form {directive}/field")))
}

fn elements_of<'a>(value: &'a Value, name: &str) -> Result<&'a Vec<Value>, PatchError> {
    value.as_array().ok_or_else(|| PatchError::Conflicting(format!("{name} must be a list")))
}

fn unknown_directive(directive: &Value) -> PatchError {
    PatchError::Conflicting(format!("{DIRECTIVE} does not take {directive} here"))
}

#[derive(Clone, Copy, PartialEq)]
enum Nulls {
    Drop,
    Keep,
}

/// The value without the maps in it that carry `$patch`; `None` if it is one itself.
fn without_directives(value: &Value, nulls: Nulls) -> Option<Value> {
    match value {
        Value::Object(members) if members.contains_key(DIRECTIVE) => None,
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, value)| nulls == Nulls::Keep || !value.is_null());
            Some(
                kept.filter_map(|(name, value)| Some((name.clone(), without_directives(value, nulls)?)))
                    .collect(),
            )
        }
        Value::Array(elements) => {
            Some(elements.iter().filter_map(|element| without_directives(element, nulls)).collect())
        }
        scalar => Some(scalar.clone()),
    }
}
