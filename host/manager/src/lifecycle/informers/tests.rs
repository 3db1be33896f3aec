//! Which informer a watch gets, by its namespaces and the grants, and how long a load waits for it.

use std::ops::ControlFlow;
use std::sync::Arc;

use pilothouse_cache::testing::config_maps;
use pilothouse_engine::{CacheImports as _, CacheQuery, ObjectCursor, Refusal, RefusalReason};
use pilothouse_plugin::{DescriptorLimits, IndexSource, IndexSpec, Rule, World};
use serde_json::{Value, json};

use super::*;
use crate::dispatch::guest::Component;
use crate::lifecycle::load::{Cause, Load};
use crate::testing::{FakeComponent, TestPlugin, description_text, files, settle};

fn rule(verbs: &[&str], namespaces: &[&str], names: &[&str]) -> Rule {
    serde_json::from_value(json!({
        "groups": [""], "resources": ["configmaps"], "verbs": verbs, "namespaces": namespaces, "names": names,
    }))
    .unwrap()
}

fn grants(verbs: &[&str], namespaces: &[&str]) -> Grants {
    Grants::new(vec![rule(verbs, namespaces, &[])])
}

fn description(watches: &[Value], indexes: &Value) -> Description {
    let watches: Vec<Value> = watches
        .iter()
        .enumerate()
        .map(|(n, namespaces)| {
            // No two watches are identical.
            let labels = format!("a!={n}");
            json!({"version": "v1", "kind": "ConfigMap", "namespaces": namespaces, "labelSelector": labels})
        })
        .collect();
    let description = json!({"watches": watches, "indexes": indexes});
    let text = description_text(description);
    Description::parse(&text, World::Reconciler, &DescriptorLimits::default()).unwrap()
}

async fn lease(test: &TestPlugin, description: &Description, grants: &Grants) -> Result<KindView, String> {
    lease_within(test, description, grants, DataLimits::default()).await.map(|(view, _)| view)
}

async fn lease_within(
    test: &TestPlugin,
    description: &Description,
    grants: &Grants,
    data: DataLimits,
) -> Result<(KindView, Arc<Warnings>), String> {
    let resources = HashMap::from([(config_maps().gvk, config_maps())]);
    let warnings = Arc::new(test.plugin.warnings());
    let leasing = Leasing { description, grants, data, warnings: &warnings, rights: HashMap::new() };
    let kinds = test.loader.lease_informers(&test.plugin, &leasing, &resources).await?;
    Ok((kinds.into_values().next().unwrap(), warnings))
}

/// The informers as `namespace/name`, with `*` for all.
fn scopes(view: &KindView) -> Vec<String> {
    let all = |part: &Option<String>| part.clone().unwrap_or_else(|| "*".to_owned());
    let ids = view.leases.iter().map(pilothouse_cache::InformerLease::id);
    ids.map(|id| format!("{}/{}", all(&id.namespace), all(&id.name))).collect()
}

#[tokio::test(start_paused = true)]
async fn informers_are_as_narrow_as_the_grants_and_the_watches() {
    let test = TestPlugin::new().await;
    let both = ["list", "watch"];
    let all = grants(&both, &["*"]);
    let two = grants(&both, &["a", "b"]);
    let one = grants(&both, &["a"]);
    let named = Grants::new(vec![rule(&both, &["a"], &["x"]), rule(&both, &["b"], &[])]);
    let cases: [(&Grants, Vec<Value>, &[&str]); 11] = [
        (&all, vec![json!([])], &["*/*"]),
        (&all, vec![json!(["a"])], &["a/*"]),
        (&all, vec![json!(["a"]), json!(["a"])], &["a/*"]),
        (&all, vec![json!(["a", "b"])], &["a/*", "b/*"]),
        (&all, vec![json!(["a"]), json!(["b"])], &["a/*", "b/*"]),
        // A watch of all namespaces has the objects of the other one too.
        (&all, vec![json!(["a"]), json!([])], &["*/*"]),
        (&two, vec![json!([])], &["a/*", "b/*"]),
        (&two, vec![json!(["b"])], &["b/*"]),
        // Without namespaces a watch covers those that are granted.
        (&one, vec![json!([])], &["a/*"]),
        (&named, vec![json!([])], &["a/x", "b/*"]),
        (&named, vec![json!(["a"])], &["a/x"]),
    ];
    for (grants, watches, wanted) in cases {
        let view = lease(&test, &description(&watches, &json!([])), grants).await.unwrap();
        assert_eq!(scopes(&view), wanted, "{watches:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn more_informers_than_are_allowed_are_refused_by_the_name_of_the_limit() {
    let test = TestPlugin::new().await;
    let described = description(&[json!([])], &json!([]));
    let three = grants(&["list", "watch"], &["a", "b", "c"]);
    let within = |informers| DataLimits { informers, ..DataLimits::default() };
    assert_eq!(lease_within(&test, &described, &three, within(3)).await.unwrap().0.leases.len(), 3);
    let refused = lease_within(&test, &described, &three, within(2)).await.err().unwrap();
    assert!(refused.contains("3 informers") && refused.contains("limits.informers"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn list_and_watch_of_different_objects_are_refused_with_the_remedy() {
    let test = TestPlugin::new().await;
    let apart = Grants::new(vec![rule(&["list"], &["a"], &[]), rule(&["watch"], &["b"], &[])]);
    let refused = lease(&test, &description(&[json!([])], &json!([])), &apart).await.err().unwrap();
    assert!(refused.contains("configmaps") && refused.contains("one rule of spec.permissions"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn an_object_beyond_a_limit_of_an_index_is_found_under_none_of_its_values() {
    let test = TestPlugin::new().await;
    let index = json!([{
        "version": "v1", "kind": "ConfigMap", "name": "by-ref", "path": "/data/refs", "split": ",",
    }]);
    let described = description(&[json!([])], &index);
    let data = DataLimits { index_values: 3, ..DataLimits::default() };
    let (view, warnings) =
        lease_within(&test, &described, &grants(&["list", "watch"], &["*"]), data).await.unwrap();
    assert!(view.leases[0].wait_synced().await);
    let name = view.indexes["by-ref"][0].name().to_owned();
    let found = |value: &str| view.leases[0].indexer().index_keys(&name, value).unwrap().len();
    test.server.create("ns/good", json!({"data": {"refs": "a,b,c"}}));
    test.server.create("ns/bad", json!({"data": {"refs": "a,b,c,d"}}));
    settle().await;
    assert_eq!((found("a"), found("d")), (1, 0));
    let charged = test.plugin.metrics().host_time.elsewhere();
    assert!(charged > Duration::ZERO, "the plugin is not charged for its index");
    let texts = warnings.texts();
    let wanted = "index by-ref of v1/ConfigMap: object ns/bad exceeds limits.indexValues (3)";
    assert!(texts.len() == 1 && texts[0].starts_with(wanted), "{texts:?}");
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
        let Err(refused) = lease(&test, description, &grants).await else { panic!("granted: {verb}") };
        assert!(refused.contains(verb) && refused.contains("configmaps"), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn cached_reads_show_the_objects_of_all_informers_of_a_kind() {
    let test = TestPlugin::new().await;
    for (key, app) in [("a/1", "x"), ("b/1", "y"), ("b/2", "x"), ("c/1", "z")] {
        test.server.create(key, json!({"metadata": {"labels": {"app": app}}}));
    }
    let description = json!({
        "watches": [{"version": "v1", "kind": "ConfigMap", "namespaces": ["a", "b"]}],
        "indexes": [{"version": "v1", "kind": "ConfigMap", "name": "by-app", "label": "app"}],
    });
    let (component, _calls) = FakeComponent::new("sha256:a", World::Reconciler, description);
    test.run(component).await;
    let (imports, kind) = (Arc::clone(&test.plugin.current().unwrap().imports), config_maps().gvk);
    let keys = |objects: Result<Box<dyn ObjectCursor>, Refusal>| {
        let mut keys = Vec::new();
        objects.unwrap().visit(&mut |object| {
            keys.extend(object.map(|object| object.key().to_string()));
            ControlFlow::Continue(())
        });
        keys.sort_unstable();
        keys
    };
    let [most, terms, values] =
        [vec!["!a"; 64].join(","), vec!["!a"; 65].join(","), format!("app in ({})", vec!["x"; 65].join(","))];
    let list = |namespace, label_selector| {
        imports.cache_list(&kind, CacheQuery { namespace, label_selector, index: None })
    };
    assert_eq!(keys(list("", "")), ["a/1", "b/1", "b/2"]);
    assert_eq!(keys(list("b", "")), ["b/1", "b/2"]);
    assert_eq!(keys(list("", "app=x")), ["a/1", "b/2"]);
    assert_eq!(list("c", "").err().unwrap().reason, RefusalReason::NotWatched);
    assert_eq!(keys(list("", &most)), ["a/1", "b/1", "b/2"]);
    for selector in [&terms, &values] {
        let over = list("", selector).err().unwrap();
        assert_eq!(over.reason, RefusalReason::OverLimit);
        assert!(
            over.message.contains("65 terms") && over.message.contains("limits.selectorTerms"),
            "{over:?}"
        );
    }
    assert_eq!(
        keys(imports.cache_list(&kind, CacheQuery { index: Some(("by-app", "x")), ..CacheQuery::default() })),
        ["a/1", "b/2"]
    );
    let mut values = Vec::new();
    let mut visit = |value: Option<&str>| {
        values.extend(value.map(str::to_owned));
        ControlFlow::Continue(())
    };
    imports.cache_index_values(&kind, "by-app", &mut visit).unwrap();
    assert_eq!(values, ["x", "y"], "sorted, whatever informer has them");
    let get = |key: &str| imports.cache_get(&kind, &key.parse().unwrap());
    assert!(get("b/2").unwrap().is_some() && get("b/3").unwrap().is_none());
    assert_eq!(get("c/1").unwrap_err().reason, RefusalReason::NotWatched);
    test.end().await;
}

#[tokio::test(start_paused = true)]
async fn index_values_of_hidden_objects_are_not_shown_and_each_is_reported_to_be_charged() {
    let test = TestPlugin::new().await;
    for n in 0..50 {
        test.server.create(&format!("ns/x{n}"), json!({"metadata": {"labels": {"app": format!("a{n}")}}}));
    }
    // The informer has all of them, and the plugin may list two.
    let lease = test.loader.factory.projected_informer(&config_maps(), None, &Projection::full());
    assert!(lease.wait_synced().await);
    let spec = IndexSpec {
        kind: config_maps().gvk,
        name: "by-app".to_owned(),
        source: IndexSource::Label("app".to_owned()),
        only_where: None,
        split: None,
    };
    let user = Arc::new(IndexUser {
        account: test.plugin.metrics().host_time.clone(),
        warnings: Arc::new(test.plugin.warnings()),
        subject: "index by-app".to_owned(),
        limits: DataLimits::default(),
    });
    let index = test.loader.indexes.lease(lease.indexer(), &spec, &user).await.unwrap();
    let grants = Grants::new(vec![rule(&["list"], &["ns"], &["x7", "x30"])]);
    let mut view = KindView::new(vec![lease], &grants, Default::default());
    view.indexes.insert("by-app".to_owned(), vec![index]);
    let files = files(b"", &json!({}));
    let config = test.config(&files.manifest).await;
    let code: Arc<dyn Component> = Arc::new(FakeComponent::reconciler().0);
    let load = Load { files: &files, code: &code, config: &config, number: 1, cause: Cause::Change };
    let imports = test.loader.imports(&test.plugin, &load, &grants);
    let kind = config_maps().gvk;
    assert!(imports.kinds.set(HashMap::from([(kind.clone(), view)]).into()).is_ok());

    let visits = |most: usize| {
        let (mut shown, mut visits) = (Vec::new(), 0);
        let mut visit = |value: Option<&str>| {
            shown.extend(value.map(str::to_owned));
            visits += 1;
            if visits == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        imports.cache_index_values(&kind, "by-app", &mut visit).unwrap();
        (shown, visits)
    };
    // Each value when it is gathered, and each object.
    assert_eq!(visits(usize::MAX), (vec!["a30".to_owned(), "a7".to_owned()], 100));
    for most in [1, 50, 51, 99] {
        assert_eq!(visits(most).1, most, "the caller says when it is enough");
    }
}

#[tokio::test(start_paused = true)]
async fn an_index_goes_with_its_generation() {
    let test = TestPlugin::new().await;
    let index = json!([{"version": "v1", "kind": "ConfigMap", "name": "by-app", "label": "app"}]);
    let described = description(&[json!([])], &index);
    let view = lease(&test, &described, &grants(&["list", "watch"], &["*"])).await.unwrap();
    let name = view.indexes["by-app"][0].name().to_owned();
    let indexer = Arc::clone(view.leases[0].indexer());
    assert!(view.leases[0].wait_synced().await);
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
    let view = lease(&test, &description(&[json!([])], &json!([])), &grants(&["list", "watch"], &["*"]))
        .await
        .unwrap();
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
    let view = lease(&test, &description(&[json!([])], &json!([])), &grants(&["list", "watch"], &["*"]))
        .await
        .unwrap();
    let (synced, ()) =
        tokio::join!(wait_for_caches(&test.plugin, std::iter::once(&view)), test.loader.factory.shutdown());
    assert!(!synced);
}
