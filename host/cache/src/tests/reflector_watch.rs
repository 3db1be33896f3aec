//! §1.7 and pitfalls 3–7: opening watches, following them, and what each way of ending leads to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use parking_lot::Mutex;
use pilothouse_client::{WatchEvent, WatchParams};
use pilothouse_object::{ListMeta, Object};
use serde_json::json;
use tokio::time::Instant;

use super::{Running, server, soon};
use crate::testing::{config_map, config_maps, errors};
use crate::{EventStream, FnListerWatcher, InformerOptions, ReflectorOptions, SharedInformer};

/// An informer on a scripted source: an empty list at `version`, and watches made by `watch`.
fn scripted(
    version: &'static str,
    watch: impl Fn(&WatchParams) -> pilothouse_client::Result<EventStream> + Send + Sync + 'static,
) -> (Running, Arc<AtomicUsize>) {
    let lists = Arc::new(AtomicUsize::new(0));
    let count = lists.clone();
    let list = move |_: &_| {
        count.fetch_add(1, Ordering::Relaxed);
        let meta = ListMeta { resource_version: version.to_owned(), ..ListMeta::default() };
        Ok((Vec::new(), meta))
    };
    let source = Arc::new(FnListerWatcher::new(list, watch));
    let informer = SharedInformer::new(source, config_maps(), None, InformerOptions::default());
    (Running::of(informer), lists)
}

fn bookmark(version: &str) -> pilothouse_client::Result<WatchEvent> {
    Ok(WatchEvent::Bookmark { resource_version: version.to_owned(), initial_events_end: false })
}

/// Notes when watches are opened and from where.
#[derive(Default)]
struct Openings(Mutex<Vec<(Instant, String)>>);

impl Openings {
    fn note(&self, params: &WatchParams) -> usize {
        let mut openings = self.0.lock();
        openings.push((Instant::now(), params.resource_version.clone().unwrap_or_default()));
        openings.len()
    }

    fn versions(&self) -> Vec<String> {
        self.0.lock().iter().map(|(_, version)| version.clone()).collect()
    }

    fn gaps(&self) -> Vec<Duration> {
        self.0.lock().windows(2).map(|pair| pair[1].0 - pair[0].0).collect()
    }

    async fn wait_for(&self, count: usize) {
        let arrived = async {
            while self.0.lock().len() < count {
                // Advances the paused clock when nothing else is to be done.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        soon(arrived).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_from_the_list_and_each_event_and_bookmark_moves_the_version() {
    let server = server();
    server.create("a/x", json!({}));
    let running = Running::on(&server);
    soon(server.wait_for_watches(1)).await;
    server.create("a/y", json!({}));
    server.update("a/x", json!({"data": {"k": "v"}}));
    server.drop_watches();
    soon(server.wait_for_watches(2)).await;
    server.skip_versions(10);
    server.bookmark();
    server.drop_watches();
    soon(server.wait_for_watches(3)).await;
    server.delete("a/x");
    running.caught_up(&server).await;
    server.drop_watches();
    soon(server.wait_for_watches(4)).await;
    let versions: Vec<_> = server.watches().into_iter().map(|(_, p)| p.resource_version.unwrap()).collect();
    assert_eq!(versions, ["2", "4", "14", "15"]);
    assert_eq!(server.list_versions(), ["0"], "a watch that ends needs no list");
    assert_eq!(running.informer.indexer().keys(), ["a/y".parse().unwrap()]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn events_that_come_while_no_watch_is_open_are_not_missed() {
    let server = server();
    let running = Running::on(&server);
    soon(server.wait_for_watches(1)).await;
    server.bookmark();
    server.drop_watches();
    server.create("a/x", json!({}));
    server.update("a/x", json!({}));
    running.caught_up(&server).await;
    assert_eq!(running.informer.indexer().get_by_key("a/x").unwrap().resource_version(), "3");
    assert_eq!(server.list_versions(), ["0"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_asks_for_a_time_out_between_5_and_10_minutes() {
    let server = server();
    let running = Running::on(&server);
    for watch in 1..=40 {
        soon(server.wait_for_watches(watch)).await;
        server.bookmark();
        server.drop_watches();
    }
    let mut timeouts: Vec<_> = server.watches().iter().map(|(_, p)| p.timeout_seconds.unwrap()).collect();
    assert!(timeouts.iter().all(|timeout| (300..=600).contains(timeout)), "{timeouts:?}");
    timeouts.sort_unstable();
    timeouts.dedup();
    assert!(timeouts.len() > 10, "not drawn at random: {timeouts:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_configured_time_out_below_5_minutes_is_not_honoured_and_a_longer_one_is() {
    for (configured, range) in [(1, 300..=600), (1800, 1800..=3600)] {
        let server = server();
        let min_watch_timeout = Duration::from_secs(configured);
        let running = Running::with(&server, ReflectorOptions { min_watch_timeout, ..Default::default() });
        soon(server.wait_for_watches(1)).await;
        assert!(range.contains(&server.watches()[0].1.timeout_seconds.unwrap()));
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_the_server_does_not_end_is_given_up_after_its_time_out() {
    let server = server();
    let running = Running::on(&server);
    soon(server.wait_for_watches(2)).await;
    let watches = server.watches();
    let asked = u64::from(watches[0].1.timeout_seconds.unwrap());
    let lasted = (watches[1].0 - watches[0].0).as_secs();
    assert!((asked + 30..=asked + 31).contains(&lasted), "{asked} {lasted}");
    assert_eq!(server.list_versions(), ["0"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_connection_is_tried_again_without_a_list() {
    let server = server();
    server.create("a/x", json!({}));
    let running = Running::on(&server);
    soon(server.wait_for_watches(1)).await;
    server.refuse(true);
    soon(server.wait_for_watches(6)).await;
    assert!(running.informer.status().reflector.last_error.unwrap().is_connection_refused());
    server.refuse(false);
    server.update("a/x", json!({}));
    running.caught_up(&server).await;
    assert_eq!(server.list_versions(), ["0"]);
    assert!(running.informer.status().reflector.last_error.is_none());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_at_open_waits_as_asked_without_a_list() {
    let server = server();
    server.fail_watches([errors::too_many_requests(Some(20)), errors::too_many_requests(None)]);
    let running = Running::on(&server);
    soon(server.wait_for_watches(3)).await;
    let at: Vec<_> = server.watches().into_iter().map(|(at, _)| at).collect();
    assert!(at[1] - at[0] >= Duration::from_secs(20));
    assert!(at[2] - at[1] >= Duration::from_millis(1600), "the second step of the backoff");
    assert_eq!(server.list_versions(), ["0"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_in_the_stream_waits_as_asked_without_a_list() {
    let server = server();
    let running = Running::on(&server);
    soon(server.wait_for_watches(1)).await;
    server.break_watches(&errors::too_many_requests(Some(20)));
    soon(server.wait_for_watches(2)).await;
    let at: Vec<_> = server.watches().into_iter().map(|(at, _)| at).collect();
    assert!(at[1] - at[0] >= Duration::from_secs(20));
    assert_eq!(server.list_versions(), ["0"]);
    running.stop().await;
}

/// A server that cannot serve now, and says for how long.
fn unavailable(seconds: u64) -> pilothouse_client::Error {
    let pilothouse_client::Error::Api(mut status) = errors::too_many_requests(Some(seconds)) else {
        unreachable!()
    };
    status.code = 503;
    status.reason = "ServiceUnavailable".to_owned();
    pilothouse_client::Error::Api(status)
}

#[tokio::test(start_paused = true)]
async fn every_error_that_names_a_time_is_given_it() {
    let server = server();
    server.set_watch_lists(true);
    // Of a streaming list: no list in its place before that.
    server.fail_watches([unavailable(30)]);
    let began = Instant::now();
    let running = Running::on(&server);
    soon(running.informer.wait_synced()).await;
    assert!(began.elapsed() >= Duration::from_secs(30));
    assert!(server.list_versions().is_empty());
    // In the stream of a watch.
    let began = Instant::now();
    server.break_watches(&unavailable(40));
    soon(server.wait_for_watches(3)).await;
    assert!(began.elapsed() >= Duration::from_secs(40));
    // At open.
    let began = Instant::now();
    server.fail_watches([unavailable(50)]);
    server.drop_watches();
    soon(server.wait_for_watches(5)).await;
    assert!(began.elapsed() >= Duration::from_secs(50));
    // Of a list.
    server.set_watch_lists(false);
    let began = Instant::now();
    server.fail_lists([unavailable(60)]);
    running.informer.relist();
    soon(server.wait_for_lists(2)).await;
    assert!(began.elapsed() >= Duration::from_secs(60));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn any_other_error_at_open_leads_to_a_list_after_a_backoff() {
    let server = server();
    server.fail_watches([errors::internal()]);
    let running = Running::on(&server);
    soon(server.wait_for_lists(2)).await;
    let requests = server.requests();
    assert!(requests[2].at() - requests[1].at() >= Duration::from_millis(800));
    assert_eq!(server.list_versions(), ["0", "1"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_in_the_stream_leads_to_a_list_from_the_last_version_and_is_no_failure() {
    let server = server();
    let running = Running::on(&server);
    soon(server.wait_for_watches(1)).await;
    server.create("a/x", json!({}));
    running.caught_up(&server).await;
    server.drop_watches();
    server.create("a/y", json!({}));
    server.compact();
    running.caught_up(&server).await;
    assert_eq!(server.list_versions(), ["0", "2"]);
    soon(server.wait_for_watches(3)).await;
    let versions: Vec<_> = server.watches().into_iter().map(|(_, p)| p.resource_version.unwrap()).collect();
    assert_eq!(versions, ["1", "2", "3"], "the second was told that its version expired");
    assert_eq!(running.informer.indexer().len(), 2);
    assert_eq!(running.informer.metrics().reflector_watch_failures_total, 0);
    assert!(running.informer.status().reflector.last_error.is_none());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_at_open_is_no_failure_either() {
    let server = server();
    server.fail_watches([errors::expired()]);
    let handler = |_: &pilothouse_object::Gvr, error: &pilothouse_client::Error| panic!("told of {error}");
    let options = ReflectorOptions { watch_error_handler: Some(Arc::new(handler)), ..Default::default() };
    let running = Running::with(&server, options);
    soon(server.wait_for_lists(2)).await;
    assert_eq!(server.list_versions(), ["0", "1"]);
    soon(server.wait_for_watches(2)).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_error_frame_leads_to_a_list_after_a_backoff() {
    let server = server();
    let running = Running::on(&server);
    soon(server.wait_for_watches(1)).await;
    let broken_at = Instant::now();
    server.break_watches(&errors::internal());
    soon(server.wait_for_lists(2)).await;
    assert!(broken_at.elapsed() >= Duration::from_millis(800));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_leads_to_another_watch_without_a_list() {
    let server = server();
    let running = Running::on(&server);
    soon(server.wait_for_watches(1)).await;
    server.create("a/x", json!({}));
    running.caught_up(&server).await;
    server.break_watches(&errors::connection_reset());
    soon(server.wait_for_watches(2)).await;
    assert_eq!(server.watches()[1].1.resource_version.as_deref(), Some("2"));
    assert_eq!(server.list_versions(), ["0"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_after_an_event_are_opened_a_second_apart() {
    let openings = Arc::new(Openings::default());
    let noted = openings.clone();
    let (running, lists) = scripted("1", move |params| {
        noted.note(params);
        Ok(stream::iter([bookmark("1")]).boxed())
    });
    openings.wait_for(30).await;
    assert!(openings.gaps().iter().all(|gap| *gap >= Duration::from_secs(1)), "{:?}", openings.gaps());
    assert_eq!(lists.load(Ordering::Relaxed), 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_without_an_event_lead_to_lists_ever_further_apart() {
    let openings = Arc::new(Openings::default());
    let noted = openings.clone();
    let (running, lists) = scripted("1", move |params| {
        noted.note(params);
        Ok(stream::empty().boxed())
    });
    openings.wait_for(9).await;
    assert_eq!(lists.load(Ordering::Relaxed), 9);
    // Each list goes well: that alone must not take the backoff back to its start.
    assert!(openings.gaps()[7] >= Duration::from_secs(30), "{:?}", openings.gaps());
    assert_eq!(running.informer.metrics().reflector_short_watches_total, 9);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn connections_that_break_at_once_are_opened_ever_further_apart_without_lists() {
    let openings = Arc::new(Openings::default());
    let noted = openings.clone();
    let (running, lists) = scripted("1", move |params| {
        noted.note(params);
        Ok(stream::iter([Err(errors::connection_reset())]).boxed())
    });
    openings.wait_for(9).await;
    assert_eq!(lists.load(Ordering::Relaxed), 1);
    assert!(openings.gaps()[7] >= Duration::from_secs(30), "{:?}", openings.gaps());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn adds_of_a_watch_from_zero_come_in_no_order_and_do_not_move_the_version() {
    let added = |key: &str, version: &str| Ok(WatchEvent::Added(config_map(key, version)));
    let openings = Arc::new(Openings::default());
    let noted = openings.clone();
    let (running, _) = scripted("0", move |params| match noted.note(params) {
        1 => Ok(stream::iter([added("a/x", "7"), added("a/y", "3")]).boxed()),
        2 => Ok(stream::iter([
            added("a/x", "7"),
            added("a/y", "3"),
            Ok(WatchEvent::Modified(config_map("a/y", "9"))),
            added("a/z", "10"),
        ])
        .boxed()),
        _ => Ok(stream::pending().boxed()),
    });
    openings.wait_for(3).await;
    assert_eq!(openings.versions(), ["0", "0", "10"]);
    assert_eq!(running.informer.indexer().len(), 3);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_of_an_older_version_does_not_take_the_watch_back() {
    let openings = Arc::new(Openings::default());
    let noted = openings.clone();
    let (running, _) = scripted("5", move |params| match noted.note(params) {
        1 => {
            let events: [Object; 2] = [config_map("a/x", "9"), config_map("a/y", "7")];
            let events = events.into_iter().map(|object| Ok(WatchEvent::Modified(object)));
            Ok(stream::iter(events.chain([bookmark("8")])).boxed())
        }
        _ => Ok(stream::pending().boxed()),
    });
    openings.wait_for(2).await;
    assert_eq!(openings.versions(), ["5", "9"]);
    assert_eq!(&*running.informer.indexer().resource_version(), "9");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn cancelling_ends_an_open_watch_and_one_that_is_being_opened_at_once() {
    let server = server();
    let running = Running::on(&server);
    soon(server.wait_for_watches(1)).await;
    running.stop().await;
    assert_eq!(server.open_watches(), 0, "the stream is let go");

    server.fail_watches([errors::too_many_requests(Some(100))]);
    let running = Running::on(&server);
    soon(server.wait_for_watches(2)).await;
    tokio::task::yield_now().await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_decoded_is_skipped_and_the_watch_goes_on() {
    let openings = Arc::new(AtomicUsize::new(0));
    let opened = openings.clone();
    let (running, lists) = scripted("5", move |_| {
        opened.fetch_add(1, Ordering::Relaxed);
        let bad = || {
            Err(pilothouse_client::Error::Event { doing: "watch".to_owned(), message: "no name".to_owned() })
        };
        let events = [Ok(WatchEvent::Added(config_map("ns/a", "6"))), bad(), bad()];
        let last = Ok(WatchEvent::Added(config_map("ns/b", "9")));
        Ok(stream::iter(events.into_iter().chain([last])).chain(stream::pending()).boxed())
    });
    soon(running.informer.indexer().wait_until_seen("9")).await;
    assert_eq!(running.informer.indexer().len(), 2);
    assert_eq!((lists.load(Ordering::Relaxed), openings.load(Ordering::Relaxed)), (1, 1));
    assert_eq!(running.informer.metrics().reflector_skipped_events_total, 2);
    running.stop().await;
}
