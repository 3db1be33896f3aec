//! [`Write`]: what the pipeline needs to know of a write, whether a client or the server itself is behind it.

use std::collections::HashSet;
use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use crate::api::{About, ApiError, Cause, FieldValidation, JsonMap, Metadata, Warnings};
use crate::kinds;
use crate::resources::{Resource, WrittenPart};
use crate::schema::{BuiltinTypes, faults_of_text, invalid};
use crate::store::{Head, ManagedFields, Raced, Stored};
use crate::typed;

/// The manager of what the server itself writes.
const SERVER: &str = "kube-apiserver";

/// A write of one object.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    pub(crate) resource: Arc<Resource>,
    pub(crate) namespace: Option<String>,
    /// Empty for a new object, whose name is in itself.
    pub(crate) name: String,
    /// Nothing is to be kept of it.
    pub(crate) dry: bool,
    /// It comes from a patch, for which some errors have other words.
    pub(crate) is_patch: bool,
    pub(crate) validation: FieldValidation,
    pub(crate) warnings: Warnings,
    /// Who owns what is written.
    pub(crate) manager: String,
    /// The subresource through which it is written; empty if through none.
    pub(crate) subresource: String,
}

/// What is known of the text that an object came in.
#[derive(Debug, Default)]
pub(crate) struct Source<'a> {
    /// What is wrong with the text itself: fields that stand in it more than once.
    pub(super) faults: Vec<String>,
    /// The patch that has made the object.
    pub(super) patch: Option<&'a [u8]>,
    /// Whether that is a strategic merge patch.
    pub(super) is_strategic: bool,
    /// The text of the body.
    pub(super) text: &'a [u8],
    /// Whether the text is the object itself, in JSON.
    pub(super) is_json: bool,
    /// Whether the object was applied.
    pub(super) is_applied: bool,
}

impl Write {
    /// A write of the server itself.
    pub(crate) fn own(resource: Arc<Resource>, namespace: Option<String>, name: &str) -> Self {
        Self {
            resource,
            namespace,
            name: name.to_owned(),
            dry: false,
            is_patch: false,
            validation: FieldValidation::Warn,
            warnings: Warnings::default(),
            manager: SERVER.to_owned(),
            subresource: String::new(),
        }
    }

    /// The same on another object of the namespace.
    pub(super) fn beside(&self, resource: Arc<Resource>, name: &str) -> Self {
        Self { resource, name: name.to_owned(), ..self.clone() }
    }

    /// The same on another object of the resource.
    pub(super) fn on(&self, stored: &Stored) -> Self {
        Self {
            namespace: stored.object.namespace().map(str::to_owned),
            name: stored.object.name().to_owned(),
            ..self.clone()
        }
    }

    pub(super) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// Under which key the object is stored.
    pub(crate) fn key(&self) -> String {
        key(self.namespace(), &self.name)
    }

    /// What errors are about: the resource and the name.
    pub(super) fn about(&self) -> About {
        self.about_name(&self.name)
    }

    pub(super) fn about_name(&self, name: &str) -> About {
        About::new(&self.resource.group, &self.resource.name, name)
    }

    /// What validation is about: the kind and the name.
    pub(super) fn about_kind(&self, name: &str) -> About {
        // Of the two groups that have Events the real server names the first.
        let group = if self.resource.kind == "Event" { "" } else { &self.resource.group };
        About::new(group, &self.resource.kind, name)
    }

    /// What stands before a stored object of this resource.
    pub(super) fn head(&self) -> Head {
        Head::new(&self.resource.api_version(), &self.resource.kind)
    }

    /// What would have come of a write; a new object has no version.
    pub(super) fn imagine(
        &self,
        object: JsonMap,
        managed: ManagedFields,
        version: &str,
    ) -> Result<Arc<Stored>, ApiError> {
        self.imagined(object, managed, version).map_err(|raced| self.raced(&raced))
    }

    /// As [`Write::imagine`].
    pub(super) fn imagined(
        &self,
        mut object: JsonMap,
        managed: ManagedFields,
        version: &str,
    ) -> Result<Arc<Stored>, Raced> {
        let mut metadata = Metadata::of(&mut object).map_err(|error| Raced::Malformed(error.message))?;
        match version {
            "" => metadata.remove("resourceVersion"),
            version => metadata.set("resourceVersion", version),
        }
        Stored::imagine(&self.head(), object, managed, 0).map_err(Raced::Malformed)
    }

    pub(super) fn raced(&self, raced: &Raced) -> ApiError {
        match raced {
            Raced::Exists(_) => ApiError::already_exists(self.about()),
            Raced::Changed => ApiError::stale(self.about()),
            Raced::Malformed(why) => ApiError::bad_request(format!("the object cannot be kept: {why}")),
        }
    }

    /// The error of an object that may not be stored as it is; none without causes.
    pub(super) fn accept(&self, name: &str, causes: Vec<Cause>) -> Result<(), ApiError> {
        if causes.is_empty() {
            return Ok(());
        }
        Err(ApiError::invalid(self.about_kind(name), causes))
    }

    /// An object of this resource as a client has it, in the stored form: unknown fields dropped, defaults put in.
    pub(crate) fn as_stored(&self, mut object: JsonMap, source: &Source<'_>) -> Result<JsonMap, ApiError> {
        // An empty list forgets all managers, and would be dropped as all empty lists are; that of a custom object is.
        let forgets = !self.resource.is_custom()
            && object.get("metadata").is_some_and(|metadata| metadata["managedFields"] == json!([]));
        let read = |object: &mut JsonMap| {
            if source.is_strategic {
                source.settle_kind(&self.resource, object)?;
            }
            check_kind(&self.resource, object, source)?;
            if (source.is_strategic || source.is_applied) && !self.resource.is_custom() {
                typed::settle_numbers(object);
            }
            self.admit(object, source)
        };
        read(&mut object).map_err(|error| source.blamed(error, &self.resource.kind))?;
        if forgets && let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.insert("managedFields".to_owned(), json!([]));
        }
        kinds::to_stored(&self.resource, &mut object);
        Ok(object)
    }

    /// Drops unknown fields of an object as a client has it, puts in the defaults of its schema, and warns of unknown fields
    /// and of duplicates in the body, or refuses them, as the request asks for.
    fn admit(&self, object: &mut JsonMap, source: &Source<'_>) -> Result<(), ApiError> {
        let before = (self.validation == FieldValidation::Strict && source.patch.is_some())
            .then(|| Value::Object(object.clone()));
        let of_text = self.faults_of_text(source);
        // The schema is that of its own kind.
        let unknown = match is_of_kind(&self.resource, object) {
            true if source.is_applied => self.resource.admit_applied(object)?,
            true => self.resource.admit(object)?,
            false => Vec::new(),
        };
        if self.validation == FieldValidation::Ignore {
            return Ok(());
        }
        let patch_is_at_fault = unknown.is_empty();
        let faults = of_text.unwrap_or_else(|| self.faults(unknown, source));
        if self.validation == FieldValidation::Warn {
            self.warnings.add(faults);
            return Ok(());
        }
        if faults.is_empty() {
            return Ok(());
        }
        let error = format!("strict decoding error: {}", faults.join(", "));
        let (Some(before), Some(patch)) = (before, source.patch) else {
            let (kind, version) = (&self.resource.kind, &self.resource.version);
            let why = format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}");
            return Err(ApiError::bad_request(why));
        };
        let blamed = match patch_is_at_fault {
            true => String::from_utf8_lossy(patch).into_owned(),
            false => before.to_string(),
        };
        Err(ApiError::invalid(About::default(), vec![invalid("patch", &blamed.into(), &error)]))
    }

    /// The fields that are twice in the text of an object of a built-in kind, or that nobody knows.
    fn faults_of_text(&self, source: &Source<'_>) -> Option<Vec<String>> {
        let (resource, types) = (&self.resource, BuiltinTypes::get());
        if !source.is_json || resource.is_custom() {
            return None;
        }
        let kind = types.of_kind(&resource.api_version(), &resource.kind)?;
        Some(faults_of_text(source.text, types.types(), kind))
    }

    /// The fields that are twice in a body, or that nobody knows.
    fn faults(&self, unknown: Vec<String>, source: &Source<'_>) -> Vec<String> {
        let mut faults = source.faults.clone();
        if source.patch.is_none() {
            // What is in a field that nobody knows is not looked at.
            let fields: HashSet<&str> = unknown.iter().map(String::as_str).collect();
            faults.retain(|fault| !is_below(fault, &fields));
        }
        faults.extend(unknown.iter().map(|path| format!("unknown field \"{path}\"")));
        faults
    }

    /// What is wrong with an object that is to be stored; if nothing is, it is brought to the stored form.
    pub(super) fn review(
        &self,
        object: &mut JsonMap,
        old: Option<&JsonMap>,
        part: WrittenPart,
    ) -> Vec<Cause> {
        let review = self.resource.review(object, old, part);
        self.warnings.add(review.warnings);
        review.causes
    }
}

impl Source<'_> {
    /// The error of an object that cannot be read; of one that a patch has made, the patch is to blame.
    fn blamed(&self, error: ApiError, kind: &str) -> ApiError {
        let Some(patch) = self.patch.filter(|_| error.code == StatusCode::BAD_REQUEST) else { return error };
        let text = error.message.split_once(&format!(" cannot be handled as a {kind}: "));
        let Some((_, why)) = text else { return error };
        Self::bad_patch(patch, why)
    }

    fn bad_patch(patch: &[u8], why: &str) -> ApiError {
        let patch = String::from_utf8_lossy(patch).into_owned();
        ApiError::invalid(About::default(), vec![invalid("patch", &patch.into(), why)])
    }

    /// What a strategic merge patch says of kind and version is forgotten, if it is a text: the type of Go that is patched has
    /// its own.
    fn settle_kind(&self, resource: &Resource, object: &mut JsonMap) -> Result<(), ApiError> {
        for (field, own) in [("apiVersion", resource.api_version()), ("kind", resource.kind.clone())] {
            if !matches!(object.get(field), None | Some(Value::Null | Value::String(_))) {
                let why = format!("{field} must be a string");
                return Err(Self::bad_patch(self.patch.unwrap_or_default(), &why));
            }
            object.insert(field.to_owned(), own.into());
        }
        Ok(())
    }
}

/// Whether a fault names a path below one of these.
fn is_below(fault: &str, fields: &HashSet<&str>) -> bool {
    let path = fault.split('"').nth(1).unwrap_or_default();
    let ends = path.char_indices().filter(|(_, letter)| matches!(letter, '.' | '['));
    ends.into_iter().any(|(end, _)| fields.contains(&path[..end]))
}

/// Checks `apiVersion` and `kind` of an object that came for a resource; built-in kinds may leave them out.
pub(super) fn check_kind(resource: &Resource, object: &JsonMap, source: &Source<'_>) -> Result<(), ApiError> {
    let refused = |why: &str| match source.patch {
        Some(patch) => Source::bad_patch(patch, why),
        None => ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {why} ({})",
            resource.kind,
            summary(source.text)
        )),
    };
    let text = |field: &str| match object.get(field) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(_) => Err(refused(&format!("couldn't get version/kind: {field} must be a string"))),
    };
    let (version, kind) = (text("apiVersion")?, text("kind")?);
    if resource.is_custom() && (kind.is_empty() || version.is_empty()) {
        let missing = if kind.is_empty() { "Kind" } else { "apiVersion" };
        let why = format!("Object '{missing}' is missing in '{}'", String::from_utf8_lossy(source.text));
        if source.patch.is_some() && !kind.is_empty() {
            // As a real server has it: a version that a patch takes away is a fault of the server.
            let mut error = ApiError::internal(format!("Internal error occurred: {why}"));
            error.causes.push(Cause { reason: "", message: why, field: String::new() });
            return Err(error.about(About::default()));
        }
        return Err(refused(&why));
    }
    let own = resource.api_version();
    let (kind, version) = (
        if kind.is_empty() { &resource.kind } else { kind },
        if version.is_empty() { &own } else { version },
    );
    if *kind == resource.kind && *version == own {
        return Ok(());
    }
    // It is refused once it is known which object it would replace.
    if resource.is_custom() && (*version == own || source.patch.is_some()) {
        return Ok(());
    }
    let is_known = resource.is_custom() || BuiltinTypes::get().of_kind(version, kind).is_some();
    if is_known && *kind == resource.kind {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({own})"
        )));
    }
    let mut error = format!(
        "{kind} in version {:?} cannot be handled as a {}",
        version.rsplit('/').next().unwrap_or_default(),
        resource.kind
    );
    if !is_known {
        error.push_str(&format!(
            ": no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
        ));
    }
    Err(ApiError::bad_request(error))
}

/// Whether an object is of the kind and version of a resource, as far as it says.
fn is_of_kind(resource: &Resource, object: &JsonMap) -> bool {
    let has = |field: &str, own: &str| object.get(field).is_none_or(|value| value == own);
    !resource.is_custom() || has("kind", &resource.kind) && has("apiVersion", &resource.api_version())
}

/// Refuses a custom object of another kind or version.
pub(super) fn check_type(write: &Write, object: &JsonMap) -> Result<(), ApiError> {
    let resource = &write.resource;
    if is_of_kind(resource, object) {
        return Ok(());
    }
    let text = |field: &str| object.get(field).and_then(Value::as_str);
    let (kind, version) = (text("kind").unwrap_or(&resource.kind), text("apiVersion"));
    let own = resource.api_version();
    let version = version.unwrap_or(&own);
    let mut causes = Vec::new();
    if kind != resource.kind {
        causes.push(Cause::invalid("kind", kind, &format!("must be {}", resource.kind)));
    }
    if version != own {
        causes.push(Cause::invalid("apiVersion", version, &format!("must be {own}")));
    }
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let name = object.get("metadata").and_then(|metadata| metadata["name"].as_str()).unwrap_or_default();
    Err(ApiError::invalid(About::new(group, kind, name), causes))
}

/// The beginning of a body, as messages show it.
fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let text = String::from_utf8_lossy(body);
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text.into_owned(),
    }
}

/// `namespace/name`, or the name alone.
pub(super) fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}
