//! Which plugins have an index in common, how long it is there, and who pays for it.

use std::time::Duration;

use pilothouse_cache::testing::config_maps;
use pilothouse_object::Gvk;
use serde_json::{Value, json};

use super::*;
use crate::testing::TestPlugin;

/// An index by label, as the plugin calls it.
fn by_label(name: &str, label: &str) -> IndexSpec {
    let source = IndexSource::Label(label.to_owned());
    IndexSpec { kind: config_maps().gvk, name: name.to_owned(), source, only_where: None, split: None }
}

fn user(test: &TestPlugin, subject: &str, limits: DataLimits) -> Arc<IndexUser> {
    let (account, warnings) = (HostTime::default(), Arc::new(test.plugin.warnings()));
    Arc::new(IndexUser { account, warnings, subject: subject.to_owned(), limits })
}

fn object(name: &str, labels: &Value) -> Object {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns", "labels": labels},
    });
    Object::decode(object.to_string().as_bytes()).unwrap()
}

fn store() -> Arc<Indexer> {
    Arc::new(Indexer::new(true))
}

#[tokio::test]
async fn equal_definitions_are_one_index_which_goes_with_the_last_lease() {
    let (test, indexes, store) = (TestPlugin::new().await, SharedIndexes::default(), store());
    let users = ["a", "b"].map(|name| user(&test, name, DataLimits::default()));
    store.add(object("x", &json!({"app": "web"})));
    let first = indexes.lease(&store, &by_label("by-app", "app"), &users[0]).await.unwrap();
    let second = indexes.lease(&store, &by_label("apps", "app"), &users[1]).await.unwrap();
    assert_eq!(first.name(), second.name(), "what a plugin calls it does not matter");
    let name = first.name().to_owned();
    let found = || Some(store.index_keys(&name, "web").ok()?.len());
    assert_eq!(found(), Some(1));
    drop(first);
    assert_eq!(found(), Some(1), "the second has it still");
    drop(second);
    assert_eq!(found(), None);
    let again = indexes.lease(&store, &by_label("by-app", "app"), &users[0]).await.unwrap();
    assert_ne!(again.name(), name);
    assert_eq!(store.index_keys(again.name(), "web").unwrap().len(), 1);
}

#[tokio::test]
async fn other_values_another_store_or_other_limits_are_another_index() {
    let (test, indexes) = (TestPlugin::new().await, SharedIndexes::default());
    let (one, other) = (store(), store());
    let (usual, few) = (DataLimits::default(), DataLimits { index_values: 3, ..DataLimits::default() });
    let (usual, few) = (user(&test, "a", usual), user(&test, "b", few));
    let spec = by_label("i", "app");
    let split = IndexSpec { split: Some(",".to_owned()), ..spec.clone() };
    let only = IndexSpec { only_where: Some("/data/a".parse().unwrap()), ..spec.clone() };
    let leases = [
        indexes.lease(&one, &spec, &usual).await.unwrap(),
        indexes.lease(&other, &spec, &usual).await.unwrap(),
        indexes.lease(&one, &spec, &few).await.unwrap(),
        indexes.lease(&one, &by_label("i", "tier"), &usual).await.unwrap(),
        indexes.lease(&one, &split, &usual).await.unwrap(),
        indexes.lease(&one, &only, &usual).await.unwrap(),
    ];
    let names: std::collections::BTreeSet<_> = leases.iter().map(IndexLease::name).collect();
    assert_eq!(names.len(), leases.len());
}

#[tokio::test]
async fn the_work_is_charged_to_those_who_have_the_index_in_turn() {
    let (test, indexes, store) = (TestPlugin::new().await, SharedIndexes::default(), store());
    let users = ["a", "b", "c"].map(|name| user(&test, name, DataLimits::default()));
    let mut leases = Vec::new();
    for user in &users {
        leases.push(indexes.lease(&store, &by_label("i", "app"), user).await.unwrap());
    }
    let shared = &leases[0].index.users;
    (0..30).for_each(|_| shared.charge(|user| user.account.add_elsewhere(Duration::from_secs(1))));
    assert_eq!(users.each_ref().map(|user| user.account.elsewhere().as_secs()), [10, 10, 10]);
    drop(leases.remove(2));
    let shared = &leases[0].index.users;
    (0..30).for_each(|_| shared.charge(|user| user.account.add_elsewhere(Duration::from_secs(1))));
    assert_eq!(users.each_ref().map(|user| user.account.elsewhere().as_secs()), [25, 25, 10]);
    // Real work is charged, too.
    let before: Duration = users.iter().map(|user| user.account.elsewhere()).sum();
    store.add(object("x", &json!({"app": "web"})));
    let after: Duration = users.iter().map(|user| user.account.elsewhere()).sum();
    assert!(after > before);
}

#[tokio::test]
async fn each_plugin_is_warned_of_objects_beyond_a_limit_also_one_that_comes_later() {
    let (test, indexes, store) = (TestPlugin::new().await, SharedIndexes::default(), store());
    let limits = DataLimits { index_values: 2, ..DataLimits::default() };
    let users = ["first", "second", "third"].map(|name| user(&test, name, limits));
    let spec = IndexSpec {
        kind: Gvk::new("", "v1", "ConfigMap"),
        source: IndexSource::Annotation("refs".to_owned()),
        split: Some(",".to_owned()),
        ..by_label("i", "")
    };
    let mut leases = Vec::new();
    for user in &users[..2] {
        leases.push(indexes.lease(&store, &spec, user).await.unwrap());
    }
    let text = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "x", "namespace": "ns", "annotations": {"refs": "a,b,c"}},
    });
    store.add(Object::decode(text.to_string().as_bytes()).unwrap());
    leases.push(indexes.lease(&store, &spec, &users[2]).await.unwrap());
    for user in &users {
        let wanted = format!("{}: object ns/x exceeds limits.indexValues (2)", user.subject);
        let texts = user.warnings.texts();
        assert!(texts.len() == 1 && texts[0].starts_with(&wanted), "{texts:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn leases_that_come_and_go_at_once_never_find_an_index_missing_or_taken() {
    let test = TestPlugin::new().await;
    let (indexes, store) = (Arc::new(SharedIndexes::default()), store());
    (0..100).for_each(|n| store.add(object(&format!("x{n}"), &json!({"app": "web"}))));
    let tasks = (0..8).map(|n| {
        let (indexes, store) = (Arc::clone(&indexes), Arc::clone(&store));
        let user = user(&test, &n.to_string(), DataLimits::default());
        tokio::spawn(async move {
            for _ in 0..200 {
                let lease = indexes.lease(&store, &by_label("i", "app"), &user).await.unwrap();
                assert_eq!(store.index_keys(lease.name(), "web").unwrap().len(), 100);
                drop(lease);
                tokio::task::yield_now().await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}
