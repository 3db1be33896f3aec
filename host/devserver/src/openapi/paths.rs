//! The paths of a group version with the operations on them.

use serde_json::{Map, Value, json};

use super::components::{Components, group_version_kind, reference};
use super::{GroupVersion, custom};
use crate::api::JsonMap;
use crate::resources::{Resource, Subresource, api_version};

/// The version of the API.
pub(super) const VERSION: &str = "1.36";

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
/// In which forms objects are answered, and read unless any will do.
const FORMS: [&str; 2] = ["application/json", "application/yaml"];
const WATCH_FORM: &str = "application/json;stream=watch";
const JSON_PATCHES: [&str; 3] =
    ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";

/// The name and the type of a parameter in the query.
type Parameter = (&'static str, &'static str);

const READ_LIST: [Parameter; 10] = [
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const DELETE_LIST: [Parameter; 12] = [
    ("continue", "string"),
    ("dryRun", "string"),
    ("fieldSelector", "string"),
    ("gracePeriodSeconds", "integer"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
];
const DELETE: [Parameter; 4] = [
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
const WRITE: [Parameter; 3] =
    [("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const PATCH: [Parameter; 4] =
    [("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")];

/// An operation, as a verb of the API is one.
struct Operation {
    verb: &'static str,
    method: &'static str,
    action: &'static str,
    /// With what its ID begins.
    word: &'static str,
    parameters: &'static [Parameter],
    body: RequestBody,
    answer: AnswerType,
    /// Codes of success.
    codes: &'static [u16],
}

#[derive(PartialEq)]
enum RequestBody {
    None,
    Object,
    Patch,
    DeleteOptions,
}

enum AnswerType {
    Object,
    List,
    Status,
}

/// The operations on all objects of a resource.
const ON_LISTS: [Operation; 3] = [
    Operation {
        verb: "list",
        method: "get",
        action: "list",
        word: "list",
        parameters: &READ_LIST,
        body: RequestBody::None,
        answer: AnswerType::List,
        codes: &[200],
    },
    Operation {
        verb: "create",
        method: "post",
        action: "post",
        word: "create",
        parameters: &WRITE,
        body: RequestBody::Object,
        answer: AnswerType::Object,
        codes: &[200, 201, 202],
    },
    Operation {
        verb: "deletecollection",
        method: "delete",
        action: "deletecollection",
        word: "delete",
        parameters: &DELETE_LIST,
        body: RequestBody::DeleteOptions,
        answer: AnswerType::Status,
        codes: &[200],
    },
];

/// The operations on one object, or on a part of it.
const ON_OBJECTS: [Operation; 4] = [
    Operation {
        verb: "get",
        method: "get",
        action: "get",
        word: "read",
        parameters: &[],
        body: RequestBody::None,
        answer: AnswerType::Object,
        codes: &[200],
    },
    Operation {
        verb: "update",
        method: "put",
        action: "put",
        word: "replace",
        parameters: &WRITE,
        body: RequestBody::Object,
        answer: AnswerType::Object,
        codes: &[200, 201],
    },
    Operation {
        verb: "delete",
        method: "delete",
        action: "delete",
        word: "delete",
        parameters: &DELETE,
        body: RequestBody::DeleteOptions,
        answer: AnswerType::Status,
        codes: &[200, 202],
    },
    Operation {
        verb: "patch",
        method: "patch",
        action: "patch",
        word: "patch",
        parameters: &PATCH,
        body: RequestBody::Patch,
        answer: AnswerType::Object,
        codes: &[200, 201],
    },
];

/// The types of what is read and written at a path.
#[derive(Clone)]
struct PathTypes<'a> {
    resource: &'a Resource,
    /// As the operations name it: group, version and kind.
    kind: Value,
    object: String,
    list: String,
    /// The end of the operations' IDs.
    suffix: String,
    /// Of a resource with namespaces: the path is about all of them.
    of_all_namespaces: bool,
}

/// The paths of a group version. Left out are those that only old clients use (`watch/`) and those of what a server without
/// containers does not have (`log`, `exec`, `proxy`).
pub(super) fn paths(served: &GroupVersion<'_>) -> Value {
    let root = match served.group {
        "" => format!("/api/{}", served.version.name),
        group => format!("/apis/{group}/{}", served.version.name),
    };
    let words = GroupWords::of(served);
    let mut paths = Map::new();
    paths.insert(format!("{root}/"), words.resource_list());
    for resource in &served.version.resources {
        add_resource(&mut paths, &root, resource, &words);
    }
    paths.into()
}

fn add_resource(paths: &mut JsonMap, root: &str, resource: &Resource, words: &GroupWords) {
    let Some(object) = component(resource, &resource.group, &resource.version, &resource.kind) else {
        return;
    };
    let list = component(resource, &resource.group, &resource.version, &resource.list_kind);
    let types = PathTypes {
        resource,
        kind: group_version_kind(&resource.group, &resource.version, &resource.kind),
        // A kind without lists has no operation that would answer one.
        list: list.unwrap_or_default(),
        object,
        suffix: resource.kind.clone(),
        of_all_namespaces: false,
    };
    let (all, one) = match resource.namespaced {
        true => {
            let all = format!("{root}/namespaces/{{namespace}}/{}", resource.name);
            let lists = ON_LISTS.iter().filter(|o| o.verb == "list" && resource.allows(o.verb));
            let path = words.path(&PathTypes { of_all_namespaces: true, ..types.clone() }, &[], lists);
            insert(paths, format!("{root}/{}", resource.name), path);
            (all.clone(), format!("{all}/{{name}}"))
        }
        false => {
            let all = format!("{root}/{}", resource.name);
            (all.clone(), format!("{all}/{{name}}"))
        }
    };
    let scope: &[&str] = if resource.namespaced { &["namespace"] } else { &[] };
    let named = [&["name"], scope].concat();
    let on_lists = ON_LISTS.iter().filter(|o| resource.allows(o.verb));
    insert(paths, all, words.path(&types, scope, on_lists));
    let on_objects = ON_OBJECTS.iter().filter(|o| resource.allows(o.verb));
    insert(paths, one.clone(), words.path(&types, &named, on_objects));
    for part in resource.subresources.iter().filter(|part| part.name != "log") {
        let Some(types) = part_types(&types, part) else { continue };
        let operations =
            ON_LISTS.iter().chain(&ON_OBJECTS).filter(|o| part.verbs.iter().any(|v| v == o.verb));
        insert(paths, format!("{one}/{}", part.name), words.path(&types, &named, operations));
    }
}

fn insert(paths: &mut JsonMap, path: String, operations: Option<Value>) {
    paths.extend(operations.map(|operations| (path, operations)));
}

/// The types of a subresource; none if its kind has no schema, as those of connections.
fn part_types<'a>(types: &PathTypes<'a>, part: &Subresource) -> Option<PathTypes<'a>> {
    let resource = types.resource;
    Some(PathTypes {
        resource,
        kind: match resource.is_custom() {
            true => types.kind.clone(),
            false => group_version_kind(&part.group, &part.version, &part.kind),
        },
        object: component(resource, &part.group, &part.version, &part.kind)?,
        list: String::new(),
        suffix: format!("{}{}", resource.kind, capitalized(&part.name)),
        of_all_namespaces: false,
    })
}

/// The component of a kind.
fn component(resource: &Resource, group: &str, version: &str, kind: &str) -> Option<String> {
    if resource.is_custom() && group == resource.group {
        return Some(custom::component(resource, kind));
    }
    Components::get().of_kind(&api_version(group, version), kind).map(str::to_owned)
}

/// A group version in the IDs and tags of operations.
struct GroupWords {
    /// `RbacAuthorizationV1`
    id: String,
    /// `rbacAuthorization_v1`
    tag: String,
}

impl GroupWords {
    fn of(served: &GroupVersion<'_>) -> Self {
        let group = match served.group {
            "" => "core",
            group => group.strip_suffix(".k8s.io").unwrap_or(group),
        };
        let group: String = group.split(['.', '-']).map(capitalized).collect();
        let version = &served.version.name;
        let mut letters = group.chars();
        let tag: String =
            letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default();
        Self { id: format!("{group}{}", capitalized(version)), tag: format!("{tag}_{version}") }
    }

    /// What is at the path of the group version itself.
    fn resource_list(&self) -> Value {
        let content = content(&FORMS, &format!("{META}.APIResourceList"));
        json!({"get": {
            "tags": [self.tag], "operationId": format!("get{}APIResources", self.id),
            "responses": {"200": {"description": "OK", "content": content}},
        }})
    }

    /// A path with these operations; none without.
    fn path<'a>(
        &self,
        types: &PathTypes<'_>,
        named: &[&str],
        operations: impl Iterator<Item = &'a Operation>,
    ) -> Option<Value> {
        let mut path = Map::new();
        for operation in operations {
            path.insert(operation.method.to_owned(), self.operation(types, operation));
        }
        if path.is_empty() {
            return None;
        }
        let in_path = named.iter().map(
            |name| json!({"name": name, "in": "path", "required": true, "schema": parameter_type("string")}),
        );
        let parameters: Vec<Value> = in_path.chain([query_parameter(&("pretty", "string"))]).collect();
        path.insert("parameters".to_owned(), parameters.into());
        Some(path.into())
    }

    fn operation(&self, types: &PathTypes<'_>, operation: &Operation) -> Value {
        let collection = if operation.action == "deletecollection" { "Collection" } else { "" };
        let (namespaced, everywhere) = match types.resource.namespaced {
            true if types.of_all_namespaces => ("", "ForAllNamespaces"),
            true => ("Namespaced", ""),
            false => ("", ""),
        };
        let (word, suffix) = (operation.word, &types.suffix);
        let id = format!("{word}{}{collection}{namespaced}{suffix}{everywhere}", self.id);
        let answer = match operation.answer {
            AnswerType::Object => content(&FORMS, &types.object),
            AnswerType::List => content(&[FORMS[0], WATCH_FORM, FORMS[1]], &types.list),
            AnswerType::Status => content(&FORMS, &format!("{META}.Status")),
        };
        let response = |code: &u16| {
            let description = match code {
                201 => "Created",
                202 => "Accepted",
                _ => "OK",
            };
            (code.to_string(), json!({"description": description, "content": answer.clone()}))
        };
        let responses: JsonMap = operation.codes.iter().map(response).collect();
        let mut value = json!({
            "tags": [self.tag], "operationId": id, "responses": responses,
            "x-kubernetes-action": operation.action, "x-kubernetes-group-version-kind": types.kind,
        });
        if !operation.parameters.is_empty() {
            value["parameters"] = operation.parameters.iter().map(query_parameter).collect();
        }
        let body = match operation.body {
            RequestBody::None => return value,
            RequestBody::Object => content(&["*/*"], &types.object),
            RequestBody::DeleteOptions => content(&["*/*"], &format!("{META}.DeleteOptions")),
            RequestBody::Patch => {
                let mut forms = JSON_PATCHES.to_vec();
                // kubectl asks here whether a kind has strategic merge patches.
                if !types.resource.is_custom() {
                    forms.push(STRATEGIC_PATCH);
                }
                content(&forms, &format!("{META}.Patch"))
            }
        };
        value["requestBody"] = json!({"content": body});
        if operation.body != RequestBody::DeleteOptions {
            value["requestBody"]["required"] = true.into();
        }
        value
    }
}

/// A component in each of some forms.
fn content(forms: &[&str], component: &str) -> Value {
    forms.iter().map(|form| ((*form).to_owned(), json!({"schema": reference(component)}))).collect()
}

fn query_parameter((name, kind): &Parameter) -> Value {
    json!({"name": name, "in": "query", "schema": parameter_type(kind)})
}

fn parameter_type(kind: &str) -> Value {
    json!({"type": kind, "uniqueItems": true})
}

/// A word with a capital letter.
fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
