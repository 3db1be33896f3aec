//! Which versions of built-in kinds are deprecated, and since when: what a real server says in a warning to every request.

/// A deprecated version: the group, the version, the kind (empty for all of them), the release since which it is, the release
/// in which it goes, and what takes its place.
type Deprecation = (&'static str, &'static str, &'static str, &'static str, &'static str, &'static str);

const DEPRECATIONS: &[Deprecation] = &[
    ("", "v1", "ComponentStatus", "1.19", "", ""),
    ("", "v1", "Endpoints", "1.33", "", "discovery.k8s.io/v1 EndpointSlice"),
    ("networking.k8s.io", "v1beta1", "", "1.34", "1.37", ""),
    (
        "storage.k8s.io",
        "v1beta1",
        "VolumeAttributesClass",
        "1.34",
        "1.37",
        "storage.k8s.io/v1 VolumeAttributesClass",
    ),
    ("admissionregistration.k8s.io", "v1alpha1", "", "1.35", "1.38", ""),
    ("coordination.k8s.io", "v1beta1", "", "1.36", "1.39", ""),
    ("coordination.k8s.io", "v1alpha2", "", "1.35", "1.38", ""),
    ("resource.k8s.io", "v1beta2", "", "1.36", "1.39", ""),
    ("resource.k8s.io", "v1beta1", "", "1.35", "1.38", ""),
    ("resource.k8s.io", "v1alpha3", "DeviceTaintRule", "1.36", "1.39", ""),
];

/// The warning that answers requests on a version of a built-in kind, if it is deprecated.
pub(super) fn of(group: &str, version: &str, kind: &str) -> Option<String> {
    let fits = |of: &&Deprecation| of.0 == group && of.1 == version && (of.2.is_empty() || of.2 == kind);
    let (.., since, until, instead) = DEPRECATIONS.iter().find(fits)?;
    let of_version = super::api_version(group, version);
    let mut text = format!("{of_version} {kind} is deprecated in v{since}+");
    if !until.is_empty() {
        text.push_str(&format!(", unavailable in v{until}+"));
    }
    if !instead.is_empty() {
        text.push_str(&format!("; use {instead}"));
    }
    Some(text)
}
