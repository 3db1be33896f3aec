//! Resources that lack something, or have too much.

use pilothouse_sdk::prelude::*;

#[derive(Resource, Serialize, Deserialize)]
struct NoVersion {
    metadata: Metadata,
}

#[derive(Resource, Serialize, Deserialize)]
#[resource(version = "v1")]
struct NoMetadata {
    spec: u32,
}

#[derive(Resource, Serialize, Deserialize)]
#[resource(version = "apps/v1")]
struct GroupInVersion {
    metadata: Metadata,
}

#[derive(Resource, Serialize, Deserialize)]
#[resource(version = "v1", scope = "Global")]
struct Scoped {
    metadata: Metadata,
}

#[derive(Resource, Serialize, Deserialize)]
#[resource(version = "v1", plurals = "boxes")]
struct Misspelt {
    metadata: Metadata,
}

#[derive(Resource, Serialize, Deserialize)]
#[resource(version = "v1")]
enum Choice {
    A,
}

#[derive(Resource, Serialize, Deserialize)]
#[resource(version = "v1", crd)]
struct OfKubernetes {
    metadata: Metadata,
}

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "example.com", version = "v1", short_names("x"))]
struct Names {
    metadata: Metadata,
}

fn main() {}
