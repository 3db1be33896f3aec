//! The rules of [`Writes`], on stores without informers and on a paused clock.

use std::time::Duration;

use pilothouse_cache::Delta;
use pilothouse_object::{Gvk, Gvr, Object};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn pods() -> ApiResource {
    ApiResource::new(Gvk::new("", "v1", "Pod"), "pods", true)
}

fn id(resource: &str, namespace: Option<&str>) -> InformerId {
    InformerId::new(Gvr::new("", "v1", resource), namespace)
}

fn pod(uid: &str, version: &str) -> Object {
    let json = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p","namespace":"a","uid":"{uid}","resourceVersion":"{version}"}}}}"#
    );
    Object::decode(json.as_bytes()).unwrap()
}

/// Notes that a pod was changed.
fn note(writes: &Writes, pod: &str, version: &str) {
    let key: ObjectKey = pod.parse().unwrap();
    writes.note(&pods(), key.namespace(), key.name(), Written::Version(version));
}

/// A plugin that watches pods everywhere, and what its cache shows.
struct Plugin {
    writes: Arc<Writes>,
    id: InformerId,
    cache: Arc<Indexer>,
}

impl Plugin {
    fn new() -> Self {
        let plugin =
            Self { writes: Arc::default(), id: id("pods", None), cache: Arc::new(Indexer::new(true)) };
        plugin.writes.watch([plugin.id.clone()]);
        plugin.cache.bookmark("10");
        plugin
    }

    fn write(&self, version: &str) {
        note(&self.writes, "a/p", version);
    }

    fn delete(&self, object: &Object) {
        let gone = Written::Gone { key: object.key(), uid: object.uid(), version: "" };
        self.writes.note(&pods(), Some("a"), "p", gone);
    }

    async fn wait_for(&self, scope: WaitScope, time: Duration) -> WaitOutcome {
        self.writes.wait(std::iter::once((&self.id, &self.cache)), scope, Instant::now() + time).await
    }

    /// As before a reconcile; how it ended, and after how long.
    async fn wait(&self) -> (WaitOutcome, Duration) {
        let began = Instant::now();
        (self.wait_for(WaitScope::Fresh, SECOND).await, began.elapsed())
    }

    /// A reconcile that begins now, and one that changes the cache in a while.
    async fn wait_while(&self, change: impl FnOnce(&Indexer)) -> (WaitOutcome, Duration) {
        let change = async {
            tokio::time::sleep(SECOND / 4).await;
            change(&self.cache);
        };
        tokio::join!(self.wait(), change).0
    }
}

const AFTER_CHANGE: (WaitOutcome, Duration) = (WaitOutcome::Seen, Duration::from_millis(250));

#[tokio::test(start_paused = true)]
async fn nothing_is_waited_for_when_nothing_was_written() {
    let plugin = Plugin::new();
    assert!(!plugin.writes.may_be_unmet());
    assert_eq!(plugin.wait().await, (WaitOutcome::NotNeeded, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn any_later_event_or_bookmark_of_the_kind_counts() {
    let plugin = Plugin::new();
    plugin.write("11");
    assert!(plugin.writes.may_be_unmet());
    assert_eq!(plugin.wait_while(|cache| cache.bookmark("12")).await, AFTER_CHANGE);
    plugin.write("15");
    let other = |cache: &Indexer| drop(cache.apply([Delta::Added(pod("other", "16"))], Some("16")));
    assert_eq!(plugin.wait_while(other).await, AFTER_CHANGE);
    // Once met, a reconcile finds out by looking once, and the next looks no more.
    assert_eq!(plugin.wait().await.0, WaitOutcome::NotNeeded);
    assert!(!plugin.writes.may_be_unmet());
}

#[tokio::test(start_paused = true)]
async fn what_the_cache_shows_already_is_not_waited_for() {
    let plugin = Plugin::new();
    plugin.write("9");
    assert_eq!(plugin.wait().await, (WaitOutcome::NotNeeded, Duration::ZERO));
    assert!(!plugin.writes.may_be_unmet());
}

#[tokio::test(start_paused = true)]
async fn an_older_write_never_takes_the_place_of_a_newer_one() {
    let plugin = Plugin::new();
    plugin.write("100");
    plugin.write("99");
    let both = |cache: &Indexer| {
        cache.bookmark("99");
    };
    assert_eq!(plugin.wait_while(both).await.0, WaitOutcome::TimedOut);
    plugin.cache.bookmark("100");
    assert_eq!(plugin.wait_for(WaitScope::All, SECOND).await, WaitOutcome::NotNeeded);
}

#[tokio::test(start_paused = true)]
async fn a_delete_is_met_by_the_keys_absence_or_by_another_uid() {
    let plugin = Plugin::new();
    let object = pod("u1", "11");
    plugin.cache.apply([Delta::Added(object.clone())], Some("11"));
    plugin.delete(&object);
    let gone = |cache: &Indexer| drop(cache.apply([Delta::Deleted(pod("u1", "12"))], Some("12")));
    assert_eq!(plugin.wait_while(gone).await, AFTER_CHANGE);

    plugin.cache.apply([Delta::Added(object.clone())], Some("13"));
    plugin.delete(&object);
    // A later version alone says nothing of it here: the object is still shown.
    let replaced = |cache: &Indexer| {
        cache.bookmark("14");
        cache.apply([Delta::Updated(pod("u2", "15"))], Some("15"));
    };
    assert_eq!(plugin.wait_while(replaced).await, AFTER_CHANGE);
    assert_eq!(plugin.wait().await.0, WaitOutcome::NotNeeded);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_still_to_come_is_not_taken_for_gone() {
    let plugin = Plugin::new();
    plugin.write("11");
    plugin.delete(&pod("u1", "11"));
    let comes = |cache: &Indexer| drop(cache.apply([Delta::Added(pod("u1", "11"))], Some("11")));
    assert_eq!(plugin.wait_while(comes).await.0, WaitOutcome::TimedOut);
    plugin.cache.apply([Delta::Deleted(pod("u1", "12"))], Some("12"));
    assert_eq!(plugin.wait_for(WaitScope::All, SECOND).await, WaitOutcome::NotNeeded);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_after_a_second_and_is_not_done_again_for_the_same_write() {
    let plugin = Plugin::new();
    plugin.write("11");
    assert_eq!(plugin.wait().await, (WaitOutcome::TimedOut, SECOND));
    assert_eq!(plugin.wait().await, (WaitOutcome::NotNeeded, Duration::ZERO));
    assert!(!plugin.writes.may_be_unmet(), "a silent watch costs every reconcile a look");
    // A guest that asks is told the truth.
    assert_eq!(plugin.wait_for(WaitScope::All, SECOND).await, WaitOutcome::TimedOut);
    plugin.write("12");
    assert_eq!(plugin.wait().await, (WaitOutcome::TimedOut, SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_asks_for_a_moment_takes_nothing_from_the_next_reconcile() {
    let plugin = Plugin::new();
    plugin.write("11");
    assert_eq!(plugin.wait_for(WaitScope::All, Duration::ZERO).await, WaitOutcome::TimedOut);
    assert_eq!(plugin.wait_while(|cache| cache.bookmark("11")).await, AFTER_CHANGE);
}

#[tokio::test(start_paused = true)]
async fn a_worker_of_the_generation_before_does_not_hide_what_the_next_must_wait_for() {
    let plugin = Plugin::new();
    let next = Plugin { writes: Arc::clone(&plugin.writes), id: id("pods", Some("a")), ..Plugin::new() };
    plugin.writes.watch([next.id.clone()]);
    plugin.write("11");
    plugin.writes.watch_only(&[&next.id]);
    assert_eq!(plugin.wait().await.0, WaitOutcome::NotNeeded);
    assert!(plugin.writes.may_be_unmet());
    assert_eq!(next.wait().await.0, WaitOutcome::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn writes_that_come_during_a_wait_do_not_make_it_longer_and_are_waited_for_next() {
    let plugin = Plugin::new();
    plugin.write("11");
    let writes = Arc::clone(&plugin.writes);
    let busy = |cache: &Indexer| {
        note(&writes, "a/p", "20");
        cache.bookmark("11");
    };
    assert_eq!(plugin.wait_while(busy).await, AFTER_CHANGE);
    assert!(plugin.writes.may_be_unmet());
    assert_eq!(plugin.wait_while(|cache| cache.bookmark("20")).await, AFTER_CHANGE);
}

#[tokio::test(start_paused = true)]
async fn a_write_during_a_wait_in_vain_is_not_given_up_with_it() {
    let plugin = Plugin::new();
    plugin.write("11");
    let later = pod("u1", "12");
    plugin.cache.apply([Delta::Added(later.clone())], None);
    let (ended, ()) = tokio::join!(plugin.wait(), async {
        tokio::time::sleep(SECOND / 2).await;
        plugin.delete(&later);
    });
    assert_eq!(ended.0, WaitOutcome::TimedOut);
    assert_eq!(plugin.wait().await, (WaitOutcome::TimedOut, SECOND));
}

#[tokio::test(start_paused = true)]
async fn only_writes_that_an_informer_shows_are_noted() {
    let writes = Writes::default();
    writes.watch([id("pods", Some("a")), id("secrets", None)]);
    note(&writes, "b/p", "11");
    assert!(!writes.may_be_unmet());
    // One resource in another API version is the same objects.
    let mut newer = pods();
    newer.gvk.version = "v2".to_owned();
    writes.note(&newer, Some("a"), "p", Written::Version("11"));
    assert!(writes.may_be_unmet());
    // One of a single name never shows another one.
    let writes = Writes::default();
    writes.watch([InformerId { name: Some("q".to_owned()), ..id("pods", None) }]);
    note(&writes, "a/p", "11");
    assert!(!writes.may_be_unmet());
    note(&writes, "a/q", "11");
    assert!(writes.may_be_unmet());
}

#[tokio::test(start_paused = true)]
async fn an_informer_of_the_next_generation_is_waited_for_too() {
    let plugin = Plugin::new();
    plugin.write("11");
    plugin.cache.bookmark("11");
    assert_eq!(plugin.wait().await.0, WaitOutcome::NotNeeded);
    let narrow = Plugin { writes: Arc::clone(&plugin.writes), id: id("pods", Some("a")), ..Plugin::new() };
    narrow.writes.watch([narrow.id.clone()]);
    narrow.write("12");
    plugin.cache.bookmark("12");
    assert_eq!(plugin.wait().await.0, WaitOutcome::NotNeeded);
    narrow.writes.watch_only(&[&narrow.id]);
    assert_eq!(narrow.wait_while(|cache| cache.bookmark("12")).await, AFTER_CHANGE);
    assert_eq!(narrow.writes.notes.lock().0.len(), 1, "the informer of the generation before is forgotten");
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_is_bounded() {
    let plugin = Plugin::new();
    for number in 0..1000 {
        let object = pod(&number.to_string(), "5");
        plugin.write(&number.to_string());
        plugin.delete(&object);
    }
    let mut notes = plugin.writes.notes.lock();
    let count = notes.0.len();
    let note = notes.get_mut(&plugin.id).unwrap();
    assert_eq!((count, note.deletes.len(), &*note.version), (1, MOST_DELETES, "999"));
    assert_eq!(&*note.deletes.back().unwrap().1, "999");
}
