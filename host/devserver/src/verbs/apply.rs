//! Server-side apply: a PATCH that says what the whole of the applier's fields is to be.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;

use super::write::{Source, Write};
use super::{Answer, Core, ObjectPart, Outcome, Rendering, ResourceRequest, configuration, identity};
use crate::api::{ALREADY_EXISTS, About, ApiError, Cause};
use crate::store::Stored;

impl Core {
    /// Applies the body to an object, which is made if it is not there.
    pub(super) fn apply(&self, request: &ResourceRequest, part: ObjectPart) -> Outcome {
        let write = request.write()?;
        check_manager(request)?;
        let force = request.params.is_on("force");
        let config = Value::Object(configuration::read(request)?);
        let rendering = Rendering::of(request)?;
        let (stored, is_new) = self
            .apply_checked(&write, part, &config, force, &|| configuration::check_doubles(request, &write))?;
        let code = if is_new { StatusCode::CREATED } else { StatusCode::OK };
        Ok(Answer::Whole { code, body: rendering.object(&stored) })
    }

    /// Applies a configuration to an object, which is made if it is not there; whether it was made.
    pub(crate) fn apply_object(
        &self,
        write: &Write,
        part: ObjectPart,
        config: &Value,
        force: bool,
    ) -> Result<(Arc<Stored>, bool), ApiError> {
        self.apply_checked(write, part, config, force, &|| Ok(()))
    }

    /// The same; `check` has the last word once the configuration was merged.
    fn apply_checked(
        &self,
        write: &Write,
        part: ObjectPart,
        config: &Value,
        force: bool,
        check: &dyn Fn() -> Result<(), ApiError>,
    ) -> Result<(Arc<Stored>, bool), ApiError> {
        let source = Source { is_applied: true, ..Source::default() };
        let as_stored = |object: Value| match object {
            Value::Object(object) => {
                write.as_stored(object, &source).map_err(|error| unconverted(error, write))
            }
            _ => Err(ApiError::bad_request("the patch leaves no object")),
        };
        if creates(write, part) && self.store.get(&write.resource.storage, &write.key()).is_none() {
            let (object, managed) = self.applied(write, None, config, force)?;
            check()?;
            let mut object = as_stored(object)?;
            let version = identity::check_new(write, &mut object)?;
            match self.create_owned(write, object, Some(managed), &version) {
                // Another request was faster: then it is applied to what that one has made.
                Err(error) if error.reason == ALREADY_EXISTS => {}
                made => return made.map(|stored| (stored, true)),
            }
        }
        let stored = self.update_applied(write, part, |current| {
            let (object, managed) = self.applied(write, Some(current), config, force)?;
            check()?;
            Ok((as_stored(object)?, managed))
        })?;
        Ok((stored, false))
    }
}

/// Whether a request to apply names who applies.
pub(super) fn check_manager(request: &ResourceRequest) -> Result<(), ApiError> {
    if request.params.filled("fieldManager").is_some() {
        return Ok(());
    }
    let cause = Cause::required("fieldManager", "is required for apply patch");
    Err(ApiError::invalid(About::new("meta.k8s.io", "PatchOptions", ""), vec![cause]))
}

/// Whether an apply makes what is not there.
fn creates(write: &Write, part: ObjectPart) -> bool {
    part == ObjectPart::Main || part == ObjectPart::Status && write.resource.strategy.status_creates
}

/// A real server, which converts what it has applied to the type of the kind, takes what cannot be read for a fault of its own.
fn unconverted(error: ApiError, write: &Write) -> ApiError {
    let (kind, version) = (&write.resource.kind, &write.resource.version);
    let unreadable = format!("{kind} in version {version:?} cannot be handled as a {kind}: ");
    match error.message.strip_prefix(&unreadable) {
        Some(why) => {
            let message =
                format!("failed to convert new object ({kind} {}) to proper version: {why}", write.name);
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
        }
        None => error,
    }
}
