mod json;
mod merge;
mod random;
mod strategic;

use serde_json::{Value, json};

use super::{PatchError, PatchKind, apply};
use crate::schema::{BuiltinTypes, Type};

fn pod_type() -> &'static Type {
    BuiltinTypes::get().type_of_kind("v1", "Pod").unwrap()
}

fn try_json(patch: Value, current: Value) -> Result<Value, PatchError> {
    apply(PatchKind::Json, &patch, &current, None)
}

fn try_merge(patch: Value, current: Value) -> Result<Value, PatchError> {
    apply(PatchKind::Merge, &patch, &current, None)
}

fn try_strategic(patch: Value, current: Value) -> Result<Value, PatchError> {
    apply(PatchKind::Strategic, &patch, &current, Some(pod_type()))
}

#[test]
fn a_strategic_patch_needs_a_type() {
    assert_eq!(apply(PatchKind::Strategic, &json!({}), &json!({}), None), Err(PatchError::Unsupported));
}
