//! [`Gvk`] and [`Gvr`]: the identifiers of a kind and of a resource in the API.

use std::fmt;
use std::str::FromStr;

/// Group, version and kind, such as `apps/v1` `Deployment`. The name of the core group is empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Gvk {
    /// API group; empty for the core group.
    pub group: String,
    /// API version, as `v1`.
    pub version: String,
    /// Kind, as `Pod`.
    pub kind: String,
}

/// Group, version and resource, such as `apps/v1` `deployments`: the identifier in URLs and permissions.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Gvr {
    /// API group; empty for the core group.
    pub group: String,
    /// API version, as `v1`.
    pub version: String,
    /// Plural resource name, as `pods`.
    pub resource: String,
}

/// The reason why a text is not a kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a kind: use \"group/version/Kind\", or \"version/Kind\" for the core group")]
pub struct KindError(String);

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

impl Gvk {
    /// Builds a kind from its parts.
    #[must_use]
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() }
    }

    /// Builds a kind from the `apiVersion` and `kind` fields of an object.
    #[must_use]
    pub fn from_api_version(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self::new(group, version, kind)
    }

    /// The `apiVersion` field of an object of this kind: `v1`, `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// The resource of this kind under a given plural name.
    #[must_use]
    pub fn with_resource(&self, resource: &str) -> Gvr {
        Gvr::new(&self.group, &self.version, resource)
    }
}

impl Gvr {
    /// Builds a resource from its parts.
    #[must_use]
    pub fn new(group: &str, version: &str, resource: &str) -> Self {
        Self { group: group.to_owned(), version: version.to_owned(), resource: resource.to_owned() }
    }

    /// The API version of the resource: `v1`, `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }
}

impl FromStr for Gvk {
    type Err = KindError;

    fn from_str(text: &str) -> Result<Self, KindError> {
        match text.rsplit_once('/') {
            Some((api_version, kind))
                if !kind.is_empty() && !api_version.is_empty() && api_version.split('/').count() <= 2 =>
            {
                Ok(Self::from_api_version(api_version, kind))
            }
            _ => Err(KindError(text.to_owned())),
        }
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.api_version(), self.kind)
    }
}

/// `pods.v1`, `deployments.v1.apps`: the form that client-go and kubectl use.
impl fmt::Display for Gvr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.resource, self.version)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_read_back_what_they_print() {
        for text in ["v1/Pod", "apps/v1/Deployment"] {
            assert_eq!(text.parse::<Gvk>().unwrap().to_string(), text);
        }
        assert!("Pod".parse::<Gvk>().is_err());
        assert!("a/b/c/d".parse::<Gvk>().is_err());
    }

    #[test]
    fn resources_print_as_kubectl_does() {
        assert_eq!(Gvr::new("apps", "v1", "deployments").to_string(), "deployments.v1.apps");
        assert_eq!(Gvr::new("", "v1", "pods").to_string(), "pods.v1");
    }
}
