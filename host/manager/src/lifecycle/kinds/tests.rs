//! Waiting for a kind, on a development server that installs a definition.

use pilothouse_cache::SharedInformerFactory;
use pilothouse_client::{Client, ClientOptions, WriteParams};
use pilothouse_devserver::{DevServer, DevServerOptions};

use super::*;

fn groups(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_definition_is_told_by_the_group_in_its_name() {
    let key = |name: &str| ObjectKey::new(None, name).unwrap();
    let groups = groups(&["example.com"]);
    assert!(defines(&key("gadgets.example.com"), &groups));
    assert!(!defines(&key("gadgets.other.example.com"), &groups));
    assert!(!defines(&key("gadgets"), &groups));
}

#[tokio::test]
async fn a_new_definition_of_a_group_is_noticed_and_no_other() {
    let server = DevServer::start(DevServerOptions::default()).await.unwrap();
    let options = ClientOptions { server: Some(server.url()), ..ClientOptions::default() };
    let client = Client::new(options).await.unwrap();
    let factory = SharedInformerFactory::for_client(client.clone(), Default::default());
    let groups = groups(&["example.com", ""]);
    let watch = DefinitionWatch::start(&factory, groups.iter());
    let (lease, _) = watch.informer.as_ref().unwrap();
    assert!(lease.wait_synced().await);
    let other = DefinitionWatch::start(&factory, ["other.example".to_owned()].iter());
    let definition = serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    let kind = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let resource = ApiResource::new(kind, "customresourcedefinitions", false);
    let body = definition.to_string();
    client.create(&resource, None, body.as_bytes(), &WriteParams::default()).await.unwrap();
    watch.changed().await;
    // Both are called by the one informer, in turn.
    assert!(futures_util::FutureExt::now_or_never(other.changed()).is_none());
    drop((watch, other));
    assert_eq!(factory.informers().len(), 0, "the watch ends with the last that waits");
    factory.shutdown().await;
}

#[test]
fn core_kinds_need_no_watch_on_definitions() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _guard = runtime.enter();
    let source =
        pilothouse_cache::testing::FakeControllerSource::new(pilothouse_cache::testing::config_maps());
    let factory = SharedInformerFactory::new(Arc::new(move |_, _| source.source()), Default::default());
    let core = String::new();
    assert!(DefinitionWatch::start(&factory, [&core].into_iter()).informer.is_none());
    assert_eq!(factory.informers().len(), 0);
}
