//! [`Kind`]: group, version and kind of an object. Used by watches, cached reads and live calls.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::Resource;

/// Group, version and kind of an object.
///
/// ```
/// use pilothouse_sdk::Kind;
///
/// const POD: Kind = Kind::core("v1", "Pod");
/// const DEPLOYMENT: Kind = Kind::new("apps", "v1", "Deployment");
/// assert_eq!(DEPLOYMENT.to_string(), "apps/v1/Deployment");
/// assert_eq!("v1/Pod".parse(), Ok(POD));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    group: Cow<'static, str>,
    version: Cow<'static, str>,
    kind: Cow<'static, str>,
}

impl Kind {
    /// A kind known at compile time; the core group is the empty string.
    pub const fn new(group: &'static str, version: &'static str, kind: &'static str) -> Self {
        Self { group: Cow::Borrowed(group), version: Cow::Borrowed(version), kind: Cow::Borrowed(kind) }
    }

    /// The kind of a type.
    pub fn of<K: Resource>() -> Self {
        K::resource_kind()
    }

    /// A kind of the core group, such as `Pod`.
    pub const fn core(version: &'static str, kind: &'static str) -> Self {
        Self::new("", version, kind)
    }

    /// API group, such as `apps`; empty for the core group.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// API version, such as `v1`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Kind, such as `Deployment`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The `apiVersion` of objects of this kind: `apps/v1`, or `v1` in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// A kind from parts that are known at run time only.
    pub fn from_parts(
        group: impl Into<Cow<'static, str>>,
        version: impl Into<Cow<'static, str>>,
        kind: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// The kind with this `apiVersion`, such as `apps/v1`.
    pub fn of_api_version(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        Self::from_parts(group.to_owned(), version.to_owned(), kind.to_owned())
    }
}

/// Formats as `group/version/Kind`, in the core group as `version/Kind`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        write!(f, "{}/{}", self.version, self.kind)
    }
}

/// Parses the format of `Display`, for kinds in a configuration.
impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let (group, version, kind) = match parts[..] {
            [version, kind] => ("", version, kind),
            [group, version, kind] if !group.is_empty() => (group, version, kind),
            _ => return Err(malformed(text)),
        };
        if version.is_empty() || kind.is_empty() {
            return Err(malformed(text));
        }
        Ok(Self::from_parts(group.to_owned(), version.to_owned(), kind.to_owned()))
    }
}

fn malformed(text: &str) -> String {
    format!(
        "`{text}` is not a kind: write `version/Kind` or `group/version/Kind`, as in `apps/v1/Deployment`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for text in ["v1/Pod", "apps/v1/Deployment", "stable.example.com/v1beta1/CronTab"] {
            assert_eq!(text.parse::<Kind>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn refuses_what_is_no_kind() {
        for text in ["", "Pod", "v1/", "/v1/Pod", "apps//Deployment", "a/b/c/d"] {
            assert!(text.parse::<Kind>().unwrap_err().contains(text));
        }
    }

    #[test]
    fn the_api_version_of_the_core_group_has_no_slash() {
        assert_eq!(Kind::core("v1", "Pod").api_version(), "v1");
        assert_eq!(Kind::new("apps", "v1", "Deployment").api_version(), "apps/v1");
    }
}
