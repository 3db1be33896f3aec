//! Resources that a CustomResourceDefinition adds: its reading, its rules and its status.
//!
//! All versions share their objects and differ in `apiVersion` and in their schemas (conversion `None`, also where a
//! webhook is asked for).

use std::cmp::Ordering;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::definition_checks::{definition_faults, root_fault};
use super::{
    Origin, Resource, Review, ScalePaths, StoredBy, Subresource, TableColumn, VersionSchemas, api_version,
};
use crate::api::{Cause, JsonMap, Timestamp};
use crate::kinds::Strategy;
use crate::printing::CustomColumn;
use crate::schema::{Budget, Schema, fingerprint};

/// How many causes and warnings of one kind are given.
const MAX_CAUSES: usize = 100;
/// What a definition in a group of the community needs.
const APPROVAL: &str = "api-approved.kubernetes.io";
const WEBHOOK_WARNING: &str = "spec.conversion.strategy: this development server calls no conversion webhooks; objects are \
                               converted as with strategy None";
const RULES_WARNING: &str =
    "x-kubernetes-validations: this development server accepts rules in CEL, but does not run them";

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
    deprecated: bool,
    deprecation_warning: Option<String>,
    schema: Option<VersionSchema>,
    #[serde(default)]
    subresources: Option<Subresources>,
    #[serde(default)]
    additional_printer_columns: Vec<CustomColumn>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct VersionSchema {
    #[serde(rename = "openAPIV3Schema")]
    open_api: Option<JsonMap>,
}

#[derive(Debug, Clone, Deserialize)]
struct Conversion {
    #[serde(default)]
    strategy: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    group: String,
    scope: String,
    names: Names,
    versions: Vec<VersionSpec>,
    conversion: Option<Conversion>,
    #[serde(default)]
    preserve_unknown_fields: Option<bool>,
}

/// A definition, read.
#[derive(Debug, Clone)]
pub(crate) struct Definition {
    pub(crate) group: String,
    spec: Spec,
    /// Of the text of the spec.
    fingerprint: u64,
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
        } else if !spec.group.contains('.') {
            let why = "should be a domain with at least one dot";
            causes.push(Cause::invalid("spec.group", &spec.group, why));
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
        let mut names = HashSet::new();
        for (index, version) in spec.versions.iter().enumerate() {
            if !names.insert(&version.name) && causes.len() < MAX_CAUSES {
                let message = format!("Duplicate value: {:?}", version.name);
                let field = format!("spec.versions[{index}].name");
                causes.push(Cause { reason: "FieldValueDuplicate", message, field });
            }
        }
        if spec.preserve_unknown_fields == Some(true) {
            let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema \
                          instead";
            let message = format!("Invalid value: true: {detail}");
            causes.push(Cause { message, ..Cause::invalid("spec.preserveUnknownFields", "", "") });
        }
        if !causes.is_empty() {
            return Err(causes);
        }
        let fingerprint = object["spec"].as_object().map_or(0, fingerprint);
        Ok(Self { group: spec.group.clone(), spec, fingerprint })
    }

    /// Tells definitions with different specs apart.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Where the objects are kept.
    pub(crate) fn storage(&self) -> String {
        format!("{}/{}", self.group, self.spec.names.plural)
    }

    /// What is to be said of a definition that is written beside what [`Definition::read`] says: of its schemas, and of what
    /// this server does otherwise than a real one.
    pub(super) fn review(&self, object: &Value, old: Option<&JsonMap>) -> Review {
        let mut review = Review { causes: definition_faults(object, old), ..Review::default() };
        review.causes.extend(self.approval_fault(object));
        let versions = &self.spec.versions;
        let schemas = || versions.iter().map(|v| v.schema.as_ref().and_then(|s| s.open_api.as_ref()));
        for (index, _) in schemas().enumerate().filter(|(_, schema)| schema.is_none()).take(MAX_CAUSES) {
            let field = format!("spec.versions[{index}].schema.openAPIV3Schema");
            review.causes.push(Cause::required(&field, ""));
        }
        // Equal schemas are one for a real server, which names it as it was named when there was but one.
        let are_equal = versions.iter().all(|v| v.schema == versions[0].schema);
        let has_status = |v: &VersionSpec| v.subresources.as_ref().is_some_and(|s| s.status.is_some());
        let mut has_rules = false;
        let mut formats = Vec::new();
        // For the defaults of all versions together.
        let mut budget = Budget::new();
        for (index, (version, schema)) in versions.iter().zip(schemas()).enumerate() {
            let Some(schema) = schema else { continue };
            let path = match are_equal {
                true => "spec.validation.openAPIV3Schema".to_owned(),
                false => format!("spec.versions[{index}].schema.openAPIV3Schema"),
            };
            if has_status(version) || are_equal && versions.iter().any(has_status) {
                review.causes.extend(root_fault(schema, &path));
            }
            match Schema::check(schema, &path, &mut budget) {
                Ok(notes) => {
                    has_rules |= notes.has_rules;
                    formats.extend(notes.unrecognized_formats);
                }
                Err(causes) => review.causes.extend(causes),
            }
            if are_equal || review.causes.len() >= MAX_CAUSES {
                break;
            }
        }
        if self.spec.conversion.as_ref().is_some_and(|c| c.strategy == "Webhook") {
            review.warnings.push(WEBHOOK_WARNING.to_owned());
        }
        if has_rules {
            review.warnings.push(RULES_WARNING.to_owned());
        }
        // Of those that the definition had before nothing is said again.
        let known = old.map(formats_in).unwrap_or_default();
        let mut named = HashSet::new();
        let new = formats.into_iter().filter(|format| !known.contains(format.as_str()));
        for format in new.filter(|format| named.insert(format.clone())).take(MAX_CAUSES) {
            review.warnings.push(format!("unrecognized format {}", Value::from(format)));
        }
        review
    }

    /// Groups of the community are for APIs that it has approved.
    fn approval_fault(&self, object: &Value) -> Option<Cause> {
        let is_in = |domain: &str| {
            self.group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        if !(is_in("k8s.io") || is_in("kubernetes.io")) {
            return None;
        }
        let field = format!("metadata.annotations[{APPROVAL}]");
        let given = object["metadata"]["annotations"][APPROVAL].as_str().unwrap_or_default();
        let see = "see https://github.com/kubernetes/enhancements/pull/1111";
        let has_host = given.split_once("://").is_some_and(|(scheme, rest)| {
            !scheme.is_empty() && !rest.is_empty() && !rest.starts_with('/') && !given.contains(' ')
        });
        if given.is_empty() {
            let why = format!("protected groups must have approval annotation {APPROVAL:?}, {see}");
            Some(Cause::required(&field, &why))
        } else if given.starts_with("unapproved") || has_host {
            None
        } else {
            let why = format!(
                "protected groups must have approval annotation {APPROVAL:?} with either a URL or a reason starting with \
                 \"unapproved\", {see}"
            );
            Some(Cause::invalid(&field, given, &why))
        }
    }

    /// The resource in each of its served versions, and by what its objects are stored. `earlier` and `before` are what the
    /// definition gave before; schemas that are in them too are not compiled again.
    pub(crate) fn resources(
        &self,
        earlier: &[Arc<Resource>],
        before: Option<&StoredBy>,
    ) -> (Vec<Arc<Resource>>, Option<StoredBy>) {
        let own = earlier.iter().filter_map(|r| match &r.origin {
            Origin::Custom { schemas, .. } => Some(schemas.own.clone()),
            Origin::Builtin => None,
        });
        let mut known: HashMap<u64, Arc<Schema>> = own
            .chain(before.map(|before| before.schema.clone()))
            .map(|schema| (schema.fingerprint(), schema))
            .collect();
        let mut schema_of = |version: &VersionSpec| -> Option<Arc<Schema>> {
            let schema = version.schema.as_ref()?.open_api.as_ref()?;
            match known.entry(fingerprint(schema)) {
                Entry::Occupied(found) => Some(found.get().clone()),
                // It was accepted when the definition was written.
                Entry::Vacant(place) => Some(place.insert(Schema::compile(schema).ok()?).clone()),
            }
        };
        let Some(stored) = self.spec.versions.iter().find(|v| v.storage).and_then(&mut schema_of) else {
            return (Vec::new(), None);
        };
        let differs = |before: &StoredBy| before.schema.fingerprint() != stored.fingerprint();
        let has_changed = before.is_some_and(|before| before.has_changed || differs(before));
        let served = || self.spec.versions.iter().filter(|v| v.served);
        let versions: Arc<[String]> = served().map(|v| api_version(&self.group, &v.name)).collect();
        let resources = served()
            .filter_map(|version| {
                let schemas =
                    VersionSchemas { own: schema_of(version)?, stored: stored.clone(), has_changed };
                Some(Arc::new(self.resource(version, versions.clone(), schemas)))
            })
            .collect();
        (resources, Some(StoredBy { schema: stored, has_changed }))
    }

    /// What a request in a deprecated version is told.
    fn deprecation(&self, version: &VersionSpec) -> String {
        let (group, kind) = (&self.group, &self.spec.names.kind);
        let usual = || {
            let newer = self.spec.versions.iter().filter(|other| {
                other.served && !other.deprecated && by_preference(&other.name, &version.name).is_lt()
            });
            let instead = newer.min_by(|a, b| by_preference(&a.name, &b.name));
            let instead = instead.map(|other| format!("; use {group}/{} {kind}", other.name));
            format!("{group}/{} {kind} is deprecated{}", version.name, instead.unwrap_or_default())
        };
        version.deprecation_warning.clone().unwrap_or_else(usual)
    }

    fn resource(&self, version: &VersionSpec, served: Arc<[String]>, schemas: VersionSchemas) -> Resource {
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
            strategy: Strategy::custom(),
            served,
            origin: Origin::Custom {
                columns,
                scale: parts.scale,
                schemas,
                deprecation: version.deprecated.then(|| self.deprecation(version)),
            },
        }
    }
}

/// All formats in the schemas of a definition.
fn formats_in(definition: &JsonMap) -> HashSet<&str> {
    fn collect<'a>(value: &'a Value, formats: &mut HashSet<&'a str>) {
        match value {
            Value::Object(object) => {
                formats.extend(object.get("format").and_then(Value::as_str));
                object.values().for_each(|value| collect(value, formats));
            }
            Value::Array(list) => list.iter().for_each(|value| collect(value, formats)),
            _ => {}
        }
    }
    let mut formats = HashSet::new();
    definition.get("spec").into_iter().for_each(|spec| collect(spec, &mut formats));
    formats
}

pub(super) fn table_column(name: &str, kind: &str, format: &str, priority: i64) -> TableColumn {
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
            "conversion": {"strategy": "Magic"},
        }});
        let causes = Definition::read(&object).unwrap_err();
        let fields: Vec<&str> = causes.iter().map(|c| c.field.as_str()).collect();
        assert_eq!(fields, ["metadata.name", "spec.scope", "spec.versions"]);
    }
}
