//! Resources that a CustomResourceDefinition adds: its reading, its rules and its status.
//!
//! All versions share their objects and differ in `apiVersion` alone (conversion `None`). Schemas are kept in the
//! definition's object and not looked at.

use std::cmp::Ordering;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Origin, Resource, Subresource, TableColumn};
use crate::api::{Cause, NameRule, Timestamp, check_name};
use crate::printing::CustomColumn;

/// Where the scale subresource of a custom resource has its fields.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas_path: String,
    pub(crate) status_replicas_path: String,
    pub(crate) label_selector_path: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Names {
    plural: String,
    #[serde(default)]
    singular: String,
    kind: String,
    #[serde(default)]
    list_kind: String,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Subresources {
    status: Option<Value>,
    scale: Option<ScalePaths>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VersionSpec {
    name: String,
    #[serde(default)]
    served: bool,
    #[serde(default)]
    storage: bool,
    #[serde(default)]
    subresources: Option<Subresources>,
    #[serde(default)]
    additional_printer_columns: Vec<CustomColumn>,
}

#[derive(Debug, Clone, Deserialize)]
struct Conversion {
    strategy: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Spec {
    group: String,
    scope: String,
    names: Names,
    versions: Vec<VersionSpec>,
    conversion: Option<Conversion>,
}

/// A definition, read.
#[derive(Debug, Clone)]
pub(crate) struct Definition {
    pub(crate) group: String,
    spec: Spec,
}

impl Definition {
    /// Reads a definition; the error names what is wrong with it.
    pub(crate) fn read(object: &Value) -> Result<Self, Vec<Cause>> {
        let spec: Spec = Spec::deserialize(&object["spec"])
            .map_err(|error| vec![Cause::invalid("spec", "", &error.to_string())])?;
        let mut causes = Vec::new();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let expected = format!("{}.{}", spec.names.plural, spec.group);
        if name != expected {
            causes.push(Cause::invalid("metadata.name", name, "must be spec.names.plural+\".\"+spec.group"));
        }
        if spec.group.is_empty() {
            causes.push(Cause::required("spec.group", ""));
        }
        for (field, text) in
            [("spec.names.plural", &spec.names.plural), ("spec.names.kind", &spec.names.kind)]
        {
            if text.is_empty() {
                causes.push(Cause::required(field, ""));
            }
        }
        if !matches!(spec.scope.as_str(), "Namespaced" | "Cluster") {
            causes.push(Cause::not_supported("spec.scope", &spec.scope, &["Cluster", "Namespaced"]));
        }
        if spec.versions.iter().filter(|v| v.storage).count() != 1 {
            let message = "must have exactly one version marked as storage version";
            causes.push(Cause::invalid("spec.versions", "", message));
        }
        if super::builtin::is_resource(&spec.group, &spec.names.plural) {
            causes.push(Cause::invalid("spec.names.plural", &spec.names.plural, "the resource is built in"));
        }
        causes.extend(version_faults(&spec.versions));
        if let Some(conversion) = spec.conversion.as_ref().filter(|c| c.strategy != "None") {
            let strategy = &conversion.strategy;
            causes.push(Cause::not_supported("spec.conversion.strategy", strategy, &["None"]));
        }
        if causes.is_empty() { Ok(Self { group: spec.group.clone(), spec }) } else { Err(causes) }
    }

    /// Where the objects are kept.
    pub(crate) fn storage(&self) -> String {
        format!("{}/{}", self.group, self.spec.names.plural)
    }

    /// The resource in each of its served versions.
    pub(crate) fn resources(&self) -> impl Iterator<Item = Resource> {
        self.spec.versions.iter().filter(|v| v.served).map(|v| self.resource(v))
    }

    fn resource(&self, version: &VersionSpec) -> Resource {
        const VERBS: [&str; 8] =
            ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
        let names = &self.spec.names;
        let on_part = || ["get", "patch", "update"].map(str::to_owned).to_vec();
        let parts = version.subresources.clone().unwrap_or_default();
        let mut subresources = Vec::new();
        if parts.status.is_some() {
            subresources.push(Subresource {
                name: "status".to_owned(),
                kind: names.kind.clone(),
                group: self.group.clone(),
                version: version.name.clone(),
                verbs: on_part(),
            });
        }
        if parts.scale.is_some() {
            subresources.push(Subresource {
                name: "scale".to_owned(),
                kind: "Scale".to_owned(),
                group: "autoscaling".to_owned(),
                version: "v1".to_owned(),
                verbs: on_part(),
            });
        }
        let given = |text: &str, otherwise: String| if text.is_empty() { otherwise } else { text.to_owned() };
        let columns = version.additional_printer_columns.clone();
        let shown = match &columns[..] {
            [] => vec![table_column("Age", "date", "", 0)],
            some => {
                some.iter().map(|c| table_column(&c.name, &c.kind, &c.format, c.priority.into())).collect()
            }
        };
        Resource {
            group: self.group.clone(),
            version: version.name.clone(),
            name: names.plural.clone(),
            kind: names.kind.clone(),
            list_kind: given(&names.list_kind, format!("{}List", names.kind)),
            singular: given(&names.singular, names.kind.to_lowercase()),
            namespaced: self.spec.scope == "Namespaced",
            short_names: names.short_names.clone(),
            categories: names.categories.clone(),
            verbs: VERBS.map(str::to_owned).to_vec(),
            subresources,
            columns: std::iter::once(table_column("Name", "string", "name", 0)).chain(shown).collect(),
            storage: self.storage().into(),
            origin: Origin::Custom { columns, scale: parts.scale },
        }
    }
}

/// What is wrong with the versions themselves.
fn version_faults(versions: &[VersionSpec]) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        let field = |of: &str| format!("spec.versions[{index}].{of}");
        if let Err(why) = check_name(&version.name, NameRule::Label) {
            causes.push(Cause::invalid(&field("name"), &version.name, why));
        }
        if versions[..index].iter().any(|earlier| earlier.name == version.name) {
            let message = format!("Duplicate value: {:?}", version.name);
            causes.push(Cause { reason: "FieldValueDuplicate", message, field: field("name") });
        }
        let Some(scale) = version.subresources.as_ref().and_then(|s| s.scale.as_ref()) else { continue };
        for (name, path, root) in [
            ("specReplicasPath", &scale.spec_replicas_path, ".spec."),
            ("statusReplicasPath", &scale.status_replicas_path, ".status."),
        ] {
            if !path.starts_with(root) {
                let why = format!("should be a json path under {}", root.trim_end_matches('.'));
                causes.push(Cause::invalid(&field(&format!("subresources.scale.{name}")), path, &why));
            }
        }
    }
    causes
}

fn table_column(name: &str, kind: &str, format: &str, priority: i64) -> TableColumn {
    TableColumn { name: name.to_owned(), kind: kind.to_owned(), format: format.to_owned(), priority }
}

/// The status of a definition that is served, as the controllers of a real server write it.
pub(crate) fn definition_status(object: &Value, now: &Timestamp) -> Value {
    let earlier = |field: &str| object["status"][field].as_array().into_iter().flatten();
    let condition = |kind: &str, reason: &str, message: &str| {
        let same = earlier("conditions").find(|c| c["type"] == kind && c["status"] == "True");
        let since = same.and_then(|c| c["lastTransitionTime"].as_str().map(str::to_owned));
        json!({
            "type": kind, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": since.unwrap_or_else(|| now.seconds()),
        })
    };
    // Objects may still be stored in a version in which they were stored before.
    let mut stored: Vec<&Value> = earlier("storedVersions").filter(|v| v.is_string()).collect();
    let versions = object["spec"]["versions"].as_array().into_iter().flatten();
    for version in versions.filter(|v| v["storage"] == true).map(|v| &v["name"]) {
        if !stored.contains(&version) {
            stored.push(version);
        }
    }
    json!({
        "acceptedNames": object["spec"]["names"],
        "storedVersions": stored,
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
    })
}

/// The order of versions: `v2` before `v1` before `v1beta1` before `v1alpha1` before all that is named otherwise.
pub(super) fn by_preference(a: &str, b: &str) -> Ordering {
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Stability, major and minor of a version's name of the usual form.
fn rank(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let major = rest[..digits].parse().ok()?;
    match &rest[digits..] {
        "" => Some((2, major, 0)),
        tail => {
            let (stability, minor) = tail
                .strip_prefix("beta")
                .map(|m| (1, m))
                .or_else(|| tail.strip_prefix("alpha").map(|m| (0, m)))?;
            Some((stability, major, minor.parse().ok()?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_in_the_order_of_preference() {
        let mut versions = ["foo1", "v1alpha1", "v10", "v1", "v1beta2", "v2", "v1beta1", "bar"];
        versions.sort_by(|a, b| by_preference(a, b));
        assert_eq!(versions, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "bar", "foo1"]);
    }

    #[test]
    fn a_definition_with_faults_names_all_of_them() {
        let object = json!({"metadata": {"name": "x"}, "spec": {
            "group": "a.b", "scope": "Galaxy", "names": {"plural": "cs", "kind": "C"},
            "versions": [{"name": "v1", "served": true, "storage": false}],
            "conversion": {"strategy": "Webhook"},
        }});
        let causes = Definition::read(&object).unwrap_err();
        let fields: Vec<&str> = causes.iter().map(|c| c.field.as_str()).collect();
        assert_eq!(fields, ["metadata.name", "spec.scope", "spec.versions", "spec.conversion.strategy"]);
    }
}
