//! [`PartialResource`]: a resource as people write it, `deployments`, `deploy`, `deployments.apps`, `deployments.v1.apps`.

use std::fmt;

use pilothouse_object::Gvr;

/// A resource by as much of its name as was given: plural, singular or short name, and perhaps group and version.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PartialResource {
    /// Group, or the beginning of one; empty for the core group, `None` for any.
    pub group: Option<String>,
    /// Version; `None` for whichever the group prefers.
    pub version: Option<String>,
    /// Plural, singular or short name; compared in small letters.
    pub resource: String,
}

impl PartialResource {
    /// A resource of any group.
    #[must_use]
    pub fn any(resource: &str) -> Self {
        Self { group: None, version: None, resource: resource.to_owned() }
    }

    /// A resource of a group in the version that it prefers.
    #[must_use]
    pub fn of_group(resource: &str, group: &str) -> Self {
        Self { group: Some(group.to_owned()), ..Self::any(resource) }
    }

    /// What a text can mean, the likelier first: `a.b.c` is version `b` of group `c` when `b` looks like a version,
    /// otherwise rather group `b.c`. The core group is written as nothing: `pods.v1.`, `pods.`.
    #[must_use]
    pub fn readings(text: &str) -> Vec<Self> {
        let Some((resource, rest)) = text.split_once('.') else { return vec![Self::any(text)] };
        let of_group = Self::of_group(resource, rest);
        let Some((version, group)) = rest.split_once('.').filter(|(version, _)| !version.is_empty()) else {
            return vec![of_group];
        };
        let full = Self { version: Some(version.to_owned()), ..Self::of_group(resource, group) };
        if is_version(version) { vec![full, of_group] } else { vec![of_group, full] }
    }
}

impl From<&Gvr> for PartialResource {
    fn from(resource: &Gvr) -> Self {
        Self {
            version: Some(resource.version.clone()),
            ..Self::of_group(&resource.resource, &resource.group)
        }
    }
}

impl fmt::Display for PartialResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        for part in [&self.version, &self.group].into_iter().flatten() {
            write!(f, ".{part}")?;
        }
        Ok(())
    }
}

/// Whether a text is a version as Kubernetes orders them: `v1`, `v1beta2`.
pub(super) fn is_version(text: &str) -> bool {
    let Some(text) = text.strip_prefix('v') else { return false };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.split_once("alpha").or_else(|| text.split_once("beta")) {
        Some((major, minor)) => digits(major) && digits(minor),
        None => digits(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn full(resource: &str, version: &str, group: &str) -> PartialResource {
        PartialResource::from(&Gvr::new(group, version, resource))
    }

    #[test]
    fn what_looks_like_a_version_is_one() {
        for version in ["v1", "v2beta1", "v10alpha12"] {
            assert!(is_version(version), "{version}");
        }
        for other in ["", "v", "1", "v1beta", "vbeta1", "v1gamma1", "v1beta1x", "v1.2"] {
            assert!(!is_version(other), "{other}");
        }
    }

    #[test]
    fn the_likelier_reading_comes_first() {
        let read = PartialResource::readings;
        assert_eq!(read("deploy"), [PartialResource::any("deploy")]);
        assert_eq!(read("deployments.apps"), [PartialResource::of_group("deployments", "apps")]);
        assert_eq!(
            read("deployments.v1.apps"),
            [full("deployments", "v1", "apps"), PartialResource::of_group("deployments", "v1.apps")]
        );
        assert_eq!(
            read("widgets.example.com"),
            [PartialResource::of_group("widgets", "example.com"), full("widgets", "example", "com")]
        );
        assert_eq!(read("pods.v1.")[0], full("pods", "v1", ""));
        assert_eq!(read("pods."), [PartialResource::of_group("pods", "")]);
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_what_was_written(text in "[a-z.]{0,12}|\\PC{0,20}") {
            for reading in PartialResource::readings(&text) {
                prop_assert_eq!(reading.to_string(), text.clone());
            }
        }

        #[test]
        fn a_resource_of_a_group_version_is_among_its_readings(
            resource in "[a-z]{1,8}", version in "v[0-9]{1,2}(beta[0-9])?|[a-z][a-z0-9-]{0,6}", group in "|[a-z]{1,5}(\\.[a-z]{1,5}){0,3}"
        ) {
            let wanted = full(&resource, &version, &group);
            prop_assert!(PartialResource::readings(&wanted.to_string()).contains(&wanted));
        }
    }
}
