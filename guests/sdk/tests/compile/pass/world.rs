//! A `where` clause, a type with a concrete parameter, and a dependency of another name.

// A manifest may say `sdk = { package = "pilothouse-sdk", … }`.
extern crate pilothouse_sdk as sdk;

use sdk::prelude::*;

struct Inner;

struct Wrapper<T>(T);

#[sdk::reconciler(crate = sdk)]
impl Reconciler for Wrapper<Inner>
where
    Inner: Sized,
{
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(Descriptor::new("wrapper"))
    }

    fn new(_config: &Config) -> Result<Self, String> {
        Ok(Self(Inner))
    }

    fn reconcile(&mut self, _ctx: &Context, _request: &Request) -> Result<Outcome, Failure> {
        let Self(Inner) = self;
        Ok(Outcome::Done)
    }
}

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "example.com", version = "v1", crate = sdk, scope = "Cluster", crd)]
#[serde(rename_all = "camelCase")]
struct Thing {
    metadata: Metadata,
    the_spec: Spec,
}

#[derive(Schema, Serialize, Deserialize)]
#[schema(crate = sdk)]
struct Spec {
    r#type: String,
    /// Some bytes.
    #[serde(with = "hex")]
    #[schema(json = r#"{
            "type": "string",
            "format": "byte"
        }"#)]
    bytes: Vec<u8>,
    #[schema(minimum = 1., maximum = 1e3)]
    weight: f64,
    colour: Colour,
    #[serde(skip)]
    cached: u8,
}

#[derive(Schema, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING-KEBAB-CASE")]
#[schema(crate = sdk, default = "DARK-RED")]
enum Colour {
    DarkRed,
}

mod hex {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&String::from_utf8_lossy(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        Ok(String::deserialize(from)?.into_bytes())
    }
}

fn main() {
    use sdk::schema::CustomResource;
    assert_eq!((Thing::resource_plural(), Thing::resource_scope()), ("things".into(), sdk::Scope::Cluster));
    let schema = Thing::crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
    let spec = &schema["properties"]["theSpec"];
    let json = |text: &str| sdk::serde_json::from_str::<Value>(text).unwrap();
    let bytes = json(r#"{"type": "string", "format": "byte", "description": "Some bytes."}"#);
    assert_eq!(spec["properties"]["bytes"], bytes);
    assert_eq!(
        spec["properties"]["weight"],
        json(r#"{"type": "number", "format": "double", "minimum": 1.0, "maximum": 1000.0}"#)
    );
    let colour = json(r#"{"type": "string", "enum": ["DARK-RED"], "default": "DARK-RED"}"#);
    assert_eq!(spec["properties"]["colour"], colour);
    assert_eq!(spec["required"], json(r#"["type", "bytes", "weight", "colour"]"#));
    assert_eq!(Thing::DEFINITION.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
    let spec =
        Spec { r#type: String::new(), bytes: Vec::new(), weight: 1.0, colour: Colour::DarkRed, cached: 0 };
    assert!(spec.weight == 1.0 && matches!(spec.colour, Colour::DarkRed));
    assert_eq!((spec.r#type.len(), spec.bytes.len(), spec.cached), (0, 0, 0));
}
