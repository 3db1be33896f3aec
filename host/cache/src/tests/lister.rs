//! §1.5: listers, raw and typed.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use pilothouse_object::{LabelSelector, Object, Projection};
use serde_json::json;

use crate::testing::{config_maps, object};
use crate::{CacheError, Delta, IndexFn, Indexer, Lister};

fn lister() -> Lister {
    let indexer = Arc::new(Indexer::new(true));
    let make = |key: &str, app: &str| {
        let body = json!({"metadata": {"labels": {"app": app}}, "data": {"key": key}});
        Delta::Added(object(&config_maps().gvk, key, &format!("uid-of-{key}"), "1", body))
    };
    indexer.apply([make("a/x", "web"), make("a/y", "db"), make("b/x", "web")], None);
    Lister::new(indexer)
}

fn selector(text: &str) -> LabelSelector {
    text.parse().unwrap()
}

#[test]
fn a_lister_selects_by_labels_and_namespace() {
    let lister = lister();
    assert_eq!((lister.list(&selector("")).len(), lister.list(&selector("app=web")).len()), (3, 2));
    let a = lister.namespace("a");
    assert_eq!((a.list(&selector("")).len(), a.list(&selector("app=web")).len()), (2, 1));
    assert_eq!((lister.namespace("none").list(&selector("")).len(), a.get("y").unwrap().name()), (0, "y"));
}

#[test]
fn what_is_not_there_is_an_error_that_says_so() {
    let lister = lister();
    assert_eq!(lister.get(&"a/none".parse().unwrap()).unwrap_err(), CacheError::NotFound("a/none".into()));
    assert_eq!(lister.namespace("b").get("y").unwrap_err().to_string(), "b/y not found");
    assert!(matches!(lister.namespace("b").get("no/name"), Err(CacheError::NotFound(_))));
    assert!(matches!(lister.get_as::<ConfigMap>(&"a/none".parse().unwrap()), Err(CacheError::NotFound(_))));
}

#[test]
fn a_lister_decodes_what_is_asked_for_as_a_type() {
    let lister = lister();
    let found: ConfigMap = lister.get_as(&"a/x".parse().unwrap()).unwrap();
    assert_eq!(found.data.unwrap()["key"], "a/x");
    assert_eq!(lister.list_as::<ConfigMap>(&selector("app=web")).unwrap().len(), 2);
    let of_b = lister.namespace("b");
    let listed: Vec<ConfigMap> = of_b.list_as(&selector("")).unwrap();
    assert_eq!(listed[0].metadata.name.as_deref(), Some("x"));
    assert_eq!(of_b.get_as::<ConfigMap>("x").unwrap().metadata.uid.as_deref(), Some("uid-of-b/x"));
}

#[test]
fn an_object_that_does_not_decode_is_named_and_harms_nobody_it_does_not_match() {
    let lister = lister();
    let indexer = Arc::new(Indexer::new(true));
    let bad = object(&config_maps().gvk, "a/bad", "u", "1", json!({"data": [1]}));
    indexer.apply(lister.list(&selector("")).into_iter().chain([bad]).map(Delta::Added), None);
    let lister = Lister::new(indexer);
    let error = lister.list_as::<ConfigMap>(&selector("")).unwrap_err();
    assert!(
        matches!(&error, CacheError::Decode { key, kind, .. } if key == "a/bad" && kind == "ConfigMap"),
        "{error}"
    );
    assert!(error.to_string().starts_with("ConfigMap a/bad does not decode: "), "{error}");
    assert_eq!(lister.list_as::<ConfigMap>(&selector("app")).unwrap().len(), 3);
    assert!(lister.namespace("a").get_as::<ConfigMap>("bad").is_err());
}

#[test]
fn a_field_that_is_not_json_is_an_error_of_whoever_decodes_it_and_harms_nobody_else() {
    let text = r#"{"metadata":{"name":"bad","namespace":"a","labels":{"app":"web"}},"data":{"key":}}"#;
    let bad = Object::decode_trusted(text.as_bytes(), &config_maps().gvk).unwrap();
    let indexer = Arc::new(Indexer::new(true));
    indexer.add_indexer("key", IndexFn::path("/data/key".parse().unwrap())).unwrap();
    indexer.apply(lister().list(&selector("")).into_iter().chain([bad]).map(Delta::Added), None);
    assert_eq!(indexer.index_values("key").unwrap().len(), 3);
    let lister = Lister::new(indexer);
    assert_eq!(lister.list(&selector("app=web")).len(), 3);
    let error = lister.get_as::<ConfigMap>(&"a/bad".parse().unwrap()).unwrap_err();
    assert!(matches!(&error, CacheError::Decode { key, .. } if key == "a/bad"), "{error}");
    assert_eq!(lister.list_as::<ConfigMap>(&selector("app=db")).unwrap().len(), 1);
}

#[test]
fn partial_objects_are_read_as_far_as_they_go() {
    let indexer = Arc::new(Indexer::new(true));
    let cut = |object| Delta::Added(Projection::metadata_only().apply(&object));
    indexer.apply(lister().list(&selector("")).into_iter().map(cut), None);
    let found: ConfigMap = Lister::new(indexer).get_as(&"a/x".parse().unwrap()).unwrap();
    assert_eq!(found.data, None);
}
