//! §1.5: the store and its indexes.

use std::sync::Arc;

use pilothouse_object::{Object, ObjectKey};
use serde_json::{Value, json};

use crate::testing::{config_map, config_maps, object};
use crate::{CacheError, Change, Delta, IndexFn, Indexer, Lister, NAMESPACE_INDEX};

fn with(key: &str, version: &str, body: Value) -> Object {
    object(&config_maps().gvk, key, &format!("uid-of-{key}"), version, body)
}

fn colour(key: &str, version: &str, colours: Value) -> Object {
    with(key, version, json!({"data": {"colours": colours}}))
}

fn by_colour() -> IndexFn {
    IndexFn::path("/data/colours/[*]".parse().unwrap())
}

fn filled(objects: impl IntoIterator<Item = Object>) -> Indexer {
    let indexer = Indexer::new(true);
    indexer.replace(objects.into_iter().collect(), Some("1"), false);
    indexer
}

fn keys(objects: Vec<Object>) -> Vec<String> {
    let mut keys: Vec<_> = objects.iter().map(|object| object.key().to_string()).collect();
    keys.sort();
    keys
}

fn texts(values: Vec<Arc<str>>) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

#[test]
fn objects_are_found_by_key_and_by_namespace() {
    let indexer = filled([config_map("a/x", "1"), config_map("a/y", "1"), config_map("b/x", "1")]);
    assert_eq!(indexer.get_by_key("a/x").unwrap().name(), "x");
    assert!(indexer.get(&"a/z".parse().unwrap()).is_none());
    assert_eq!(keys(indexer.list_namespace("a")), ["a/x", "a/y"]);
    assert_eq!(keys(indexer.by_index(NAMESPACE_INDEX, "b").unwrap()), ["b/x"]);
    assert_eq!(texts(indexer.index_values(NAMESPACE_INDEX).unwrap()), ["a", "b"]);
    assert_eq!((indexer.len(), indexer.keys().len(), indexer.list().len()), (3, 3, 3));
    indexer.check();
}

#[test]
fn a_cluster_scoped_kind_has_no_namespace_index() {
    let indexer = Indexer::new(false);
    assert!(matches!(indexer.by_index(NAMESPACE_INDEX, "a"), Err(CacheError::UnknownIndex { .. })));
    assert!(indexer.list_namespace("a").is_empty());
}

#[test]
fn an_unknown_index_is_an_error_that_names_those_that_exist() {
    let indexer = filled([]);
    indexer.add_indexer("colour", by_colour()).unwrap();
    let error = indexer.by_index("color", "red").unwrap_err();
    assert_eq!(error.to_string(), "no index \"color\"; there are namespace, colour");
}

#[test]
fn an_object_and_its_index_entries_change_as_one() {
    let indexer = filled([]);
    indexer.add_indexer("colour", by_colour()).unwrap();
    let red = |keys: &[&str]| {
        assert_eq!(
            indexer.index_keys("colour", "red").unwrap().iter().map(ObjectKey::as_str).collect::<Vec<_>>(),
            keys
        );
        indexer.check();
    };
    indexer.apply([Delta::Added(colour("a/x", "1", json!(["red", "blue"])))], None);
    indexer.apply([Delta::Added(colour("a/w", "1", json!(["red"])))], None);
    red(&["a/w", "a/x"]);
    indexer.apply([Delta::Updated(colour("a/x", "2", json!(["blue", "green"])))], None);
    red(&["a/w"]);
    assert_eq!(texts(indexer.index_values("colour").unwrap()), ["blue", "green", "red"]);
    indexer.apply([Delta::Deleted(colour("a/x", "3", json!([])))], None);
    red(&["a/w"]);
}

#[test]
fn an_update_of_the_values_in_one_index_keeps_those_in_the_others() {
    let indexer = filled([]);
    let shapes = IndexFn::path("/data/shapes/[*]".parse().unwrap());
    indexer.add_indexer("colour", by_colour()).unwrap();
    indexer.add_indexer("shape", shapes).unwrap();
    let both = |version: &str, colour: &str, shape: &str| {
        let data = json!({"data": {"colours": [colour], "shapes": [shape]}});
        indexer.apply([Delta::Updated(with("a/x", version, data))], None);
        let found = [("colour", colour), ("shape", shape)]
            .map(|(index, value)| keys(indexer.by_index(index, value).unwrap()));
        assert_eq!(found, [["a/x"], ["a/x"]], "{version}");
        indexer.check();
    };
    both("1", "red", "round");
    both("2", "blue", "round");
    both("3", "blue", "square");
}

#[test]
fn values_that_nobody_has_any_more_are_removed() {
    let indexer = filled([colour("a/x", "1", json!(["red"]))]);
    indexer.add_indexer("colour", by_colour()).unwrap();
    indexer.apply([Delta::Deleted(colour("a/x", "2", json!(["red"])))], None);
    assert!(indexer.index_values("colour").unwrap().is_empty());
    assert!(indexer.index_values(NAMESPACE_INDEX).unwrap().is_empty());
}

#[test]
fn an_index_added_to_a_full_store_has_everything_that_is_there() {
    // More than one chunk, with holes.
    let indexer = filled((0..2000).map(|i| colour(&format!("a/x{i}"), "1", json!([format!("c{}", i % 7)]))));
    indexer.apply((0..500).map(|i| Delta::Deleted(config_map(&format!("a/x{}", i * 2), "2"))), None);
    indexer.add_indexer("colour", by_colour()).unwrap();
    let total: usize = (0..7).map(|c| indexer.by_index("colour", &format!("c{c}")).unwrap().len()).sum();
    assert_eq!(total, 1500);
    indexer.check();
}

#[test]
fn an_index_whose_name_is_taken_is_refused_and_nothing_is_changed() {
    let indexer = filled([colour("a/x", "1", json!(["red"]))]);
    indexer.add_indexer("colour", by_colour()).unwrap();
    let other = IndexFn::label("app");
    assert_eq!(indexer.add_indexer("colour", other.clone()), Err(CacheError::IndexExists("colour".into())));
    assert_eq!(indexer.add_indexer("namespace", other), Err(CacheError::IndexExists("namespace".into())));
    assert_eq!(indexer.by_index("colour", "red").unwrap().len(), 1);
}

#[test]
fn while_an_index_is_built_writers_go_on_and_readers_of_it_are_refused() {
    let indexer = Arc::new(filled((0..600).map(|i| colour(&format!("a/x{i}"), "1", json!(["red"])))));
    let busy = indexer.clone();
    // The index function itself plays the other thread: it runs without the lock.
    let meddling = IndexFn::closure(move |object, found| {
        if object.resource_version() == "1" && object.name() == "x7" {
            assert_eq!(busy.by_index("c", "red").unwrap_err(), CacheError::IndexBuilding("c".into()));
            busy.apply([Delta::Updated(colour("a/x7", "2", json!(["blue"])))], None);
            busy.apply([Delta::Deleted(config_map("a/x8", "3"))], None);
            busy.apply([Delta::Updated(colour("a/x9", "3", json!([])))], None);
            busy.apply([Delta::Added(colour("a/new", "4", json!(["blue"])))], None);
        }
        object.select(&"/data/colours/[*]".parse().unwrap(), |raw| found(raw.trim_matches('"')));
    });
    indexer.add_indexer("c", meddling).unwrap();
    assert_eq!(keys(indexer.by_index("c", "blue").unwrap()), ["a/new", "a/x7"]);
    assert_eq!(indexer.by_index("c", "red").unwrap().len(), 597);
    indexer.check();
}

#[test]
fn a_removed_index_is_gone_and_its_name_is_free() {
    let indexer = filled((0..1200).map(|i| colour(&format!("a/x{i}"), "1", json!(["red"]))));
    indexer.add_indexer("colour", by_colour()).unwrap();
    assert!(indexer.remove_indexer("colour") && !indexer.remove_indexer("colour"));
    assert!(indexer.by_index("colour", "red").is_err());
    indexer.check();
    indexer.add_indexer("colour", by_colour()).unwrap();
    assert_eq!(indexer.by_index("colour", "red").unwrap().len(), 1200);
}

#[test]
fn a_batch_tells_what_each_delta_turned_out_to_be() {
    let indexer = filled([config_map("a/x", "1")]);
    let unknown = Delta::DeletedFinalStateUnknown { key: "a/none".parse().unwrap(), object: None };
    let changes = indexer.apply(
        [
            Delta::Added(config_map("a/x", "2")),
            Delta::Updated(config_map("a/y", "3")),
            Delta::Deleted(config_map("a/y", "4")),
            Delta::Deleted(config_map("a/none", "5")),
            unknown,
            Delta::Sync("a/none".parse().unwrap()),
            Delta::Sync("a/x".parse().unwrap()),
            Delta::DeletedFinalStateUnknown { key: "a/x".parse().unwrap(), object: None },
        ],
        Some("5"),
    );
    let text: Vec<_> = changes.iter().map(describe).collect();
    assert_eq!(text, ["upd a/x 1>2", "add a/y 3", "del a/y 4", "upd a/x 2>2", "del? a/x 2"]);
    assert_eq!(&*indexer.resource_version(), "5");
}

#[test]
fn another_uid_under_the_same_key_is_a_delete_and_an_add() {
    let indexer = filled([config_map("a/x", "1"), config_map("a/y", "1")]);
    let reborn = |key: &str, version| object(&config_maps().gvk, key, "another", version, json!({}));
    let changes = indexer.apply([Delta::Updated(reborn("a/x", "2"))], None);
    assert_eq!(changes.iter().map(describe).collect::<Vec<_>>(), ["del? a/x 1", "add a/x 2"]);
    let changes = indexer.replace(vec![reborn("a/x", "2"), reborn("a/y", "3")], None, true);
    assert_eq!(changes.iter().map(describe).collect::<Vec<_>>(), ["upd a/x 2>2", "del? a/y 1", "add a/y 3"]);
}

#[test]
fn a_list_deletes_first_then_follows_its_order_and_keeps_what_did_not_change() {
    let indexer = filled([config_map("a/1", "1"), config_map("a/2", "1"), config_map("a/3", "1")]);
    let held = indexer.get_by_key("a/3").unwrap();
    let list = || vec![config_map("a/4", "5"), config_map("a/3", "1"), config_map("a/2", "4")];
    let changes = indexer.replace(list(), Some("9"), false);
    assert_eq!(changes.iter().map(describe).collect::<Vec<_>>(), ["del? a/1 1", "add a/4 5", "upd a/2 1>4"]);
    assert!(std::ptr::eq(held.bytes(), indexer.get_by_key("a/3").unwrap().bytes()));
    assert_eq!(&*indexer.resource_version(), "9");
    let changes = indexer.replace(list(), Some("9"), true);
    assert_eq!(
        changes.iter().map(describe).collect::<Vec<_>>(),
        ["upd a/4 5>5", "upd a/3 1>1", "upd a/2 4>4"]
    );
    indexer.check();
}

#[test]
fn an_object_may_have_a_hundred_thousand_values_of_an_index_and_change_all_of_them() {
    let indexer = Indexer::new(true);
    let words = IndexFn::path("/data/words".parse().unwrap()).split(",");
    indexer.add_indexer("word", words).unwrap();
    let text = |from: u32| (from..from + 100_000).map(|n| format!("w{n}")).collect::<Vec<_>>().join(",");
    let object = |version: &str, from| with("a/x", version, json!({"data": {"words": text(from)}}));
    indexer.add(object("1", 0));
    assert_eq!(indexer.index_values("word").unwrap().len(), 100_000);
    indexer.add(object("2", 50_000));
    let values = indexer.index_values("word").unwrap();
    assert_eq!((values.len(), &*values[0]), (100_000, "w100000"));
    assert!(indexer.by_index("word", "w49999").unwrap().is_empty());
    assert_eq!(indexer.by_index("word", "w50000").unwrap().len(), 1);
    indexer.check();
}

#[test]
fn values_that_repeat_are_taken_once_whatever_their_number() {
    let index = IndexFn::path("/data/words".parse().unwrap()).split(",");
    for count in [1, 15, 16, 17, 40] {
        let once: Vec<String> = (0..count).map(|n| format!("w{n}")).collect();
        let twice = format!("{0},{0}", once.join(","));
        let values = index.values(&with("a/x", "1", json!({"data": {"words": twice}})));
        assert_eq!(texts(values), once);
    }
}

#[test]
fn the_tables_shrink_after_most_objects_were_deleted_and_indexes_stay_right() {
    for by_list in [false, true] {
        let indexer = filled(
            (0..20_000).map(|n| colour(&format!("n{}/x{n}", n % 50), "1", json!([n.to_string(), "all"]))),
        );
        indexer.add_indexer("colour", by_colour()).unwrap();
        let held = indexer.snapshot();
        let stays = |n: u32| n % 1000 == 7;
        if by_list {
            let list = (0..20_000).filter(|n| stays(*n));
            let list = list.map(|n| colour(&format!("n{}/x{n}", n % 50), "1", json!([n.to_string(), "all"])));
            indexer.replace(list.collect(), Some("2"), false);
        } else {
            let gone = (0..20_000).filter(|n| !stays(*n)).map(|n| {
                let key: ObjectKey = format!("n{}/x{n}", n % 50).parse().unwrap();
                Delta::DeletedFinalStateUnknown { key, object: None }
            });
            indexer.apply(gone.collect::<Vec<_>>(), None);
        }
        assert_eq!(indexer.len(), 20);
        assert!(indexer.slots() < 1024, "{} slots", indexer.slots());
        indexer.check();
        assert_eq!(indexer.by_index("colour", "all").unwrap().len(), 20);
        assert_eq!(keys(indexer.by_index("colour", "3007").unwrap()), ["n7/x3007"]);
        assert_eq!(indexer.list_namespace("n7").len(), 20);
        assert_eq!((held.len(), held.objects().count()), (20_000, 20_000), "a snapshot stays");
        indexer.add(colour("n0/new", "3", json!(["all"])));
        assert_eq!(indexer.by_index("colour", "all").unwrap().len(), 21);
        indexer.check();
    }
}

#[test]
fn a_lister_selects_by_namespace_and_label_and_knows_absence() {
    let labelled = |key: &str, app: &str| with(key, "1", json!({"metadata": {"labels": {"app": app}}}));
    let indexer = Arc::new(filled([labelled("a/x", "web"), labelled("a/y", "db"), labelled("b/z", "web")]));
    let lister = Lister::new(indexer);
    let web = "app=web".parse().unwrap();
    assert_eq!(keys(lister.list(&web)), ["a/x", "b/z"]);
    assert_eq!(lister.list(&"".parse().unwrap()).len(), 3);
    assert_eq!(keys(lister.namespace("a").list(&web)), ["a/x"]);
    assert!(lister.namespace("a").get("z").is_err() && lister.namespace("b").get("z").is_ok());
    assert!(lister.get(&"a/none".parse().unwrap()).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_reader_waits_until_its_write_is_seen_and_a_later_event_or_bookmark_counts() {
    let indexer = Arc::new(filled([]));
    let seen = |version: &'static str| {
        let indexer = indexer.clone();
        tokio::spawn(async move { indexer.wait_until_seen(version).await })
    };
    let (early, bookmark, event) = (seen("1"), seen("5"), seen("7"));
    early.await.unwrap();
    assert!(!indexer.has_seen("5"));
    indexer.bookmark("6");
    bookmark.await.unwrap();
    assert!(!event.is_finished());
    indexer.apply([Delta::Added(config_map("a/x", "8"))], Some("8"));
    event.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reader_waits_until_an_object_is_gone_or_another_one() {
    let indexer = Arc::new(filled([config_map("a/x", "1"), config_map("a/y", "1")]));
    let gone = |key: &'static str| {
        let indexer = indexer.clone();
        tokio::spawn(async move {
            indexer.wait_until_gone(&key.parse().unwrap(), &format!("uid-of-{key}")).await;
        })
    };
    let (deleted, reborn) = (gone("a/x"), gone("a/y"));
    tokio::task::yield_now().await;
    indexer.apply([Delta::Updated(config_map("a/x", "2"))], None);
    tokio::task::yield_now().await;
    assert!(!deleted.is_finished());
    indexer.apply([Delta::Deleted(config_map("a/x", "3"))], None);
    deleted.await.unwrap();
    assert!(!reborn.is_finished());
    indexer.apply([Delta::Updated(object(&config_maps().gvk, "a/y", "another", "4", json!({})))], None);
    reborn.await.unwrap();
}

fn describe(change: &Change) -> String {
    match change {
        Change::Added(object) => format!("add {} {}", object.key(), object.resource_version()),
        Change::Updated { old, new } => {
            format!("upd {} {}>{}", new.key(), old.resource_version(), new.resource_version())
        }
        Change::Deleted { key, object, final_state_unknown } => {
            let version = object.as_ref().map_or("-", |object| object.resource_version());
            format!("del{} {key} {version}", if *final_state_unknown { "?" } else { "" })
        }
    }
}
