//! What of an object's metadata the server says and not the client: names that are made, UIDs, times, generations; and whether
//! an object is the one that a write names.

use std::collections::BTreeSet;

use http::StatusCode;
use rand::RngExt as _;
use serde_json::Value;

use super::JsonMap;
use super::write::Write;
use crate::api::{ApiError, Cause, Metadata, Timestamp};
use crate::kinds::Generation;
use crate::store::Stored;

/// How long a name may be that is completed with five letters.
const GENERATED_BASE: usize = 58;

/// Takes out of an object of a POST what a client cannot say of it, and what nobody is to own.
pub(super) fn wipe(object: &mut JsonMap) -> Result<(), ApiError> {
    let mut metadata = Metadata::of(object)?;
    for field in ["uid", "creationTimestamp", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        metadata.remove(field);
    }
    Ok(())
}

/// Fills in what the server says of a new object; the base of its name if it is generated.
pub(super) fn begin(write: &Write, object: &mut JsonMap, now: Timestamp) -> Result<Option<String>, ApiError> {
    let mut metadata = Metadata::of(object)?;
    clear_namespace(write, &mut metadata);
    let namespace = metadata.text("namespace");
    if !namespace.is_empty() && namespace != write.namespace() {
        return Err(other_namespace());
    }
    if write.resource.namespaced {
        metadata.set("namespace", write.namespace());
    }
    let base = metadata.text("generateName").to_owned();
    let generated = metadata.text("name").is_empty() && !base.is_empty();
    if generated {
        let name = generate(&base);
        metadata.set("name", name);
    }
    metadata.remove("generation");
    if !matches!(write.resource.strategy.generation, Generation::None | Generation::Later) {
        metadata.set("generation", 1);
    }
    metadata.set("uid", new_uid());
    metadata.set("creationTimestamp", now.seconds());
    Ok(generated.then_some(base))
}

/// Whether a new object, that is complete and valid, has no resource version.
pub(super) fn check_unversioned(object: &mut JsonMap) -> Result<(), ApiError> {
    match Metadata::of(object)?.text("resourceVersion") {
        "" => Ok(()),
        version if version.parse::<u64>().is_err() => Err(not_a_version(version)),
        _ => {
            let why = "resourceVersion should not be set on objects to be created";
            Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", why))
        }
    }
}

/// Carries over what no update may change, and counts the generation on if asked.
pub(super) fn keep<'a>(
    write: &Write,
    old: &JsonMap,
    next: &'a mut JsonMap,
    counts: bool,
    causes: &mut Vec<Cause>,
) -> Result<Metadata<'a>, ApiError> {
    let old = old.get("metadata").and_then(Value::as_object);
    let mut metadata = Metadata::of(next)?;
    metadata.copy("creationTimestamp", old.and_then(|old| old.get("creationTimestamp")));
    let uid = metadata.text("uid").to_owned();
    if uid.is_empty() || old.and_then(|old| old.get("uid")).is_none_or(|old| *old == uid.as_str()) {
        metadata.copy("uid", old.and_then(|old| old.get("uid")));
    } else {
        // The rest is judged with the one that was sent.
        causes.push(Cause::invalid("metadata.uid", &uid, "field is immutable"));
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        let old = old.and_then(|old| old.get(field));
        let is_kept = field == "deletionTimestamp" && old.is_some();
        if let Some(new) = metadata.get(field).filter(|new| !is_kept && Some(*new) != old && **new != "") {
            let message = format!("Invalid value: {new}: field is immutable");
            let cause = Cause::invalid(&format!("metadata.{field}"), "", "");
            causes.push(Cause { message, ..cause });
        }
        metadata.copy(field, old);
    }
    for field in ["namespace", "generation"] {
        metadata.copy(field, old.and_then(|old| old.get(field)));
    }
    // It is taken out on the way to the store.
    if !write.dry {
        metadata.remove("selfLink");
    }
    if counts {
        let generation = metadata.generation();
        metadata.set("generation", generation + 1);
    }
    Ok(metadata)
}

/// An object that is being deleted gets no more finalizers.
pub(super) fn new_finalizers(old: &JsonMap, metadata: &Metadata<'_>) -> Option<Cause> {
    let old = old.get("metadata").and_then(Value::as_object)?;
    old.get("deletionTimestamp")?;
    let had = |name: &str| {
        old.get("finalizers").and_then(Value::as_array).is_some_and(|list| list.iter().any(|f| f == name))
    };
    let new: BTreeSet<&str> = metadata.finalizers().filter(|name| !had(name)).collect();
    (!new.is_empty()).then(|| {
        let new: Vec<String> = new.into_iter().map(|name| format!("{name:?}")).collect();
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            new.join(", ")
        );
        Cause::forbidden("metadata.finalizers", &why)
    })
}

/// Whether an object that is not there can be made by a PUT: it must be the one that the URL names, and not one that was
/// there before. The answer is the resource version that it came with, which counts for nothing.
pub(super) fn check_new(write: &Write, object: &mut JsonMap) -> Result<String, ApiError> {
    let mut metadata = Metadata::of(object)?;
    check_names(write, &mut metadata)?;
    let uid = metadata.text("uid");
    if !uid.is_empty() {
        let why = match write.is_patch {
            true => format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            ),
            false => other_uid(uid, ""),
        };
        return Err(ApiError::conflict(write.about(), &why));
    }
    let version = metadata.text("resourceVersion").to_owned();
    if !version.is_empty() && version.parse::<u64>().is_err() {
        return Err(not_a_version(&version));
    }
    metadata.remove("resourceVersion");
    // It is taken out on the way to the store.
    if !write.dry {
        metadata.remove("selfLink");
    }
    Ok(version)
}

/// An object of the whole cluster is in no namespace, whatever a manifest says.
fn clear_namespace(write: &Write, metadata: &mut Metadata<'_>) {
    if !write.resource.namespaced {
        metadata.remove("namespace");
    }
}

pub(super) fn unnamed(write: &Write) -> ApiError {
    ApiError::bad_request(format!(
        "the name of the object ({} based on URL) was undeterminable: name must be provided",
        write.name
    ))
}

fn other_namespace() -> ApiError {
    let why = "the namespace of the provided object does not match the namespace sent on the request";
    ApiError::bad_request(why)
}

/// Whether an object is of the name and the namespace that the URL names.
fn check_names(write: &Write, metadata: &mut Metadata<'_>) -> Result<(), ApiError> {
    let name = metadata.text("name");
    if name.is_empty() {
        return Err(unnamed(write));
    }
    if name != write.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            write.name
        )));
    }
    clear_namespace(write, metadata);
    let namespace = metadata.text("namespace");
    if !namespace.is_empty() && namespace != write.namespace() {
        return Err(other_namespace());
    }
    Ok(())
}

/// Whether an object is of the name and the namespace that the URL names, whatever is stored there.
pub(super) fn check_names_of(write: &Write, object: &JsonMap) -> Result<(), ApiError> {
    check_names(write, &mut Metadata::of(&mut object.clone())?)
}

/// What a server says of a UID that is not that of the object.
fn other_uid(uid: &str, own: &str) -> String {
    format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {own}")
}

/// What Go says of a resource version that is no number.
fn not_a_version(version: &str) -> ApiError {
    let is_number = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
    let why = if is_number { "value out of range" } else { "invalid syntax" };
    let message = format!("strconv.ParseUint: parsing {}: {why}", Value::from(version));
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
}

/// Whether `object` is a state of the object that the write names, made from its current version.
pub(super) fn check(write: &Write, current: &Stored, object: &mut JsonMap) -> Result<(), ApiError> {
    let mut metadata = Metadata::of(object)?;
    check_names(write, &mut metadata)?;
    let uid = metadata.text("uid");
    // Of a patch it is one cause of several.
    if !uid.is_empty() && uid != current.object.uid() && !write.is_patch {
        return Err(ApiError::conflict(write.about(), &other_uid(uid, current.object.uid())));
    }
    match metadata.text("resourceVersion") {
        "" if write.resource.strategy.needs_version => {
            let message = "Invalid value: 0: must be specified for an update".to_owned();
            let cause = Cause { message, ..Cause::invalid("metadata.resourceVersion", "", "") };
            // As a real server has it: with the name of the resource where the kind should stand.
            Err(ApiError::invalid(write.about(), vec![cause]))
        }
        "" => Ok(()),
        version if version == current.object.resource_version() => Ok(()),
        version if version.parse::<u64>().is_err() => Err(not_a_version(version)),
        _ => Err(ApiError::stale(write.about())),
    }
}

/// A name from its base, as the API makes them: five letters or digits that spell nothing.
pub(super) fn generate(base: &str) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut name: String = base.chars().take(GENERATED_BASE).collect();
    let mut random = rand::rng();
    name.extend((0..5).map(|_| char::from(LETTERS[random.random_range(0..LETTERS.len())])));
    name
}

/// A random UUID (version 4).
pub(crate) fn new_uid() -> String {
    let bits = rand::rng().random::<u128>() & !(0xf << 76) & !(0b11 << 62) | (4 << 76) | (0b10 << 62);
    let hex = format!("{bits:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_are_uuids_of_version_4() {
        for _ in 0..100 {
            let uid = new_uid();
            let parts: Vec<usize> = uid.split('-').map(str::len).collect();
            assert_eq!(parts, [8, 4, 4, 4, 12], "{uid}");
            assert_eq!(&uid[14..15], "4", "{uid}");
            assert!("89ab".contains(&uid[19..20]), "{uid}");
        }
    }
}
