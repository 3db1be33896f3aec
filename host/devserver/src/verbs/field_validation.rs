//! `fieldValidation`: what becomes of unknown and duplicate fields of a write; and the last look at what it makes.

use serde_json::Value;

use super::{Call, JsonMap};
use crate::api::{About, ApiError, Cause, FieldValidation};
use crate::resources::WrittenPart;
use crate::schema::{duplicate_fields, invalid};

impl Call {
    /// Drops unknown fields of an object as a client has it, puts in the defaults of its schema, and warns of unknown fields
    /// and of duplicates in the body, or refuses them, as the request asks for.
    pub(super) fn admit(&self, object: &mut JsonMap) -> Result<(), ApiError> {
        let wanted = self.params.field_validation(self.options())?;
        let before =
            (wanted == FieldValidation::Strict && self.is_patch()).then(|| Value::Object(object.clone()));
        let unknown = self.resource.admit(object)?;
        if wanted == FieldValidation::Ignore {
            return Ok(());
        }
        let mut faults = self.duplicates();
        let patch_is_at_fault = unknown.is_empty();
        faults.extend(unknown.iter().map(|path| format!("unknown field \"{path}\"")));
        if wanted == FieldValidation::Warn {
            self.warnings.add(faults);
            return Ok(());
        }
        if faults.is_empty() {
            return Ok(());
        }
        let error = format!("strict decoding error: {}", faults.join(", "));
        let Some(before) = before else {
            let (kind, version) = (&self.resource.kind, &self.resource.version);
            let why = format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}");
            return Err(ApiError::bad_request(why));
        };
        let blamed = match patch_is_at_fault {
            true => String::from_utf8_lossy(&self.body).into_owned(),
            false => before.to_string(),
        };
        Err(ApiError::invalid(About::default(), vec![invalid("patch", &blamed.into(), &error)]))
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

    /// The kind of the request's options.
    fn options(&self) -> &'static str {
        match &self.target.name {
            _ if self.is_patch() => "PatchOptions",
            Some(_) => "UpdateOptions",
            None => "CreateOptions",
        }
    }

    /// The fields that stand more than once in the body, if that is JSON.
    fn duplicates(&self) -> Vec<String> {
        let prefix = match self.content_type.as_str() {
            "application/json-patch+json" => "json patch ",
            "" | "application/json" => "",
            _ if self.is_patch() => "",
            _ => return Vec::new(),
        };
        let paths = duplicate_fields(&self.body);
        paths.iter().map(|path| format!("{prefix}duplicate field \"{path}\"")).collect()
    }
}
