//! `create`.

use http::StatusCode;
use rand::RngExt as _;

use super::{Answer, Call, Core, JsonMap, Outcome, Rendering, key, reviews};
use crate::api::{About, ApiError, Cause, Metadata, Timestamp, check_metadata};
use crate::kinds;
use crate::resources::WrittenPart;
use crate::store::{Raced, Stored};

/// How many names a `generateName` is tried with.
const NAMES: usize = 8;
/// How long a name may be that is completed with five letters.
const GENERATED_BASE: usize = 58;

impl Core {
    pub(super) fn create(&self, call: &Call) -> Outcome {
        if call.target.name.is_some() {
            return Err(ApiError::method_not_allowed());
        }
        if call.is_review() {
            return reviews::review(call);
        }
        if call.resource.is("", "bindings") {
            return self.bind(call);
        }
        let stored = self.create_object(call, call.object()?)?;
        let body = Rendering::of(call)?.object(&stored);
        Ok(Answer::Whole { code: StatusCode::CREATED, body })
    }

    /// Makes an object of a call's resource and namespace.
    pub(super) fn create_object(
        &self,
        call: &Call,
        mut object: JsonMap,
    ) -> Result<std::sync::Arc<Stored>, ApiError> {
        let now = call.now();
        let base = complete_metadata(call, &mut object, now)?;
        let asked = Metadata::of(&mut object)?.text("name").to_owned();
        self.check_place(call, &asked)?;
        let mut causes = kinds::prepare_create(&call.resource, &mut object, now)?;
        self.allocate(call, &mut object, None);
        let metadata = Metadata::of(&mut object)?;
        let name = metadata.text("name").to_owned();
        causes.extend(check_metadata(&metadata, kinds::name_rule(&call.resource)));
        causes.extend(call.review(&mut object, None, WrittenPart::Object));
        if !causes.is_empty() {
            return Err(ApiError::invalid(call.about_kind(&name), causes));
        }
        let dry = call.params.dry_run()?;
        let mut name = name;
        for _ in 0..NAMES {
            let key = key(call.namespace(), &name);
            let outcome = match self.store.get(&call.resource.storage, &key) {
                Some(found) => Err(Raced::Exists(found)),
                None if dry => return call.imagine(object, ""),
                None => self.store.create(&call.resource.storage, &key, &call.head(), object.clone()),
            };
            match (outcome, &base) {
                (Ok(stored), _) => {
                    // What it is in may have come to its end meanwhile, and been looked through before this was there.
                    if let Err(error) = self.check_place(call, &name) {
                        if let Ok(last) = self.store.remove(&call.resource.storage, &key, &stored) {
                            self.after_end(call, &last);
                        }
                        return Err(error);
                    }
                    self.after_change(call);
                    return Ok(stored);
                }
                (Err(Raced::Exists(_)), Some(base)) => {
                    name = generate(base);
                    Metadata::of(&mut object)?.set("name", name.as_str());
                }
                (Err(Raced::Exists(found)), None) => return Err(exists(call, &name, &found)),
                (Err(raced), _) => return Err(call.raced(&raced)),
            }
        }
        Err(ApiError::already_exists(call.about_name(&name)))
    }

    /// Whether something can be made where the call says: not in what is being deleted.
    fn check_place(&self, call: &Call, name: &str) -> Result<(), ApiError> {
        if call.resource.is_custom() && self.is_definition_ending(&call.resource.storage) {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", why)
                .about(call.about_name(name)));
        }
        if !call.resource.namespaced {
            return Ok(());
        }
        let namespace = call.namespace();
        let found = self.store.get(super::namespaces::TABLE, namespace);
        let Some(found) = found else {
            return Err(ApiError::not_found(About::new("", "namespaces", namespace)));
        };
        if found.object.deletion_timestamp().is_none() {
            return Ok(());
        }
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut error = ApiError::forbidden(call.about_name(name), &why);
        error.causes.push(Cause {
            reason: "NamespaceTerminating",
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        });
        Err(error)
    }
}

/// Fills in what the server says of a new object; the base of its name if it is generated.
fn complete_metadata(call: &Call, object: &mut JsonMap, now: Timestamp) -> Result<Option<String>, ApiError> {
    let mut metadata = Metadata::of(object)?;
    if !metadata.text("resourceVersion").is_empty() {
        let why = "resourceVersion should not be set on objects to be created";
        return Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", why));
    }
    let namespace = metadata.text("namespace");
    if !namespace.is_empty() && namespace != call.namespace() {
        return Err(ApiError::bad_request(format!(
            "the namespace of the provided object does not match the namespace sent on the request: {namespace:?} is not {:?}",
            call.namespace()
        )));
    }
    if call.resource.namespaced {
        metadata.set("namespace", call.namespace());
    }
    let base = metadata.text("generateName").to_owned();
    let generated = metadata.text("name").is_empty() && !base.is_empty();
    if generated {
        let name = generate(&base);
        metadata.set("name", name);
    }
    for field in
        ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "generation"]
    {
        metadata.remove(field);
    }
    if kinds::keeps_generation(&call.resource) {
        metadata.set("generation", 1);
    }
    metadata.set("uid", new_uid());
    metadata.set("creationTimestamp", now.seconds());
    Ok(generated.then_some(base))
}

fn exists(call: &Call, name: &str, found: &Stored) -> ApiError {
    let mut error = ApiError::already_exists(call.about_name(name));
    if found.object.deletion_timestamp().is_some() {
        error.message = format!("object is being deleted: {}", error.message);
    }
    error
}

/// A name from its base, as the API makes them: five letters or digits that spell nothing.
fn generate(base: &str) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut name: String = base.chars().take(GENERATED_BASE).collect();
    let mut random = rand::rng();
    name.extend((0..5).map(|_| char::from(LETTERS[random.random_range(0..LETTERS.len())])));
    name
}

/// A random UUID (version 4).
pub(super) fn new_uid() -> String {
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
