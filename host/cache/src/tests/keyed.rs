//! §1.5, beside the store: `ExpirationCache`, `UndeltaStore`, `MutationCache`.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_object::{Object, ObjectKey};
use serde_json::json;
use tokio::time::sleep;

use crate::testing::{config_map, config_maps, object};
use crate::{
    CacheError, Delta, ExpirationCache, IndexFn, Indexer, MutationCache, NAMESPACE_INDEX, UndeltaStore,
};

type Item = (&'static str, u32);

const TTL: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn an_expired_entry_is_not_handed_out_and_removed_when_it_is_read() {
    let cache = ExpirationCache::with_ttl(|item: &Item| item.0, TTL);
    cache.add(("a", 1));
    cache.add(("b", 1));
    sleep(TTL).await;
    cache.add(("b", 2));
    assert_eq!(cache.get_by_key(&"a"), Some(("a", 1)));
    sleep(Duration::from_millis(1)).await;
    assert_eq!(cache.list_keys().len(), 2, "nothing runs in the background");
    assert_eq!((cache.get(&("a", 0)), cache.get(&("b", 0))), (None, Some(("b", 2))));
    assert_eq!(cache.list_keys(), ["b"]);
    sleep(TTL).await;
    assert_eq!((cache.list(), cache.list_keys()), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_is_put_in_again_is_new_and_a_list_is_as_of_its_time() {
    let cache = ExpirationCache::with_ttl(|item: &Item| item.0, TTL);
    cache.add(("a", 1));
    sleep(TTL).await;
    cache.add(("a", 2));
    sleep(TTL).await;
    assert_eq!(cache.get_by_key(&"a"), Some(("a", 2)));
    cache.replace([("b", 1), ("c", 1)]);
    sleep(TTL).await;
    cache.delete(&("b", 0));
    assert_eq!(cache.list(), [("c", 1)]);
}

#[test]
fn a_policy_sees_the_item() {
    let cache = ExpirationCache::with_policy(|item: &Item| item.0, |item, _| item.1 == 0);
    cache.replace([("a", 0), ("b", 1)]);
    assert_eq!(cache.list(), [("b", 1)]);
}

#[test]
fn an_undelta_store_pushes_the_full_list_after_each_mutation() {
    let pushed: Arc<Mutex<Vec<Vec<Item>>>> = Arc::default();
    let store = UndeltaStore::new(|item: &Item| item.0, {
        let pushed = pushed.clone();
        move |mut list: Vec<Item>| {
            list.sort_unstable();
            pushed.lock().push(list);
        }
    });
    store.add(("a", 1));
    store.add(("b", 1));
    store.add(("a", 2));
    store.delete(&("b", 0));
    store.replace([("c", 1), ("d", 1)]);
    store.delete(&("none", 0));
    let all = vec![("c", 1), ("d", 1)];
    let wanted = [
        vec![("a", 1)],
        vec![("a", 1), ("b", 1)],
        vec![("a", 2), ("b", 1)],
        vec![("a", 2)],
        all.clone(),
        all,
    ];
    assert_eq!(*pushed.lock(), wanted);
    assert_eq!((store.get_by_key(&"c"), store.list().len(), store.list_keys().len()), (Some(("c", 1)), 2, 2));
}

fn store(objects: &[Object]) -> Arc<Indexer> {
    let indexer = Arc::new(Indexer::new(true));
    indexer.apply(objects.iter().cloned().map(Delta::Added), None);
    indexer
}

fn key(text: &str) -> ObjectKey {
    text.parse().unwrap()
}

fn version(object: Option<Object>) -> Option<String> {
    object.map(|object| object.resource_version().to_owned())
}

fn cache(indexer: &Arc<Indexer>, include_adds: bool) -> MutationCache {
    MutationCache::new(indexer.clone(), MutationCache::DEFAULT_TTL, include_adds)
}

fn colored(text: &str, version: &str, color: &str) -> Object {
    let body = json!({"metadata": {"labels": {"color": color}}});
    object(&config_maps().gvk, text, &format!("uid-of-{text}"), version, body)
}

#[tokio::test(start_paused = true)]
async fn the_newer_of_the_store_and_the_mutation_wins_by_the_integer_order_of_versions() {
    let indexer = store(&[config_map("a/x", "9")]);
    let cache = cache(&indexer, false);
    cache.mutation(config_map("a/x", "10"));
    assert_eq!(version(cache.get_by_key(&key("a/x"))).as_deref(), Some("10"));
    indexer.apply([Delta::Updated(config_map("a/x", "11"))], None);
    assert_eq!(version(cache.get_by_key(&key("a/x"))).as_deref(), Some("11"));
    assert!(cache.len() == 0, "what the store has caught up with is dropped");
}

#[tokio::test(start_paused = true)]
async fn a_newer_mutation_is_never_replaced_by_an_older_one() {
    let indexer = store(&[config_map("a/x", "1")]);
    let cache = cache(&indexer, false);
    cache.mutation(config_map("a/x", "10"));
    cache.mutation(config_map("a/x", "9"));
    assert_eq!(version(cache.get_by_key(&key("a/x"))).as_deref(), Some("10"));
}

#[tokio::test(start_paused = true)]
async fn versions_that_cannot_be_ordered_leave_the_store_right() {
    let indexer = store(&[config_map("a/x", "abc")]);
    let cache = cache(&indexer, true);
    cache.mutation(config_map("a/x", "abd"));
    assert_eq!(version(cache.get_by_key(&key("a/x"))).as_deref(), Some("abc"));
}

#[tokio::test(start_paused = true)]
async fn adds_are_found_only_when_asked_for_and_until_the_store_knows_better() {
    let indexer = store(&[]);
    let (with, without) = (cache(&indexer, true), cache(&indexer, false));
    for cache in [&with, &without] {
        cache.mutation(config_map("a/new", "5"));
    }
    assert_eq!(version(without.get_by_key(&key("a/new"))), None);
    assert_eq!(version(with.get_by_key(&key("a/new"))).as_deref(), Some("5"));
    assert_eq!(with.by_index(NAMESPACE_INDEX, "a").unwrap().len(), 1);
    assert_eq!(without.by_index(NAMESPACE_INDEX, "a").unwrap().len(), 0);
    // It was created and deleted again: the store is past both and does not have it.
    indexer.bookmark("7");
    assert_eq!(version(with.get_by_key(&key("a/new"))), None);
}

#[tokio::test(start_paused = true)]
async fn an_entry_counts_for_its_ttl_and_the_least_recently_used_goes_first() {
    let indexer = store(&[config_map("a/x", "1"), config_map("a/y", "1")]);
    let small = cache(&indexer, false);
    small.mutation(config_map("a/x", "2"));
    small.mutation(config_map("a/y", "2"));
    assert_eq!(version(small.get_by_key(&key("a/x"))).as_deref(), Some("2"));
    (0..99).for_each(|n| small.mutation(config_map(&format!("a/{n}"), "2")));
    assert_eq!(version(small.get_by_key(&key("a/y"))).as_deref(), Some("1"), "it was used before a/x");
    assert_eq!((version(small.get_by_key(&key("a/x"))).as_deref(), small.len()), (Some("2"), 100));
    sleep(Duration::from_secs(300)).await;
    assert_eq!(version(small.get_by_key(&key("a/x"))).as_deref(), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn what_the_user_deleted_stays_gone_until_there_is_another_one() {
    let old = config_map("a/x", "1");
    let indexer = store(std::slice::from_ref(&old));
    let cache = cache(&indexer, true);
    cache.deleted(old.key(), old.uid());
    assert_eq!(version(cache.get_by_key(old.key())), None);
    assert!(cache.by_index(NAMESPACE_INDEX, "a").unwrap().is_empty());
    // The store, and an answer that was late, are behind the deletion.
    indexer.apply([Delta::Updated(config_map("a/x", "2"))], None);
    cache.mutation(config_map("a/x", "3"));
    assert_eq!(version(cache.get_by_key(old.key())), None);
    let another = object(&config_maps().gvk, "a/x", "another", "5", json!({}));
    indexer.apply([Delta::Updated(another)], None);
    assert_eq!(version(cache.get_by_key(old.key())).as_deref(), Some("5"));
    assert!(cache.len() == 0);
}

#[tokio::test(start_paused = true)]
async fn an_index_shows_the_newest_states() {
    let indexer = store(&[colored("a/x", "1", "red"), colored("a/y", "1", "blue")]);
    indexer.add_indexer("color", IndexFn::label("color")).unwrap();
    let cache = cache(&indexer, true);
    cache.mutation(colored("a/x", "2", "blue"));
    cache.mutation(colored("a/z", "2", "blue"));
    let keys = |color: &str| {
        let found = cache.by_index("color", color).unwrap();
        let mut keys: Vec<_> = found.iter().map(|object| object.key().to_string()).collect();
        keys.sort_unstable();
        keys
    };
    assert_eq!((keys("red"), keys("blue")), (vec![], vec!["a/x".into(), "a/y".into(), "a/z".to_owned()]));
    assert!(matches!(cache.by_index("size", "1"), Err(CacheError::UnknownIndex { .. })));
}
