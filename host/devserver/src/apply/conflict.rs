//! Fields that an applier would take from other managers.

use http::StatusCode;

use super::managers::{Identity, Operation};
use super::set::Set;
use super::value::quoted;
use crate::api::{About, ApiError, Cause};

/// How many causes an answer names, and how many bytes of paths and managers: both may be as long as an object.
const MAX_CAUSES: usize = 1000;
const MAX_TEXT: usize = 256 << 10;

/// The fields of one manager that an applier sets to other values.
#[derive(Debug)]
pub(super) struct Conflict {
    pub(super) manager: Identity,
    pub(super) fields: Set,
}

/// The answer to an apply request that would take fields from others.
pub(super) fn error(mut conflicts: Vec<Conflict>) -> ApiError {
    conflicts.sort_by_cached_key(|conflict| conflict.manager.text());
    let (mut causes, mut lines, mut count, mut text) = (Vec::new(), Vec::new(), 0, 0);
    for conflict in &conflicts {
        let manager = describe(&conflict.manager);
        text += manager.len();
        if count == 0 || count < MAX_CAUSES && text <= MAX_TEXT {
            lines.push(format!("conflicts with {manager}:"));
        }
        conflict.fields.each_path(&mut String::new(), &mut |path| {
            count += 1;
            text += path.len() + manager.len();
            // The first is named whatever its length.
            if count == 1 || count <= MAX_CAUSES && text <= MAX_TEXT {
                lines.push(format!("- {path}"));
                causes.push(Cause {
                    reason: "FieldManagerConflict",
                    message: format!("conflict with {manager}"),
                    field: path.to_owned(),
                });
            }
        });
    }
    let message = match &causes[..] {
        [one] if count == 1 => format!("Apply failed with 1 conflict: {}: {}", one.message, one.field),
        _ => format!("Apply failed with {count} conflicts: {}", lines.join("\n")),
    };
    let error = ApiError::new(StatusCode::CONFLICT, "Conflict", message).about(About::default());
    ApiError { causes, ..error }
}

/// A manager as messages name it.
fn describe(manager: &Identity) -> String {
    let mut text = quoted(&manager.manager);
    if !manager.subresource.is_empty() {
        text.push_str(&format!(" with subresource {}", quoted(&manager.subresource)));
    }
    if manager.operation == Operation::Update {
        text.push_str(&format!(" using {}", manager.api_version));
    }
    text
}
