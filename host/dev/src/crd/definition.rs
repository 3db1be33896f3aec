//! [`parse`]: a CustomResourceDefinition of a component, as far as the SDK writes one.
//!
//! A component's author chooses the bytes, and what is printed goes into `kubectl apply` of an administrator. Invariant: nothing
//! comes out but a CustomResourceDefinition of a group that is not of Kubernetes, with the fields that the SDK knows: no
//! webhook that would be sent the objects, no annotation, no other kind of object.

use anyhow::{Result, anyhow, bail};
use pilothouse_plugin::printable;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use pilothouse_hosting::inspect::resources::is_builtin;

const API_VERSION: &str = "apiextensions.k8s.io/v1";
const KIND: &str = "CustomResourceDefinition";
const REMEDY: &str = "build it with a matching pilothouse-sdk, and do not apply what others wrote into it";

/// What is looked at first: of any object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
}

/// A definition as the SDK writes it.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Definition {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    name: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    group: String,
    names: Names,
    scope: String,
    versions: Vec<Version>,
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
struct Names {
    plural: String,
    /// Names of other uses; none of them gives a right.
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
struct Version {
    name: String,
    /// The schema and how its objects are shown.
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// Reads a definition.
///
/// # Errors
/// When it is anything else.
pub(crate) fn parse(line: &[u8]) -> Result<Definition> {
    let damaged =
        |error: serde_json::Error| anyhow!("it is damaged: {}; {REMEDY}", printable(&error.to_string()));
    let Head { api_version, kind } = serde_json::from_slice(line).map_err(damaged)?;
    if api_version != API_VERSION || kind != KIND {
        let what = printable(&format!("{api_version}/{kind}"));
        bail!("it has an object {what:?}, which is no CustomResourceDefinition of {API_VERSION}; {REMEDY}");
    }
    let definition: Definition = serde_json::from_slice(line).map_err(damaged)?;
    let Spec { group, names, .. } = &definition.spec;
    let wanted = format!("{}.{group}", names.plural);
    if definition.metadata.name != wanted {
        let (name, wanted) = (printable(&definition.metadata.name), printable(&wanted));
        bail!("it has a definition {name:?}, which defines {wanted:?}; {REMEDY}");
    }
    if is_builtin(group) {
        bail!(
            "it has a definition {wanted:?}, and that group is one of Kubernetes; give the type a group of your own"
        );
    }
    Ok(definition)
}

impl Definition {
    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The versions, for a message.
    pub(crate) fn versions(&self) -> String {
        let versions: Vec<&str> = self.spec.versions.iter().map(|version| version.name.as_str()).collect();
        printable(&versions.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As the SDK writes it, with changes: `null` takes a field out.
    fn changed(pointer: &str, field: &str, value: Value) -> Vec<u8> {
        let mut definition = json!({
            "apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "foos.example.org"},
            "spec": {"group": "example.org", "scope": "Namespaced",
                "names": {"kind": "Foo", "plural": "foos", "singular": "foo", "shortNames": ["f"], "categories": ["all"]},
                "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "additionalPrinterColumns": [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
                    "schema": {"openAPIV3Schema": {"type": "object"}}}]},
        });
        definition.pointer_mut(pointer).unwrap()[field] = value;
        definition.to_string().into_bytes()
    }

    #[test]
    fn a_definition_of_the_sdk_comes_out_as_it_is() {
        let bytes = changed("", "kind", json!(KIND));
        let definition = parse(&bytes).unwrap();
        assert_eq!((definition.name(), definition.versions().as_str()), ("foos.example.org", "v1"));
        let whole: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(serde_json::to_value(&definition).unwrap(), whole);
    }

    #[test]
    fn nothing_else_comes_out() {
        let webhook =
            json!({"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://evil.example"}}});
        for (line, wanted) in [
            (changed("", "kind", json!("ClusterRoleBinding")), "is no CustomResourceDefinition"),
            (changed("", "kind", json!("List")), "is no CustomResourceDefinition"),
            (
                changed("", "apiVersion", json!("apiextensions.k8s.io/v1beta1")),
                "is no CustomResourceDefinition",
            ),
            (changed("", "items", json!([])), "unknown field `items`"),
            (changed("", "status", json!({})), "unknown field `status`"),
            (changed("/metadata", "annotations", json!({"a": "b"})), "unknown field `annotations`"),
            (changed("/spec", "conversion", webhook), "unknown field `conversion`"),
            (changed("/spec", "group", json!("example.com")), r#"which defines "foos.example.com""#),
            (changed("/metadata", "name", json!("bars.example.org")), r#"definition "bars.example.org""#),
            (
                br#"{"apiVersion":"v1","kind":"Secret","kind":"CustomResourceDefinition"}"#.to_vec(),
                "duplicate field",
            ),
            (b"[]".to_vec(), "is no CustomResourceDefinition"),
            (b"{".to_vec(), "it is damaged"),
        ] {
            let error = parse(&line).unwrap_err().to_string();
            assert!(error.contains(wanted) && error.contains(REMEDY), "{wanted}: {error}");
        }
        let of_kubernetes = String::from_utf8(changed("/spec", "group", json!("apps"))).unwrap();
        let error = parse(of_kubernetes.replace("foos.example.org", "foos.apps").as_bytes()).unwrap_err();
        assert!(error.to_string().contains("is one of Kubernetes"), "{error}");
    }

    #[test]
    fn what_a_component_chose_cannot_move_the_cursor() {
        for line in [
            changed("", "kind", json!("A\u{1b}[2J")),
            changed("/metadata", "name", json!("A\u{1b}[2J")),
            changed("", "A\u{1b}[2J", json!(1)),
        ] {
            let error = parse(&line).unwrap_err().to_string();
            assert!(!error.contains('\u{1b}'), "{error}");
        }
    }
}
