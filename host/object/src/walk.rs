//! Visits the members of a JSON object and the elements of a JSON array, in document order and one level deep. Of each value
//! only the end is looked for.
//!
//! The text should be JSON. Of any other text the part before the fault is visited. Callers: `pointer`, `labels` and
//! `projection`.

use crate::scan::{JsonCursor, MemberName, ScanError};

/// Calls `visit` with the name and the JSON text of each member of an object until it returns `false`.
pub(crate) fn each_member<'a>(
    json: &'a str,
    mut visit: impl FnMut(&MemberName<'a>, &'a str) -> bool,
) -> Result<(), ScanError> {
    let mut cursor = JsonCursor::new(json.as_bytes());
    let mut member = cursor.first_member()?;
    while let Some(name) = member {
        if !visit(&name, &json[cursor.closed_value()?]) {
            return Ok(());
        }
        member = cursor.next_member()?;
    }
    Ok(())
}

/// Calls `visit` with the JSON text of each element of an array until it returns `false`.
pub(crate) fn each_element<'a>(
    json: &'a str,
    mut visit: impl FnMut(&'a str) -> bool,
) -> Result<(), ScanError> {
    let mut cursor = JsonCursor::new(json.as_bytes());
    let mut more = cursor.first_element()?;
    while more {
        if !visit(&json[cursor.closed_value()?]) {
            return Ok(());
        }
        more = cursor.next_element()?;
    }
    Ok(())
}
