//! Schemas that cannot be made.

use pilothouse_sdk::prelude::*;
use std::time::Duration;

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "example.com", version = "v1", crd)]
struct Site {
    metadata: Metadata,
    spec: SiteSpec,
}

#[derive(Serialize, Deserialize)]
struct SiteSpec {
    image: String,
}

#[derive(Schema, Serialize, Deserialize)]
struct Flat {
    #[serde(flatten)]
    rest: SiteSpec,
}

#[derive(Schema, Serialize, Deserialize)]
enum Choice {
    Name(String),
}

#[derive(Schema)]
struct Timed {
    after: Duration,
    #[schema(minimun = 1)]
    misspelt: u32,
}

#[derive(Schema, Serialize, Deserialize)]
#[serde(transparent)]
struct Name {
    inner: String,
}

#[derive(Schema, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    One,
}

#[derive(Schema)]
struct Texts {
    #[schema(json = "{type: string}")]
    broken: Value,
}

#[derive(Schema)]
struct Both {
    #[schema(json = "{}", minimum = 1)]
    number: Value,
}

#[derive(Schema)]
#[schema(json = "{}")]
struct Whole {}

fn main() {}
