//! §1.6 and §1.7: which versions are listed, in pages or not, and what happens when the server does not have them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use pilothouse_client::ListParams;
use pilothouse_object::ListMeta;
use serde_json::json;
use tokio::time::Instant;

use super::{Running, server, soon};
use crate::testing::{FakeControllerSource, Request, config_map, config_maps, errors};
use crate::{FnListerWatcher, InformerOptions, ReflectorOptions, SharedInformer};

fn objects(server: &FakeControllerSource, count: usize) {
    for i in 0..count {
        server.create(&format!("a/x{i}"), json!({}));
    }
}

/// Makes a running informer list again: the watch ends with an error that nobody understands.
async fn relist(server: &FakeControllerSource, watches: usize) {
    soon(server.wait_for_watches(watches)).await;
    server.break_watches(&errors::internal());
}

fn lists(server: &FakeControllerSource) -> Vec<(Instant, ListParams)> {
    let lists = server.requests().into_iter().filter_map(|request| match request {
        Request::List { at, params } => Some((at, params)),
        Request::Watch { .. } => None,
    });
    lists.collect()
}

#[tokio::test(start_paused = true)]
async fn the_first_list_is_from_zero_and_the_next_from_the_last_version() {
    let server = server();
    server.skip_versions(9);
    let running = Running::on(&server);
    relist(&server, 1).await;
    soon(server.wait_for_lists(2)).await;
    assert_eq!(server.list_versions(), ["0", "10"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_without_versions_to_trust_is_asked_for_the_newest_state_first_if_so_configured() {
    let server = server();
    let running = Running::with(&server, ReflectorOptions { first_list_quorum: true, ..Default::default() });
    soon(server.wait_for_watches(1)).await;
    assert_eq!(server.list_versions(), [""]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_is_followed_at_once_by_a_quorum_read() {
    let server = server();
    server.skip_versions(9);
    let running = Running::on(&server);
    server.script_lists([None, Some(errors::expired())]);
    relist(&server, 1).await;
    soon(server.wait_for_watches(2)).await;
    assert_eq!(server.list_versions(), ["0", "10", ""]);
    let lists = lists(&server);
    assert_eq!(lists[1].0, lists[2].0, "it waited");
    // The version is available again.
    relist(&server, 2).await;
    soon(server.wait_for_watches(3)).await;
    assert_eq!(server.list_versions(), ["0", "10", "", "10"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_quorum_read_that_fails_is_tried_again_as_one_after_a_backoff() {
    let server = server();
    server.script_lists([Some(errors::expired()), Some(errors::internal()), Some(errors::expired())]);
    let running = Running::on(&server);
    soon(server.wait_for_watches(1)).await;
    // The third, expired itself, escalates to the same read once more.
    assert_eq!(server.list_versions(), ["0", "", "", ""]);
    let lists = lists(&server);
    assert!(lists[2].0 - lists[1].0 >= Duration::from_millis(800));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_too_large_version_in_each_dialect_is_followed_by_a_quorum_read() {
    let server = server();
    server.skip_versions(9);
    let running = Running::on(&server);
    for (round, dialect) in errors::too_large_dialects().into_iter().enumerate() {
        soon(server.wait_for_watches(round + 1)).await;
        server.skip_versions(10);
        server.script_lists([Some(dialect)]);
        server.break_watches(&errors::internal());
    }
    soon(server.wait_for_watches(4)).await;
    assert_eq!(server.list_versions(), ["0", "10", "", "20", "", "30", ""]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_from_zero_is_one_request_and_a_quorum_read_comes_in_pages_of_500() {
    let server = server();
    objects(&server, 1200);
    let running = Running::on(&server);
    server.script_lists([None, Some(errors::expired())]);
    relist(&server, 1).await;
    soon(server.wait_for_watches(2)).await;
    let sent: Vec<_> = lists(&server)
        .into_iter()
        .map(|(_, p)| (p.resource_version.unwrap_or_default(), p.limit, p.continue_token.is_some()))
        .collect();
    let page = |version: &str, limit, continued| (version.to_owned(), limit, continued);
    assert_eq!(
        sent,
        [
            page("0", 500, false),
            // Not limited, so that the watch cache serves it.
            page("1201", 0, false),
            page("", 500, false),
            page("", 500, true),
            page("", 500, true)
        ]
    );
    assert_eq!(running.informer.indexer().len(), 1200);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pages_of_a_quorum_read_in_place_of_a_list_from_zero_do_not_make_later_lists_paged() {
    let server = server();
    objects(&server, 600);
    let options = ReflectorOptions { not_older_than: Some("99999".to_owned()), ..Default::default() };
    let running = Running::with(&server, options);
    relist(&server, 1).await;
    soon(server.wait_for_watches(2)).await;
    let limits: Vec<_> = lists(&server).into_iter().map(|(_, params)| params.limit).collect();
    assert_eq!(limits, [500, 500, 500, 0]);
    assert_eq!(server.list_versions(), ["0", "", "", "601"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_pages_from_zero_is_always_asked_in_pages() {
    let server = server();
    objects(&server, 3);
    server.set_pages_from_zero(true);
    let running = Running::with(&server, ReflectorOptions { page_size: 2, ..Default::default() });
    relist(&server, 1).await;
    soon(server.wait_for_watches(2)).await;
    let limits: Vec<_> = lists(&server).into_iter().map(|(_, params)| params.limit).collect();
    assert_eq!(limits, [2, 2, 2, 2]);
    assert_eq!(server.list_versions(), ["0", "", "4", ""]);
    assert_eq!(running.informer.indexer().len(), 3);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_token_that_expires_between_pages_leads_to_one_whole_list_from_the_same_version() {
    let server = server();
    objects(&server, 5);
    server.set_pages_from_zero(true);
    let running = Running::with(&server, ReflectorOptions { page_size: 2, ..Default::default() });
    soon(server.wait_for_watches(1)).await;
    server.script_lists([None, Some(errors::expired())]);
    server.break_watches(&errors::internal());
    // The first page still shows what the whole list does not.
    server.freeze_next_list();
    server.delete("a/x0");
    soon(server.wait_for_watches(2)).await;
    let lists: Vec<_> = lists(&server).split_off(3);
    let sent: Vec<_> = lists.iter().map(|(_, p)| p.resource_version.clone().unwrap_or_default()).collect();
    assert_eq!(sent, ["6", "", "6"]);
    let last = &lists[2].1;
    assert_eq!((last.limit, &last.continue_token), (0, &None));
    assert_eq!(running.informer.indexer().len(), 4, "items of the pages before do not count");
    assert!(running.informer.metrics().reflector_list_failures_total == 0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_older_than_what_was_seen_is_not_taken_over() {
    let server = server();
    server.create("a/x", json!({}));
    let running = Running::on(&server);
    soon(running.informer.wait_synced()).await;
    // One server of several is behind: it still shows the state before these changes.
    server.freeze_next_list();
    server.create("a/y", json!({}));
    server.delete("a/x");
    running.caught_up(&server).await;
    relist(&server, 1).await;
    soon(server.wait_for_watches(2)).await;
    assert_eq!(server.list_versions(), ["0", "4", ""]);
    assert_eq!(running.informer.indexer().keys(), ["a/y".parse().unwrap()]);
    assert_eq!(&*running.informer.indexer().resource_version(), "4");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_first_list_older_than_what_an_earlier_process_saw_is_not_taken_over() {
    let server = server();
    server.freeze_next_list();
    server.create("a/x", json!({}));
    let options = ReflectorOptions { not_older_than: Some("2".into()), ..Default::default() };
    let running = Running::with(&server, options);
    soon(running.informer.wait_synced()).await;
    assert_eq!(server.list_versions(), ["0", ""]);
    assert_eq!(running.informer.indexer().len(), 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_a_quorum_read_may_go_back_in_time_as_after_a_restored_backup() {
    let server = server();
    server.skip_versions(99);
    server.create("a/x", json!({}));
    let running = Running::on(&server);
    soon(running.informer.wait_synced()).await;
    soon(server.wait_for_watches(1)).await;
    server.restore(50, vec![config_map("a/old", "40")]);
    // The watch ended too soon; a list from 101 lies in the server's future.
    soon(server.wait_for_watches(2)).await;
    assert_eq!(server.list_versions(), ["0", "101", ""]);
    assert_eq!(running.informer.indexer().keys(), ["a/old".parse().unwrap()]);
    assert_eq!(&*running.informer.indexer().resource_version(), "50");
    // And from there on as ever.
    relist(&server, 2).await;
    soon(server.wait_for_watches(3)).await;
    assert_eq!(server.list_versions(), ["0", "101", "", "50"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_relist_keeps_the_objects_that_did_not_change() {
    let server = server();
    objects(&server, 2);
    let running = Running::on(&server);
    soon(running.informer.wait_synced()).await;
    let held = running.informer.indexer().get_by_key("a/x0").unwrap();
    relist(&server, 1).await;
    soon(server.wait_for_watches(2)).await;
    assert!(std::ptr::eq(held.bytes(), running.informer.indexer().get_by_key("a/x0").unwrap().bytes()));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_half_way_leaves_nothing_behind() {
    let server = server();
    objects(&server, 5);
    server.set_pages_from_zero(true);
    server.script_lists([None, Some(errors::internal())]);
    let running = Running::with(&server, ReflectorOptions { page_size: 2, ..Default::default() });
    soon(running.informer.wait_synced()).await;
    assert_eq!(running.informer.indexer().len(), 5);
    assert_eq!(running.informer.metrics().reflector_items_per_list.sum(), 5.0);
    assert_eq!(running.informer.metrics().reflector_list_failures_total, 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_waited_for_and_starts_when_it_appears() {
    let server = server();
    server.create("a/x", json!({}));
    server.fail_lists((0..8).map(|_| errors::not_found()));
    let running = Running::on(&server);
    soon(server.wait_for_lists(4)).await;
    let status = running.informer.status().reflector;
    assert!(status.last_error.unwrap().is_not_found() && !status.synced);
    soon(running.informer.wait_synced()).await;
    let status = running.informer.status().reflector;
    assert!(status.last_error.is_none() && status.synced);
    let gaps: Vec<_> = lists(&server).windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    for gap in &gaps[5..] {
        assert!((8.0..=10.01).contains(&gap.as_secs_f64()), "{gaps:?}");
    }
    running.stop().await;
}

/// Lists are answered 404, as by a proxy without a route, for ten minutes: how many of three objects are left.
async fn objects_after_ten_minutes_of_404(discovery: pilothouse_client::Result<bool>) -> usize {
    let server = server();
    objects(&server, 3);
    let running = Running::on(&server);
    soon(running.informer.wait_synced()).await;
    let page = errors::status(404, "", "the server responded 404 Not Found: <html>no such route</html>");
    server.set_served(discovery);
    server.fail_lists((0..1000).map(|_| page.clone()));
    relist(&server, 1).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(running.informer.status().reflector.last_error.unwrap().is_not_found());
    let left = running.informer.indexer().len();
    running.stop().await;
    left
}

#[tokio::test(start_paused = true)]
async fn a_404_of_any_length_removes_no_object_while_discovery_does_not_confirm_it() {
    assert_eq!(objects_after_ten_minutes_of_404(Ok(true)).await, 3);
    let page = errors::status(404, "", "the server responded 404 Not Found: <html>no such route</html>");
    assert_eq!(objects_after_ten_minutes_of_404(Err(page)).await, 3);
    assert_eq!(objects_after_ten_minutes_of_404(Err(errors::forbidden())).await, 3);
    assert_eq!(objects_after_ten_minutes_of_404(Err(errors::connection_reset())).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_discovery_no_longer_has_loses_its_objects() {
    assert_eq!(objects_after_ten_minutes_of_404(Ok(false)).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_missing_permission_shows_in_the_status_and_is_tried_again() {
    let server = server();
    server.fail_lists([errors::forbidden(), errors::forbidden()]);
    let told = Arc::new(AtomicU32::new(0));
    let count = told.clone();
    let handler = move |_: &pilothouse_object::Gvr, error: &pilothouse_client::Error| {
        assert!(error.is_forbidden());
        count.fetch_add(1, Ordering::Relaxed);
    };
    let options = ReflectorOptions { watch_error_handler: Some(Arc::new(handler)), ..Default::default() };
    let running = Running::with(&server, options);
    soon(server.wait_for_lists(2)).await;
    assert!(running.informer.status().reflector.last_error.unwrap().is_forbidden());
    soon(running.informer.wait_synced()).await;
    assert_eq!(told.load(Ordering::Relaxed), 2);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_time_gets_it() {
    let server = server();
    server.fail_lists([errors::too_many_requests(Some(17))]);
    let running = Running::on(&server);
    soon(server.wait_for_lists(2)).await;
    let lists = lists(&server);
    assert!(lists[1].0 - lists[0].0 >= Duration::from_secs(17));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_without_a_version_is_an_error_and_not_a_watch_from_nowhere() {
    let source = FnListerWatcher::new(
        |_| Ok((Vec::new(), ListMeta::default())),
        |_| -> pilothouse_client::Result<_> { panic!("a watch from nowhere") },
    );
    let options = InformerOptions::default();
    let running = Running::of(SharedInformer::new(Arc::new(source), config_maps(), None, options));
    soon(async {
        while running.informer.status().reflector.last_error.is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let error = running.informer.status().reflector.last_error.unwrap();
    assert!(error.to_string().contains("resourceVersion"), "{error}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn cancelling_ends_a_list_a_backoff_and_the_wait_for_an_absent_server_at_once() {
    // In a list that never answers.
    struct Silent;
    impl crate::ListerWatcher for Silent {
        fn list<'a>(
            &'a self,
            _: &'a ListParams,
            _: crate::ItemSink<'a>,
        ) -> futures_util::future::BoxFuture<'a, pilothouse_client::Result<ListMeta>> {
            Box::pin(std::future::pending())
        }
        fn watch<'a>(
            &'a self,
            _: &'a pilothouse_client::WatchParams,
        ) -> futures_util::future::BoxFuture<'a, pilothouse_client::Result<crate::EventStream>> {
            Box::pin(async { Ok(futures_util::stream::pending().boxed()) })
        }
    }
    let options = InformerOptions::default();
    let running = Running::of(SharedInformer::new(Arc::new(Silent), config_maps(), None, options));
    tokio::task::yield_now().await;
    running.stop().await;

    let failing = server();
    failing.fail_lists([errors::internal()]);
    let running = Running::on(&failing);
    soon(failing.wait_for_lists(1)).await;
    tokio::task::yield_now().await;
    running.stop().await;

    let away = server();
    away.refuse(true);
    let running = Running::on(&away);
    soon(away.wait_for_lists(2)).await;
    tokio::task::yield_now().await;
    running.stop().await;
}
