//! Which built-in kinds are deprecated, and since when: what a real server says in a warning to every request.

/// The warning that answers requests on a version of a built-in kind, if it is deprecated.
pub(super) fn of(group: &str, version: &str, kind: &str) -> Option<String> {
    let (since, instead) = match (group, version, kind) {
        ("", "v1", "ComponentStatus") => ("1.19", ""),
        ("", "v1", "Endpoints") => ("1.33", "; use discovery.k8s.io/v1 EndpointSlice"),
        _ => return None,
    };
    Some(format!("{version} {kind} is deprecated in v{since}+{instead}"))
}
