//! What the API checks of a definition beside its schemas: names, versions, columns, paths, conversion, and what may not
//! change.
//!
//! Fields that are equal in all versions are one for a real server, which names them as they were named when there was but
//! one. At most [`MAX_CAUSES`] causes are given.

use serde_json::Value;

use crate::api::{Cause, JsonMap, syntax};
use crate::schema::invalid;

/// How many causes are given.
const MAX_CAUSES: usize = 100;
/// How many fields of a version can be selected by.
const MAX_SELECTABLE: usize = 8;

/// What is wrong with a definition; with `old`, which it replaces, also what must stay as it was.
pub(super) fn definition_faults(object: &Value, old: Option<&JsonMap>) -> Vec<Cause> {
    let spec = &object["spec"];
    let mut checks = Checks::default();
    checks.group(&spec["group"]);
    checks.versions(spec);
    checks.names(&spec["names"]);
    checks.conversion(&spec["conversion"]);
    if let Some(old) = old {
        checks.immutable(spec, old);
        checks.stored_versions(spec, old);
    }
    checks.causes
}

#[derive(Default)]
struct Checks {
    causes: Vec<Cause>,
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

impl Checks {
    fn is_full(&self) -> bool {
        self.causes.len() >= MAX_CAUSES
    }

    fn add(&mut self, cause: Cause) {
        if !self.is_full() {
            self.causes.push(cause);
        }
    }

    fn invalid(&mut self, field: &str, value: &Value, why: &str) {
        self.add(invalid(field, value, why));
    }

    fn label(&mut self, field: &str, value: &Value) {
        let faults = syntax::dns_1035_label(text(value));
        if !faults.is_empty() {
            self.invalid(field, value, &faults.join(","));
        }
    }

    fn group(&mut self, group: &Value) {
        let faults = syntax::dns_subdomain(text(group));
        if !faults.is_empty() && !text(group).is_empty() {
            self.invalid("spec.group", group, &faults.join(","));
        }
    }

    fn names(&mut self, names: &Value) {
        for field in ["plural", "singular"] {
            if !text(&names[field]).is_empty() {
                self.label(&format!("spec.names.{field}"), &names[field]);
            }
        }
        for field in ["kind", "listKind"] {
            let name = text(&names[field]);
            let faults = syntax::dns_1035_label(&name.to_lowercase());
            if !faults.is_empty() && !name.is_empty() {
                let why = format!("may have mixed case, but should otherwise match: {}", faults.join(","));
                self.invalid(&format!("spec.names.{field}"), &names[field], &why);
            }
        }
        for (index, name) in list(&names["shortNames"]).iter().enumerate() {
            self.label(&format!("spec.names.shortNames[{index}]"), name);
        }
        if !text(&names["kind"]).is_empty() && names["kind"] == names["listKind"] {
            let why = "kind and listKind may not be the same";
            self.invalid("spec.names.listKind", &names["listKind"], why);
        }
        for (index, name) in list(&names["categories"]).iter().enumerate() {
            self.label(&format!("spec.names.categories[{index}]"), name);
        }
    }

    fn versions(&mut self, spec: &Value) {
        let versions = list(&spec["versions"]);
        for (index, version) in versions.iter().enumerate() {
            if self.is_full() {
                return;
            }
            self.label(&format!("spec.versions[{index}].name"), &version["name"]);
            self.deprecation(&format!("spec.versions[{index}].deprecationWarning"), version);
        }
        for (field, check) in [
            ("subresources", Self::subresources as fn(&mut Self, &str, &Value)),
            ("additionalPrinterColumns", Self::columns),
        ] {
            let are_equal = versions.iter().all(|version| version[field] == versions[0][field]);
            if are_equal {
                versions
                    .first()
                    .into_iter()
                    .for_each(|first| check(self, &format!("spec.{field}"), &first[field]));
                continue;
            }
            for (index, version) in versions.iter().enumerate() {
                check(self, &format!("spec.versions[{index}].{field}"), &version[field]);
            }
        }
        self.selectable_fields(versions);
    }

    fn deprecation(&mut self, field: &str, version: &Value) {
        let Some(warning) = version["deprecationWarning"].as_str() else { return };
        let whole = &version["deprecationWarning"];
        if version["deprecated"] != true {
            return self.invalid(field, whole, "can only be set for deprecated versions");
        }
        if warning.len() > 256 {
            self.invalid(field, whole, "must be <= 256 characters long");
        }
        if warning.is_empty() {
            self.invalid(field, whole, "must not be an empty string");
        }
        if let Some((at, _)) = warning.char_indices().find(|(_, letter)| letter.is_control()) {
            let why = format!(
                "must only contain printable UTF-8 characters; non-printable character found at index {at}"
            );
            self.invalid(field, whole, &why);
        }
    }

    fn subresources(&mut self, field: &str, subresources: &Value) {
        let Some(scale) = subresources["scale"].as_object() else { return };
        let roots = |name: &str| match name {
            "specReplicasPath" => (&[".spec."][..], "should be a json path under .spec"),
            "statusReplicasPath" => (&[".status."][..], "should be a json path under .status"),
            _ => (&[".spec.", ".status."][..], "should be a json path under either .spec or .status"),
        };
        for name in ["specReplicasPath", "statusReplicasPath", "labelSelectorPath"] {
            let field = format!("{field}.scale.{name}");
            let path = scale.get(name).and_then(Value::as_str).unwrap_or_default();
            let (roots, why) = roots(name);
            if path.is_empty() {
                if name != "labelSelectorPath" {
                    self.add(Cause::required(&field, ""));
                }
            } else if !path.starts_with('.') {
                self.invalid(&field, &path.into(), "must be a simple json path starting with .");
            } else if !roots.iter().any(|root| path.starts_with(root)) {
                self.invalid(&field, &path.into(), why);
            }
        }
    }

    fn columns(&mut self, field: &str, columns: &Value) {
        const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
        const FORMATS: [&str; 9] =
            ["byte", "date", "date-time", "double", "float", "int32", "int64", "name", "password"];
        for (index, column) in list(columns).iter().enumerate() {
            if self.is_full() {
                return;
            }
            let of = |name: &str| format!("{field}[{index}].{name}");
            if text(&column["name"]).is_empty() {
                self.add(Cause::required(&of("name"), ""));
            }
            let must = format!("must be one of {}", TYPES.join(","));
            match text(&column["type"]) {
                "" => self.add(Cause::required(&of("type"), &must)),
                given if !TYPES.contains(&given) => self.invalid(&of("type"), &column["type"], &must),
                _ => {}
            }
            let format = text(&column["format"]);
            if !format.is_empty() && !FORMATS.contains(&format) {
                let must = format!("must be one of {}", FORMATS.join(","));
                self.invalid(&of("format"), &column["format"], &must);
            }
            match text(&column["jsonPath"]) {
                "" => self.add(Cause::required(&of("JSONPath"), "")),
                path if !path.starts_with('.') => {
                    let why = "must be a simple json path starting with .";
                    self.invalid(&of("JSONPath"), &column["jsonPath"], why);
                }
                _ => {}
            }
        }
    }

    fn selectable_fields(&mut self, versions: &[Value]) {
        let are_equal = versions.iter().all(|v| {
            v["selectableFields"] == versions[0]["selectableFields"] && v["schema"] == versions[0]["schema"]
        });
        for (index, version) in versions.iter().enumerate() {
            let field = match are_equal {
                true => "spec.selectableFields".to_owned(),
                false => format!("spec.versions[{index}].selectableFields"),
            };
            let schema = &version["schema"]["openAPIV3Schema"];
            let mut paths = std::collections::HashSet::new();
            for (index, selectable) in list(&version["selectableFields"]).iter().enumerate() {
                if self.is_full() {
                    return;
                }
                let of = format!("{field}[{index}].jsonPath");
                let path = text(&selectable["jsonPath"]);
                if path.is_empty() {
                    self.add(Cause::required(&of, ""));
                    continue;
                }
                let Some(found) = schema_at(schema, path) else {
                    self.invalid(&of, &path.into(), "is an invalid path: does not refer to a valid field");
                    continue;
                };
                if path == ".metadata" || path.starts_with(".metadata.") {
                    self.invalid(&of, &path.into(), "must not point to fields in metadata");
                }
                if !matches!(text(&found["type"]), "string" | "boolean" | "integer") {
                    let why = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                               with formats are allowed.";
                    self.invalid(&of, &path.into(), why);
                }
                if !paths.insert(path) {
                    let message = format!("Duplicate value: {}", Value::from(path));
                    self.add(Cause { reason: "FieldValueDuplicate", message, field: of });
                }
            }
            if paths.len() > MAX_SELECTABLE {
                let message = format!("Too many: {}: must have at most {MAX_SELECTABLE} items", paths.len());
                self.add(Cause { reason: "FieldValueTooMany", message, field });
            }
            if are_equal {
                return;
            }
        }
    }

    /// How versions are converted.
    fn conversion(&mut self, conversion: &Value) {
        const CONFIG: &str = "spec.conversion.webhookClientConfig";
        const VERSIONS: &str = "spec.conversion.conversionReviewVersions";
        if !conversion.is_object() {
            return;
        }
        let config = &conversion["webhook"]["clientConfig"];
        let versions = &conversion["webhook"]["conversionReviewVersions"];
        match text(&conversion["strategy"]) {
            "Webhook" => {
                if config.is_null() {
                    self.add(Cause::required(CONFIG, "required when strategy is set to Webhook"));
                } else if config["url"].is_null() == config["service"].is_null() {
                    self.add(Cause::required(CONFIG, "exactly one of url or service is required"));
                }
                self.review_versions(VERSIONS, versions);
            }
            "None" => {
                let why = "should not be set when strategy is not set to Webhook";
                if !config.is_null() {
                    self.add(Cause::forbidden(CONFIG, why));
                }
                if !list(versions).is_empty() {
                    self.add(Cause::forbidden(VERSIONS, why));
                }
            }
            "" => self.add(Cause::required("spec.conversion.strategy", "")),
            other => {
                let allowed = ["None", "Webhook"];
                self.add(Cause::not_supported("spec.conversion.strategy", other, &allowed));
            }
        }
    }

    fn review_versions(&mut self, field: &str, versions: &Value) {
        if list(versions).is_empty() {
            return self.add(Cause::required(field, ""));
        }
        let mut seen = std::collections::HashSet::new();
        for (index, version) in list(versions).iter().enumerate() {
            if !seen.insert(text(version)) {
                self.invalid(&format!("{field}[{index}]"), version, "duplicate version");
            } else {
                self.label(&format!("{field}[{index}]"), version);
            }
        }
        if !["v1", "v1beta1"].iter().any(|known| seen.contains(known)) {
            self.invalid(field, versions, "must include at least one of v1, v1beta1");
        }
    }

    fn immutable(&mut self, spec: &Value, old: &JsonMap) {
        let Some(before) = old.get("spec") else { return };
        let conditions = old.get("status").map(|status| &status["conditions"]).unwrap_or(&Value::Null);
        let is_established =
            list(conditions).iter().any(|c| c["type"] == "Established" && c["status"] == "True");
        for (path, always) in
            [("/scope", false), ("/names/kind", false), ("/group", true), ("/names/plural", true)]
        {
            let (now, then) = (spec.pointer(path), before.pointer(path));
            if now != then && (always || is_established) {
                let field = format!("spec{}", path.replace('/', "."));
                self.invalid(&field, now.unwrap_or(&Value::Null), "field is immutable");
            }
        }
    }

    /// Versions in which objects may be stored must stay.
    fn stored_versions(&mut self, spec: &Value, old: &JsonMap) {
        let names: std::collections::HashSet<&str> =
            list(&spec["versions"]).iter().map(|version| text(&version["name"])).collect();
        let stored = old.get("status").map(|status| &status["storedVersions"]).unwrap_or(&Value::Null);
        for (index, version) in list(stored).iter().enumerate() {
            let name = text(version);
            if !names.contains(name) {
                let why = format!(
                    "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
                     until a storage migration ensures no data remains persisted in {name} and removes {name} from \
                     status.storedVersions"
                );
                self.invalid(&format!("status.storedVersions[{index}]"), version, &why);
            }
        }
    }
}

/// The schema of the field at a path such as `.spec.mode`.
fn schema_at<'a>(schema: &'a Value, path: &str) -> Option<&'a Value> {
    let names = path.strip_prefix('.')?;
    names.split('.').try_fold(schema, |schema, name| schema.get("properties")?.get(name))
}

/// With a status of its own, the schema of an object may say of the whole only what does not concern the status.
pub(super) fn root_fault(schema: &JsonMap, path: &str) -> Option<Cause> {
    const ALLOWED: [&str; 22] = [
        "description",
        "type",
        "format",
        "title",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "maxLength",
        "minLength",
        "pattern",
        "maxItems",
        "minItems",
        "uniqueItems",
        "multipleOf",
        "required",
        "items",
        "properties",
        "externalDocs",
        "example",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    ];
    let is_allowed = |field: &str| ALLOWED.contains(&field);
    let says = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
    schema.iter().find(|(field, value)| !is_allowed(field) && says(value))?;
    let names = ALLOWED.join(" ");
    let why = format!(
        "only [{names}] fields are allowed at the root of the schema if the status subresource is enabled"
    );
    Some(crate::schema::invalid(path, &Value::Object(schema.clone()), &why))
}
