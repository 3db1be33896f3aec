//! Kinds whose versions differ in more than their names: an object in each of them.

use serde_json::Value;

use crate::schema::TypeId;

/// The versions of a kind.
pub(crate) trait VersionsOf: std::fmt::Debug {
    /// The type of objects in a version, among the types of the kind.
    fn type_in(&self, version: &str) -> Option<TypeId>;

    /// An object of another version in this one.
    fn convert(&self, object: &Value, version: &str) -> Value;
}

/// An object in one version, and in those that were asked for.
pub(super) struct InVersions<'a, 'o> {
    versions: Option<&'a dyn VersionsOf>,
    object: &'o Value,
    version: String,
    converted: Vec<(String, Value)>,
}

impl<'a, 'o> InVersions<'a, 'o> {
    /// Without `versions` the object is the same in all.
    pub(super) fn new(versions: Option<&'a dyn VersionsOf>, object: &'o Value, version: &str) -> Self {
        Self { versions, object, version: version.to_owned(), converted: Vec::new() }
    }

    /// The object in a version.
    pub(super) fn get(&mut self, version: &str) -> &Value {
        let Some(versions) = self.versions.filter(|_| version != self.version) else { return self.object };
        let place = self.converted.iter().position(|(known, _)| known == version).unwrap_or_else(|| {
            self.converted.push((version.to_owned(), versions.convert(self.object, version)));
            self.converted.len() - 1
        });
        &self.converted[place].1
    }

    /// As [`InVersions::get`], for good.
    pub(super) fn take(mut self, version: &str) -> Value {
        self.get(version).clone()
    }
}
