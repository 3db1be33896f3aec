//! OpenAPI v3 as clients fetch it: the index, its URLs with hashes, and what a definition changes.

use serde_json::{Value, json};

use super::client::{Answer, Cluster};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const KITES: &str = "apis/wind.test/v1";

fn definition(schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "kites.wind.test"},
        "spec": {
            "group": "wind.test", "scope": "Namespaced",
            "names": {"plural": "kites", "kind": "Kite"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.tails", "statusReplicasPath": ".status.tails",
                }},
            }],
        },
    })
}

/// The URL that the index has for a group version.
async fn url(cluster: &Cluster, name: &str) -> Option<String> {
    let index = cluster.get("/openapi/v3").await.ok();
    index["paths"][name]["serverRelativeURL"].as_str().map(str::to_owned)
}

async fn document(cluster: &Cluster, name: &str) -> Value {
    cluster.get(&url(cluster, name).await.unwrap()).await.ok()
}

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    answer.headers.get(name).map_or("", |value| value.to_str().unwrap())
}

#[tokio::test]
async fn a_document_is_cached_for_good_under_its_hash_and_not_without() {
    let cluster = Cluster::start().await;
    let hashed = url(&cluster, "apis/apps/v1").await.unwrap();
    let answer = cluster.get(&hashed).await;
    assert_eq!(answer.code, 200);
    assert_eq!(header(&answer, "cache-control"), "public, immutable");
    assert!(header(&answer, "expires").ends_with(" UTC"), "{:?}", answer.headers);
    assert_eq!((header(&answer, "content-type"), header(&answer, "vary")), ("application/json", "Accept"));
    let (path, hash) = hashed.split_once("?hash=").unwrap();
    assert_eq!(header(&answer, "etag"), format!("\"{hash}\""));

    let plain = cluster.get(path).await;
    assert_eq!((plain.code, &plain.body), (200, &answer.body));
    assert_eq!((header(&plain, "cache-control"), header(&plain, "expires")), ("no-cache, private", ""));
    let tag = format!("\"{hash}\"");
    let known = cluster.send("GET", path, &[("if-none-match", &tag)], "").await;
    assert_eq!((known.code, known.body.len(), header(&known, "etag")), (304, 0, &*tag));
    let other = cluster.send("GET", path, &[("if-none-match", "\"other\"")], "").await;
    assert_eq!(other.code, 200);

    let moved = cluster.get(&format!("{path}?hash=0")).await;
    assert_eq!((moved.code, header(&moved, "location")), (301, &*hashed));
    let index = cluster.get("/openapi/v3").await;
    assert_eq!(header(&index, "cache-control"), "no-cache, private");
}

#[tokio::test]
async fn documents_are_json_or_nothing() {
    let cluster = Cluster::start().await;
    const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
    for (accept, code) in [
        ("application/json", 200),
        ("*/*", 200),
        (PROTOBUF, 406),
        (&format!("{PROTOBUF}, application/json;q=0.5"), 200),
        ("text/html", 406),
    ] {
        let answer = cluster.send("GET", "/openapi/v3/apis/apps/v1", &[("accept", accept)], "").await;
        assert_eq!((answer.code, answer.body.is_empty()), (code, code != 200), "{accept}");
    }
    for path in ["/openapi/v3/apis/apps/v9", "/openapi/v3/apis/apps", "/openapi/v3/api", "/openapi/v3/x%00"] {
        let answer = cluster.get(path).await;
        assert_eq!((answer.code, answer.body.len()), (404, 0), "{path}");
    }
    for path in ["/openapi", "/openapi/v1", "/openapi/v2/api"] {
        assert!(cluster.get(path).await.is_no_page(), "{path}");
    }
}

#[tokio::test]
async fn the_document_of_version_2_is_empty() {
    let cluster = Cluster::start().await;
    let document = cluster.get("/openapi/v2").await.ok();
    assert_eq!((&document["swagger"], &document["paths"]), (&json!("2.0"), &json!({})));
    let asked = [("accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")];
    let answer = cluster.send("GET", "/openapi/v2", &asked, "").await;
    assert_eq!(header(&answer, "content-type"), "application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
    assert_eq!(&answer.body[..], b"\x0a\x032.0\x12\x12\x0a\x0aKubernetes\x12\x041.36\x42\x00");
    assert_eq!(cluster.send("GET", "/openapi/v2", &[("accept", "text/html")], "").await.code, 406);
}

#[tokio::test]
async fn a_definition_is_in_the_documents_as_soon_as_it_is_written() {
    let cluster = Cluster::start().await;
    let apps = url(&cluster, "apis/apps/v1").await.unwrap();
    assert_eq!(url(&cluster, KITES).await, None);
    let schema = json!({
        "type": "object", "description": "Flies.", "required": ["spec"],
        "properties": {
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}},
            "spec": {"type": "object", "properties": {
                "size": {"type": "integer", "default": 3, "minimum": 1},
                "port": {"x-kubernetes-int-or-string": true},
                "tails": {"type": "array", "items": {
                    "type": "object", "x-kubernetes-embedded-resource": true,
                    "x-kubernetes-preserve-unknown-fields": true,
                }},
            }},
        },
    });
    cluster.post(DEFINITIONS, &definition(&schema)).await.ok();
    let first = url(&cluster, KITES).await.unwrap();
    let made = cluster.get(&first).await.ok();
    let kite = &made["components"]["schemas"]["test.wind.v1.Kite"];
    let meta = json!({"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"});
    let text = json!({"type": "string"});
    let expected = json!({
        "type": "object", "description": "Flies.", "required": ["spec"],
        "properties": {
            "apiVersion": text, "kind": text, "metadata": meta,
            "spec": {"type": "object", "properties": {
                "size": {"type": "integer", "default": 3, "minimum": 1},
                "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "tails": {"type": "array", "items": {
                    "type": "object", "required": ["kind", "apiVersion"],
                    "properties": {"apiVersion": text, "kind": text, "metadata": meta},
                    "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
                }},
            }},
        },
        "x-kubernetes-group-version-kind": [{"group": "wind.test", "version": "v1", "kind": "Kite"}],
    });
    assert_eq!(*kite, expected);
    let one = "/apis/wind.test/v1/namespaces/{namespace}/kites/{name}";
    let patch = &made["paths"][one]["patch"];
    assert_eq!(patch["operationId"], "patchWindTestV1NamespacedKite");
    // kubectl would ask for a strategic merge patch otherwise.
    let forms: Vec<&String> = patch["requestBody"]["content"].as_object().unwrap().keys().collect();
    assert!(!forms.iter().any(|form| form.contains("strategic")), "{forms:?}");
    let scale = &made["paths"][format!("{one}/scale")]["get"]["responses"]["200"]["content"];
    let scale = scale["application/json"]["schema"]["$ref"].as_str().unwrap();
    assert_eq!(scale, "#/components/schemas/io.k8s.api.autoscaling.v1.Scale");
    assert!(made["components"]["schemas"].get("io.k8s.api.autoscaling.v1.ScaleSpec").is_some());

    // Another schema is another document; the others stay.
    let mut stored = cluster.get(&format!("{DEFINITIONS}/kites.wind.test")).await.ok();
    stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "Falls.".into();
    cluster.put(&format!("{DEFINITIONS}/kites.wind.test"), &stored).await.ok();
    let second = url(&cluster, KITES).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(header(&cluster.get(&first).await, "location"), second);
    let made = document(&cluster, KITES).await;
    assert_eq!(made["components"]["schemas"]["test.wind.v1.Kite"]["description"], "Falls.");
    assert_eq!(url(&cluster, "apis/apps/v1").await.unwrap(), apps);

    cluster.delete(&format!("{DEFINITIONS}/kites.wind.test"), &json!({})).await.ok();
    assert_eq!(url(&cluster, KITES).await, None);
    assert_eq!(cluster.get(&second).await.code, 404);
}

#[tokio::test]
async fn a_definition_in_a_built_in_group_version_joins_its_document() {
    let cluster = Cluster::start().await;
    let before = url(&cluster, "apis/apps/v1").await.unwrap();
    let mut joining = definition(&json!({"type": "object"}));
    joining["metadata"]["name"] = "kites.apps.test".into();
    joining["spec"]["group"] = "apps.test".into();
    cluster.post(DEFINITIONS, &joining).await.ok();
    assert_eq!(url(&cluster, "apis/apps/v1").await.unwrap(), before);

    let mut joining = definition(&json!({"type": "object"}));
    joining["metadata"]["name"] = "kites.storage.k8s.io".into();
    joining["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, a test"});
    joining["spec"]["group"] = "storage.k8s.io".into();
    cluster.post(DEFINITIONS, &joining).await.ok();
    let made = document(&cluster, "apis/storage.k8s.io/v1").await;
    let schemas = made["components"]["schemas"].as_object().unwrap();
    assert!(schemas.contains_key("io.k8s.storage.v1.Kite"), "{:?}", schemas.keys());
    assert!(schemas.contains_key("io.k8s.api.storage.v1.StorageClass"));
}
