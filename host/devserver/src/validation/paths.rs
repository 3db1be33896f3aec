//! Paths of files in containers.

use super::node::Node;
use crate::schema::Causes;

/// The permissions of a file, if they are said.
pub(super) fn file_mode(mode: &Node<'_, '_>, causes: &mut Causes) {
    if mode.int().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        mode.invalid_number(causes, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

/// A path does not lead upwards; `at` is where causes say that it is.
pub(super) fn no_backsteps(at: &Node<'_, '_>, path: &Node<'_, '_>, causes: &mut Causes) {
    if path.text().split('/').any(|part| part == "..") {
        at.invalid_as(causes, &path.text().into(), "must not contain '..'");
    }
}

/// A path below another one.
pub(super) fn descending(at: &Node<'_, '_>, path: &Node<'_, '_>, causes: &mut Causes) {
    if path.text().starts_with('/') {
        at.invalid_as(causes, &path.text().into(), "must be a relative path");
    }
    no_backsteps(at, path, causes);
}

/// A path below a volume whose names the kubelet does not use itself.
pub(super) fn local(path: &Node<'_, '_>, causes: &mut Causes) {
    local_at(path, path, causes);
}

/// As [`local`], where causes name another place.
pub(super) fn local_at(at: &Node<'_, '_>, path: &Node<'_, '_>, causes: &mut Causes) {
    descending(at, path, causes);
    if path.text().starts_with("..") && !path.text().starts_with("../") {
        at.invalid_as(causes, &path.text().into(), "must not start with '..'");
    }
}
