//! Schemas of custom resources, made by the compiler.
//!
//! `#[derive(Schema)]` gives a type the schema of its fields as a constant, and `#[derive(Resource)]` with
//! `#[resource(…, crd)]` makes a CustomResourceDefinition of it. In a component the definition is a custom section,
//! `pilothouse.crd`: one JSON document a line. It costs neither memory nor code, and tools read it from the `.wasm` alone.
//! In native builds [`CustomResource::crd`] returns it.
//!
//! ```
//! use pilothouse_sdk::prelude::*;
//!
//! #[derive(Resource, Serialize, Deserialize)]
//! #[resource(group = "example.com", version = "v1", crd, short_names("bu"))]
//! struct Bucket {
//!     metadata: Metadata,
//!     spec: BucketSpec,
//! }
//!
//! #[derive(Schema, Serialize, Deserialize)]
//! #[serde(rename_all = "camelCase")]
//! struct BucketSpec {
//!     /// Where the bucket is.
//!     region: String,
//!     #[schema(minimum = 1, default = 10)]
//!     size_in_gib: Option<u32>,
//! }
//!
//! use pilothouse_sdk::schema::CustomResource;
//! let crd = Bucket::crd();
//! assert_eq!(crd["metadata"]["name"], "buckets.example.com");
//! let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
//! assert_eq!(spec["properties"]["region"], json!({"type": "string", "description": "Where the bucket is."}));
//! assert_eq!(spec["required"], json!(["region"]));
//! ```

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::typed::{Condition, Metadata};
use crate::{OwnerReference, Resource};

pub use json::Json;
#[doc(hidden)]
pub use json::{bytes, length};

mod json;

/// The name of the custom section with the definitions of a component.
pub const SECTION: &str = "pilothouse.crd";

/// A type that has a schema of the API server's kind: a structural OpenAPI v3 schema.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no schema",
    note = "add `#[derive(Schema)]` to it, or `#[schema(json = \"…\")]` to the field"
)]
pub trait Schema {
    /// The schema.
    const SCHEMA: Json;
}

/// A resource with a CustomResourceDefinition.
pub trait CustomResource: Resource {
    /// The definition as a JSON text, with a line feed at its end.
    #[doc(hidden)]
    const DEFINITION: &'static [u8];

    /// The CustomResourceDefinition.
    fn crd() -> Value {
        // The text was made by the compiler, from parts that the derive has checked.
        serde_json::from_slice(Self::DEFINITION).unwrap_or_default()
    }
}

/// A schema with a type and further fields.
macro_rules! schema {
    ($($type:ty: $name:literal $(, $field:literal = $value:expr)*;)+) => {
        $(impl Schema for $type {
            const SCHEMA: Json = Json::Object(&[("type", Json::Text($name)) $(, ($field, $value))*]);
        })+
    };
}

schema! {
    String: "string";
    char: "string", "maxLength" = Json::Raw("1");
    bool: "boolean";
    i8: "integer", "minimum" = Json::Raw("-128"), "maximum" = Json::Raw("127");
    i16: "integer", "minimum" = Json::Raw("-32768"), "maximum" = Json::Raw("32767");
    i32: "integer", "format" = Json::Text("int32");
    i64: "integer", "format" = Json::Text("int64");
    u8: "integer", "minimum" = Json::Raw("0"), "maximum" = Json::Raw("255");
    u16: "integer", "minimum" = Json::Raw("0"), "maximum" = Json::Raw("65535");
    u32: "integer", "minimum" = Json::Raw("0"), "maximum" = Json::Raw("4294967295");
    u64: "integer", "minimum" = Json::Raw("0");
    f32: "number", "format" = Json::Text("float");
    f64: "number", "format" = Json::Text("double");
    Metadata: "object";
}

impl<T: Schema> Schema for Option<T> {
    const SCHEMA: Json = Json::With(&T::SCHEMA, &[("nullable", Json::Raw("true"))]);
}

impl<T: Schema> Schema for Box<T> {
    const SCHEMA: Json = T::SCHEMA;
}

impl<T: Schema> Schema for Vec<T> {
    const SCHEMA: Json = Json::Object(&[("type", Json::Text("array")), ("items", T::SCHEMA)]);
}

impl<T: Schema> Schema for BTreeMap<String, T> {
    const SCHEMA: Json = Json::Object(&[("type", Json::Text("object")), ("additionalProperties", T::SCHEMA)]);
}

impl<T: Schema, S> Schema for HashMap<String, T, S> {
    const SCHEMA: Json = Json::Object(&[("type", Json::Text("object")), ("additionalProperties", T::SCHEMA)]);
}

/// Any JSON.
impl Schema for Value {
    const SCHEMA: Json = Json::Object(&[("x-kubernetes-preserve-unknown-fields", Json::Raw("true"))]);
}

impl Schema for Condition {
    const SCHEMA: Json = Json::Object(&[
        ("type", Json::Text("object")),
        ("required", Json::List(&[Json::Text("type"), Json::Text("status")])),
        (
            "properties",
            Json::Object(&[
                ("type", String::SCHEMA),
                (
                    "status",
                    Json::Object(&[
                        ("type", Json::Text("string")),
                        (
                            "enum",
                            Json::List(&[Json::Text("True"), Json::Text("False"), Json::Text("Unknown")]),
                        ),
                    ]),
                ),
                ("reason", String::SCHEMA),
                ("message", String::SCHEMA),
                ("lastTransitionTime", String::SCHEMA),
                ("observedGeneration", i64::SCHEMA),
            ]),
        ),
    ]);
}

impl Schema for OwnerReference {
    const SCHEMA: Json = Json::Object(&[
        ("type", Json::Text("object")),
        (
            "properties",
            Json::Object(&[
                ("apiVersion", String::SCHEMA),
                ("kind", String::SCHEMA),
                ("name", String::SCHEMA),
                ("uid", String::SCHEMA),
                ("controller", bool::SCHEMA),
                ("blockOwnerDeletion", bool::SCHEMA),
            ]),
        ),
    ]);
}
