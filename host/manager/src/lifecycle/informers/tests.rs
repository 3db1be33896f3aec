//! Which informer a watch gets, by its namespaces and the grants, and how long a load waits for it.

use std::sync::Arc;

use pilothouse_cache::testing::config_maps;
use pilothouse_plugin::{Rule, World};
use serde_json::{Value, json};

use super::*;
use crate::testing::{TestPlugin, description_text, settle};

fn grants(verbs: &[&str], namespaces: &[&str]) -> Grants {
    let rule: Rule = serde_json::from_value(json!({
        "groups": [""], "resources": ["configmaps"], "verbs": verbs, "namespaces": namespaces,
    }))
    .unwrap();
    Grants::new(vec![rule])
}

fn description(watches: &[Value], indexes: &Value) -> Description {
    let watches: Vec<Value> = watches
        .iter()
        .map(|namespaces| json!({"version": "v1", "kind": "ConfigMap", "namespaces": namespaces}))
        .collect();
    let description = json!({"watches": watches, "indexes": indexes});
    Description::parse(&description_text(description), World::Reconciler).unwrap()
}

fn lease(test: &TestPlugin, description: &Description, grants: &Grants) -> Result<KindView, String> {
    let resources = HashMap::from([(config_maps().gvk, config_maps())]);
    let kinds = test.loader.lease_informers(&test.plugin, 1, description, &resources, grants)?;
    Ok(kinds.into_values().next().unwrap())
}

#[tokio::test(start_paused = true)]
async fn one_namespace_has_an_informer_of_its_own_and_several_share_that_of_all() {
    let test = TestPlugin::new().await;
    let all = grants(&["list", "watch"], &["*"]);
    let two = grants(&["list", "watch"], &["a", "b"]);
    let one = grants(&["list", "watch"], &["a"]);
    let cases = [
        (&all, vec![json!([])], None),
        (&all, vec![json!(["a"])], Some("a")),
        (&all, vec![json!(["a"]), json!(["a"])], Some("a")),
        (&all, vec![json!(["a", "b"])], None),
        (&all, vec![json!(["a"]), json!(["b"])], None),
        (&two, vec![json!([])], None),
        (&two, vec![json!(["b"])], Some("b")),
        // Without namespaces a watch covers those that are granted.
        (&one, vec![json!([])], Some("a")),
    ];
    for (grants, watches, namespace) in cases {
        let view = lease(&test, &description(&watches, &json!([])), grants).unwrap();
        assert_eq!(view.lease.id().namespace.as_deref(), namespace, "{watches:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_needs_list_and_watch_where_it_looks() {
    let test = TestPlugin::new().await;
    let everywhere = description(&[json!([])], &json!([]));
    let in_b = description(&[json!(["b"])], &json!([]));
    let cases = [
        (&everywhere, grants(&["list"], &["*"]), "watch"),
        (&everywhere, grants(&["watch"], &["*"]), "list"),
        (&everywhere, grants(&["get"], &["*"]), "list"),
        (&in_b, grants(&["list", "watch"], &["a"]), "list"),
    ];
    for (description, grants, verb) in cases {
        let Err(refused) = lease(&test, description, &grants) else { panic!("granted: {verb}") };
        assert!(refused.contains(verb) && refused.contains("configmaps"), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_index_goes_with_its_generation() {
    let test = TestPlugin::new().await;
    let index = json!([{"version": "v1", "kind": "ConfigMap", "name": "by-app", "label": "app"}]);
    let described = description(&[json!([])], &index);
    let view = lease(&test, &described, &grants(&["list", "watch"], &["*"])).unwrap();
    let name = view.indexes["by-app"].clone();
    let indexer = Arc::clone(view.lease.indexer());
    assert!(view.lease.wait_synced().await);
    test.server.create("ns/a", json!({"metadata": {"labels": {"app": "web"}}}));
    settle().await;
    assert_eq!(indexer.index_keys(&name, "web").unwrap().len(), 1);
    drop(view);
    assert!(indexer.index_keys(&name, "web").is_err());
}

#[tokio::test(start_paused = true)]
async fn a_load_shows_why_it_waits_for_a_first_list() {
    let test = TestPlugin::new().await;
    test.server.refuse(true);
    let view =
        lease(&test, &description(&[json!([])], &json!([])), &grants(&["list", "watch"], &["*"])).unwrap();
    let plugin = Arc::clone(&test.plugin);
    let mut waiting = Box::pin(wait_for_caches(&plugin, std::iter::once(&view)));
    tokio::select! {
        _ = &mut waiting => panic!("there is no list yet"),
        () = tokio::time::sleep(WAITING_REASON_PERIOD * 2) => {}
    }
    let reason = test.plugin.status().last_error.unwrap();
    assert!(reason.starts_with("waiting for the first list of configmaps.v1: "), "{reason}");
    test.server.refuse(false);
    assert!(waiting.await);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_shuts_down_ends_the_wait_for_caches() {
    let test = TestPlugin::new().await;
    test.server.refuse(true);
    let view =
        lease(&test, &description(&[json!([])], &json!([])), &grants(&["list", "watch"], &["*"])).unwrap();
    let (synced, ()) =
        tokio::join!(wait_for_caches(&test.plugin, std::iter::once(&view)), test.loader.factory.shutdown());
    assert!(!synced);
}
