//! Documents that are attached.

use super::*;

#[tokio::test]
async fn documents_are_attached_beside_those_of_others() {
    let test = TestRegistry::start().await;
    let pushed = push(&test, None).await;
    let index = || -> Value {
        let tag = tag_of(&pushed.digest);
        serde_json::from_slice(&test.content.lock().unwrap().manifests[&tag]).unwrap()
    };
    let kind = "application/vnd.cyclonedx+json";
    let attached = test.registry().attach(&pushed, kind, "{}".into()).await.unwrap();
    assert_eq!(index()["manifests"], json!([attached]));
    test.registry().attach(&pushed, kind, "{}".into()).await.unwrap();
    assert_eq!(index()["manifests"].as_array().unwrap().len(), 1, "the same document");
    test.registry().attach(&pushed, kind, "{\"a\": 1}".into()).await.unwrap();
    assert_eq!(index()["manifests"].as_array().unwrap().len(), 2);
    let manifest: Value =
        serde_json::from_slice(&test.content.lock().unwrap().manifests[&attached.digest]).unwrap();
    assert_eq!(manifest["subject"]["digest"], json!(pushed.digest));
}
