//! §1.7 watchList and pitfalls 1 and 2: the streaming list, and when a list takes its place.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use parking_lot::Mutex;
use pilothouse_client::{ResourceVersionMatch, WatchEvent, WatchParams};
use pilothouse_object::{ListMeta, Object, Projection};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{Running, server, soon};
use crate::testing::{Call, FakeControllerSource, Recorder, Request, config_map, config_maps, errors};
use crate::{EventStream, FnListerWatcher, InformerOptions, ReflectorOptions, SharedInformer};

fn streaming() -> FakeControllerSource {
    let server = server();
    server.set_watch_lists(true);
    server
}

/// What the watches asked for: version and whether initial events.
fn asked(server: &FakeControllerSource) -> Vec<(String, bool)> {
    let watches = server.watches().into_iter();
    watches.map(|(_, p)| (p.resource_version.unwrap_or_default(), p.send_initial_events)).collect()
}

fn initial(version: &str) -> (String, bool) {
    (version.to_owned(), true)
}

fn plain(version: &str) -> (String, bool) {
    (version.to_owned(), false)
}

fn bookmark(version: &str, initial_events_end: bool) -> pilothouse_client::Result<WatchEvent> {
    Ok(WatchEvent::Bookmark { resource_version: version.to_owned(), initial_events_end })
}

fn added(key: &str, version: &str) -> pilothouse_client::Result<WatchEvent> {
    Ok(WatchEvent::Added(config_map(key, version)))
}

/// When requests came, and what they were.
type Log = Arc<Mutex<Vec<(Instant, &'static str)>>>;

/// An informer on a source that streams lists as `watch` says, told how many were asked for before; plain watches are
/// silent, and lists show one object.
fn scripted(
    watch: impl Fn(usize, &WatchParams) -> pilothouse_client::Result<EventStream> + Send + Sync + 'static,
) -> (Running, Log) {
    let log = Log::default();
    let (lists, watches) = (log.clone(), log.clone());
    let list = move |_: &_| {
        lists.lock().push((Instant::now(), "list"));
        let meta = ListMeta { resource_version: "7".to_owned(), ..ListMeta::default() };
        Ok((vec![config_map("a/listed", "7")], meta))
    };
    let watch = move |params: &WatchParams| {
        let mut log = watches.lock();
        let before = log.iter().filter(|(_, what)| *what == "watch-list").count();
        log.push((Instant::now(), if params.send_initial_events { "watch-list" } else { "watch" }));
        if params.send_initial_events { watch(before, params) } else { Ok(stream::pending().boxed()) }
    };
    let source = Arc::new(FnListerWatcher::new(list, watch).with_watch_list());
    let informer = SharedInformer::new(source, config_maps(), None, InformerOptions::default());
    (Running::of(informer), log)
}

fn what(log: &Log) -> Vec<&'static str> {
    log.lock().iter().map(|(_, what)| *what).collect()
}

#[tokio::test(start_paused = true)]
async fn the_initial_events_are_one_list_and_the_same_stream_goes_on_as_the_watch() {
    let server = streaming();
    server.create("a/x", json!({}));
    server.create("a/y", json!({}));
    let recorder = Recorder::new();
    let running = Running::on(&server);
    let _registration = running.informer.add_listener(recorder.clone(), None).unwrap();
    soon(running.informer.wait_synced()).await;
    assert_eq!(
        recorder.take(),
        [
            Call::Add("a/x".into(), "2".into(), true),
            Call::Add("a/y".into(), "3".into(), true),
            Call::InitialListEnd
        ]
    );
    server.update("a/x", json!({"data": {"k": "v"}}));
    running.caught_up(&server).await;
    assert_eq!(recorder.take(), [Call::Update("a/x".into(), "2".into(), "4".into(), false)]);
    assert_eq!(asked(&server), [initial("")]);
    assert!(server.list_versions().is_empty());
    // An end is no reason for another list.
    server.drop_watches();
    soon(server.wait_for_watches(2)).await;
    assert_eq!(asked(&server), [initial(""), plain("4")]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_next_streaming_list_is_from_the_last_version_and_from_none_when_that_is_lost() {
    let server = streaming();
    server.skip_versions(9);
    let running = Running::on(&server);
    soon(server.wait_for_watches(1)).await;
    server.break_watches(&errors::internal());
    soon(server.wait_for_watches(2)).await;
    for lost in [errors::expired()].into_iter().chain(errors::too_large_dialects()) {
        let before = server.watches().len();
        server.fail_watches([lost]);
        server.break_watches(&errors::internal());
        soon(server.wait_for_watches(before + 2)).await;
        let watches = asked(&server);
        assert_eq!(watches[before..], [initial("10"), initial("")]);
    }
    assert!(server.list_versions().is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_the_annotated_bookmark_ends_the_initial_events_and_deletions_count() {
    let (running, _) = scripted(|_, _| {
        let events = [
            added("a/x", "3"),
            added("a/y", "2"),
            bookmark("4", false),
            Ok(WatchEvent::Modified(config_map("a/y", "5"))),
            Ok(WatchEvent::Deleted(config_map("a/x", "6"))),
        ];
        let end = async {
            sleep(Duration::from_secs(30)).await;
            bookmark("6", true)
        };
        Ok(stream::iter(events).chain(stream::once(end)).chain(stream::pending()).boxed())
    });
    sleep(Duration::from_secs(29)).await;
    assert!(!running.informer.has_synced() && running.informer.indexer().is_empty());
    soon(running.informer.wait_synced()).await;
    let versions: Vec<_> =
        running.informer.indexer().list().iter().map(|o| o.resource_version().to_owned()).collect();
    assert_eq!(versions, ["5"]);
    assert_eq!(&*running.informer.indexer().resource_version(), "6");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_source_or_an_option_that_says_no_leads_to_lists() {
    let server = streaming();
    let running = Running::with(&server, ReflectorOptions { watch_list: false, ..Default::default() });
    soon(server.wait_for_watches(1)).await;
    assert_eq!((asked(&server), server.list_versions()), (vec![plain("1")], vec!["0".to_owned()]));
    running.stop().await;
    let server = super::server();
    let running = Running::on(&server);
    soon(server.wait_for_watches(1)).await;
    assert_eq!(asked(&server), [plain("1")]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_know_streaming_lists_is_listed_at_once_and_for_an_hour() {
    for refusal in [
        errors::status(422, "Invalid", "sendInitialEvents is forbidden"),
        errors::status(400, "BadRequest", "unknown parameter"),
    ] {
        let server = streaming();
        server.fail_watches([refusal]);
        let began = Instant::now();
        let running = Running::on(&server);
        soon(running.informer.wait_synced()).await;
        assert_eq!(began.elapsed(), Duration::ZERO, "it waited");
        soon(server.wait_for_watches(2)).await;
        assert_eq!(
            (asked(&server), server.list_versions()),
            (vec![initial(""), plain("1")], vec!["0".to_owned()])
        );
        sleep(Duration::from_secs(3000)).await;
        server.break_watches(&errors::internal());
        soon(server.wait_for_lists(2)).await;
        assert_eq!(
            asked(&server).iter().filter(|(_, initial)| *initial).count(),
            1,
            "it was forgotten too soon"
        );
        sleep(Duration::from_secs(601)).await;
        server.break_watches(&errors::internal());
        sleep(Duration::from_secs(120)).await;
        assert_eq!(server.list_versions().len(), 2);
        assert_eq!(asked(&server).last(), Some(&initial("1")), "it was never tried again");
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn any_other_error_leads_to_a_list_this_once() {
    for error in [errors::internal(), errors::forbidden()] {
        let server = streaming();
        server.fail_watches([error]);
        let running = Running::on(&server);
        soon(server.wait_for_watches(2)).await;
        assert_eq!(
            (asked(&server), server.list_versions()),
            (vec![initial(""), plain("1")], vec!["0".to_owned()])
        );
        server.break_watches(&errors::internal());
        soon(server.wait_for_watches(3)).await;
        assert_eq!(asked(&server)[2], initial("1"));
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_frame_in_the_initial_events_leads_to_a_list_and_leaves_nothing_behind() {
    let (running, log) =
        scripted(|_, _| Ok(stream::iter([added("a/x", "3"), Err(errors::internal())]).boxed()));
    soon(running.informer.wait_synced()).await;
    assert_eq!(running.informer.indexer().keys(), ["a/listed".parse().unwrap()]);
    tokio::task::yield_now().await;
    assert_eq!(what(&log)[..2], ["watch-list", "list"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_decoded_before_the_bookmark_leads_to_a_list() {
    let bad =
        || Err(pilothouse_client::Error::Event { doing: "watch".to_owned(), message: "no name".to_owned() });
    let (running, log) = scripted(move |_, _| {
        Ok(stream::iter([added("a/x", "3"), bad(), bookmark("5", true)]).chain(stream::pending()).boxed())
    });
    soon(running.informer.wait_synced()).await;
    assert_eq!(running.informer.indexer().keys(), ["a/listed".parse().unwrap()]);
    assert_eq!(what(&log)[..2], ["watch-list", "list"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_or_busy_is_asked_again_without_a_list() {
    let server = streaming();
    server.fail_watches([errors::too_many_requests(Some(20)), errors::connection_refused()]);
    let began = Instant::now();
    let running = Running::on(&server);
    soon(running.informer.wait_synced()).await;
    assert!(began.elapsed() >= Duration::from_secs(20));
    assert_eq!(asked(&server), [initial(""), initial(""), initial("")]);
    assert!(server.list_versions().is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_that_does_not_come_for_a_minute_leads_to_lists_for_an_hour() {
    let (running, log) = scripted(|_, _| {
        // Ordinary events and bookmarks are no progress.
        let busy = stream::unfold(10_u64, async |version| {
            sleep(Duration::from_secs(20)).await;
            let event = match version % 2 {
                0 => bookmark(&version.to_string(), false),
                _ => Ok(WatchEvent::Modified(config_map("a/x", &version.to_string()))),
            };
            Some((event, version + 1))
        });
        Ok(stream::iter([added("a/x", "3")]).chain(busy).boxed())
    });
    let began = Instant::now();
    soon(running.informer.wait_synced()).await;
    let took = began.elapsed().as_secs();
    assert!((60..=90).contains(&took), "{took}");
    assert_eq!(running.informer.indexer().keys(), ["a/listed".parse().unwrap()]);
    running.informer.relist();
    sleep(Duration::from_secs(10)).await;
    assert_eq!(what(&log), ["watch-list", "list", "watch", "list", "watch"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn initial_events_that_keep_coming_are_waited_for() {
    let (running, log) = scripted(|_, _| {
        let slow = stream::unfold(0_u32, async |number| {
            sleep(Duration::from_secs(50)).await;
            let event = if number < 5 { added(&format!("a/x{number}"), "3") } else { bookmark("9", true) };
            (number < 6).then_some((event, number + 1))
        });
        Ok(slow.chain(stream::pending()).boxed())
    });
    soon(running.informer.wait_synced()).await;
    assert_eq!(running.informer.indexer().len(), 5);
    assert_eq!(what(&log), ["watch-list"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn initial_events_that_never_end_are_given_up_after_five_minutes_for_lists_for_an_hour() {
    let (running, log) = scripted(|_, _| {
        // Each a new key, long before patience is lost; a bookmark between them is not the one.
        let endless = stream::unfold(10_u64, async |version| {
            sleep(Duration::from_secs(7)).await;
            let event = match version % 2 {
                0 => added(&format!("a/x{version}"), &version.to_string()),
                _ => bookmark(&version.to_string(), false),
            };
            Some((event, version + 1))
        });
        Ok(endless.boxed())
    });
    let began = Instant::now();
    soon(running.informer.wait_synced()).await;
    assert_eq!(began.elapsed().as_secs(), 300);
    assert_eq!(running.informer.indexer().keys(), ["a/listed".parse().unwrap()]);
    running.informer.relist();
    sleep(Duration::from_secs(10)).await;
    assert_eq!(what(&log), ["watch-list", "list", "watch", "list", "watch"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn three_watches_in_a_row_that_end_before_the_bookmark_lead_to_lists_for_an_hour() {
    for broken in [false, true] {
        let (running, log) = scripted(move |_, _| {
            let end = async move {
                sleep(Duration::from_secs(5)).await;
                Err(errors::connection_reset())
            };
            let rest = if broken { stream::once(end).boxed() } else { stream::empty().boxed() };
            Ok(stream::iter([added("a/x", "3")]).chain(rest).boxed())
        });
        soon(running.informer.wait_synced()).await;
        assert_eq!(running.informer.indexer().keys(), ["a/listed".parse().unwrap()]);
        running.informer.relist();
        sleep(Duration::from_secs(10)).await;
        assert_eq!(what(&log), ["watch-list", "watch-list", "watch-list", "list", "watch", "list", "watch"]);
        let gaps: Vec<_> = log.lock().windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        assert!(gaps[0] >= Duration::from_millis(800) && gaps[1] >= Duration::from_millis(1600), "{gaps:?}");
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_round_that_succeeds_starts_the_count_of_rounds_over() {
    let (running, log) = scripted(|before, _| {
        let complete = before % 3 == 2;
        let end = if complete { vec![bookmark("9", true)] } else { Vec::new() };
        let rest = if complete { stream::pending().boxed() } else { stream::empty().boxed() };
        Ok(stream::iter([added("a/x", "3")]).chain(stream::iter(end)).chain(rest).boxed())
    });
    soon(running.informer.wait_synced()).await;
    running.informer.relist();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(what(&log), ["watch-list"; 6]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_within_a_second_without_an_event_leads_to_a_list() {
    let (running, log) = scripted(|_, _| Ok(stream::empty().boxed()));
    soon(running.informer.wait_synced()).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(what(&log), ["watch-list", "list", "watch"]);
    assert_eq!(running.informer.metrics().reflector_short_watches_total, 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_older_than_what_was_seen_is_not_taken_over() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = asked.clone();
    let (running, log) = scripted(move |before, params| {
        noted.lock().push(params.resource_version.clone().unwrap_or_default());
        let (key, version) = [("a/new", "20"), ("a/old", "10"), ("a/newest", "30")][before.min(2)];
        let events = [added(key, version), bookmark(version, true)];
        Ok(stream::iter(events).chain(stream::pending()).boxed())
    });
    soon(running.informer.wait_synced()).await;
    running.informer.relist();
    soon(running.informer.indexer().wait_until_seen("30")).await;
    assert_eq!(running.informer.indexer().keys(), ["a/newest".parse().unwrap()]);
    assert_eq!(*asked.lock(), ["", "20", ""]);
    assert_eq!(what(&log), ["watch-list"; 3]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_a_streaming_list_from_no_version_may_go_back_in_time() {
    let server = streaming();
    server.skip_versions(99);
    server.create("a/x", json!({}));
    let running = Running::on(&server);
    soon(running.informer.wait_synced()).await;
    let old: Vec<Object> = vec![config_map("a/old", "40")];
    server.restore(50, old);
    running.informer.relist();
    soon(async {
        while &*running.informer.indexer().resource_version() != "50" {
            sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    assert_eq!(running.informer.indexer().keys(), ["a/old".parse().unwrap()]);
    assert_eq!(asked(&server), [initial(""), initial("101"), initial("")]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_streaming_relist_keeps_the_objects_that_did_not_change() {
    let server = streaming();
    server.create("a/x", json!({}));
    let running = Running::on(&server);
    soon(running.informer.wait_synced()).await;
    let held = running.informer.indexer().get_by_key("a/x").unwrap();
    running.informer.relist();
    soon(server.wait_for_watches(2)).await;
    server.create("a/y", json!({}));
    running.caught_up(&server).await;
    assert!(std::ptr::eq(held.bytes(), running.informer.indexer().get_by_key("a/x").unwrap().bytes()));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn cancelling_ends_a_streaming_list_and_its_pauses_at_once() {
    let (running, _) = scripted(|_, _| Ok(stream::pending().boxed()));
    sleep(Duration::from_secs(1)).await;
    running.stop().await;
    let (running, _) = scripted(|_, _| Err(errors::too_many_requests(Some(100))));
    sleep(Duration::from_secs(1)).await;
    running.stop().await;
}

fn checking() -> ReflectorOptions {
    ReflectorOptions { check_watch_lists: true, ..ReflectorOptions::default() }
}

/// Streaming lists that were found to differ from a list.
fn inconsistencies(running: &Running) -> u64 {
    running.informer.metrics().reflector_inconsistent_watch_lists_total
}

#[tokio::test(start_paused = true)]
async fn a_checked_streaming_list_is_compared_with_a_list_of_exactly_its_version() {
    let server = streaming();
    server.create("a/x", json!({"data": {"k": "v"}}));
    let running = Running::with(&server, checking());
    soon(running.informer.wait_synced()).await;
    let lists = || {
        let exact = server.requests().into_iter().filter_map(|request| match request {
            Request::List { params, .. } => Some((params.resource_version, params.resource_version_match)),
            Request::Watch { .. } => None,
        });
        exact.collect::<Vec<_>>()
    };
    let exactly = |version: &str| (Some(version.to_owned()), Some(ResourceVersionMatch::Exact));
    assert_eq!(lists(), [exactly("2")]);
    server.update("a/x", json!({}));
    server.create("a/y", json!({}));
    running.caught_up(&server).await;
    running.informer.relist();
    soon(server.wait_for_lists(2)).await;
    // Later changes do not count.
    server.delete("a/y");
    running.caught_up(&server).await;
    assert_eq!((lists()[1..].to_vec(), inconsistencies(&running)), (vec![exactly("4")], 0));
    assert_eq!(running.informer.metrics().reflector_lists_total, 0, "the check counts as a list");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_lost_an_object_is_found_and_used_all_the_same() {
    let list = |_: &_| {
        let meta = ListMeta { resource_version: "7".to_owned(), ..ListMeta::default() };
        Ok((vec![config_map("a/x", "5"), config_map("a/lost", "6")], meta))
    };
    let watch = |_: &WatchParams| {
        let events = [added("a/x", "5"), bookmark("7", true)];
        Ok(stream::iter(events).chain(stream::pending()).boxed())
    };
    for (reflector, found) in [(checking(), 1), (ReflectorOptions::default(), 0)] {
        let source = Arc::new(FnListerWatcher::new(list, watch).with_watch_list());
        let options = InformerOptions { reflector, ..InformerOptions::default() };
        let running = Running::of(SharedInformer::new(source, config_maps(), None, options));
        soon(running.informer.wait_synced()).await;
        assert_eq!(inconsistencies(&running), found);
        assert_eq!(running.informer.indexer().keys(), ["a/x".parse().unwrap()]);
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_whose_version_cannot_be_listed_is_not_checked() {
    let server = streaming();
    server.create("a/x", json!({}));
    server.fail_lists([errors::expired()]);
    let running = Running::with(&server, checking());
    soon(running.informer.wait_synced()).await;
    assert_eq!((server.list_versions().len(), inconsistencies(&running)), (1, 0));
    assert!(running.informer.status().reflector.last_error.is_none());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_transform_makes_of_objects_is_compared() {
    let server = streaming();
    server.create("a/x", json!({"data": {"k": "v"}}));
    server.create("a/refused", json!({}));
    let transform = |object: Object| {
        if object.name() == "refused" {
            return Err("refused".into());
        }
        Ok(Projection::metadata_only().apply(&object))
    };
    let options = ReflectorOptions { transform: Some(Arc::new(transform)), ..checking() };
    let running = Running::with(&server, options);
    soon(running.informer.wait_synced()).await;
    assert_eq!((server.list_versions().len(), inconsistencies(&running)), (1, 0));
    running.stop().await;
}
