//! The cache in memory: what is known is not asked for, what may have changed is, and failures that may pass are retried.

use pilothouse_client::{CachedDiscovery, Result};
use tokio::task::JoinSet;

use super::surface::{Aggregated, Surface, paths, resource};
use crate::support::{Counter, Reply, Server, client, failure, status};

async fn cached(server: &Server) -> CachedDiscovery {
    CachedDiscovery::in_memory(client(server).await.discovery())
}

#[tokio::test]
async fn what_is_known_is_asked_for_once() {
    let server = Surface::new(Aggregated::Both).start().await;
    let cached = cached(&server).await;
    for _ in 0..2 {
        assert_eq!(cached.groups_and_resources().await.unwrap().iter().count(), 9);
        assert_eq!(cached.resources("scaling.example", "v1").await.unwrap().len(), 2);
        assert_eq!(cached.groups().await.unwrap().len(), 5);
        assert!(cached.resources("scaling.example", "v9").await.unwrap_err().is_not_found());
    }
    assert_eq!(paths(&server), ["/api", "/apis"]);
    assert!(cached.fresh());
}

#[tokio::test]
async fn one_version_costs_one_small_document() {
    let server = Surface::new(Aggregated::Both).start().await;
    let cached = cached(&server).await;
    cached.resources("apps", "v1").await.unwrap();
    cached.resources("apps", "v1").await.unwrap();
    assert_eq!(paths(&server), ["/apis/apps/v1"]);
}

#[tokio::test]
async fn after_an_invalidation_the_server_is_asked_by_etag() {
    let surface = Surface::new(Aggregated::Both);
    let server = surface.start().await;
    let cached = cached(&server).await;
    let first = cached.groups_and_resources().await.unwrap();
    cached.invalidate();
    assert_eq!(cached.groups_and_resources().await.unwrap().resources, first.resources);
    assert_eq!(server.seen().len(), 4);
    assert!(server.seen()[2..].iter().all(|seen| seen.header("if-none-match").is_some()));
    // One of the two documents changes.
    surface.serve("", "v1", &[resource("pods", "Pod")]);
    surface.remove("apps");
    cached.invalidate();
    assert!(cached.resources("apps", "v1").await.unwrap_err().is_not_found());
    assert_eq!(cached.groups_and_resources().await.unwrap().iter().count(), 6);
    assert_eq!(cached.resources("", "v1").await.unwrap().len(), 1);
}

#[tokio::test]
async fn many_who_ask_at_once_cause_one_fetch_and_share_its_failure() {
    let (release, held) = Reply::new(503, failure(503, "ServiceUnavailable", "later")).held();
    let held = parking_lot::Mutex::new(Some(held));
    let surface = Surface::new(Aggregated::Both);
    let server = Server::start(move |seen| match seen.path() {
        "/apis" => held.lock().take().unwrap_or_else(|| surface.reply(seen)),
        _ => surface.reply(seen),
    })
    .await;
    let cached = cached(&server).await;
    let mut calls = JoinSet::new();
    for _ in 0..20 {
        let cached = cached.clone();
        calls.spawn(async move { cached.groups_and_resources().await.map(drop) });
    }
    server.until_seen(2).await;
    // On this thread nobody can be late: all have asked before the answer comes.
    release.send(()).unwrap();
    for failed in calls.join_all().await {
        assert_eq!(status(failed).code, 503);
    }
    assert_eq!(paths(&server), ["/api", "/apis"]);
    assert_eq!(cached.groups_and_resources().await.unwrap().iter().count(), 9);
}

/// Asks twice for a document whose first answer is this one.
async fn twice(first: impl Fn() -> Reply + Send + Sync + 'static) -> (Result<usize>, Result<usize>, usize) {
    let (calls, surface) = (Counter::default(), Surface::new(Aggregated::Neither));
    let server =
        Server::start(move |seen| if calls.next() == 0 { first() } else { surface.reply(seen) }).await;
    let cached = cached(&server).await;
    let ask = async || cached.resources("apps", "v1").await.map(|list| list.len());
    let results = (ask().await, ask().await);
    (results.0, results.1, server.seen().len())
}

#[tokio::test]
async fn failures_that_may_pass_are_asked_for_again_and_others_are_kept() {
    for code in [408, 429, 500, 502, 503, 504] {
        let (first, second, requests) = twice(move || Reply::new(code, failure(code, "", "no"))).await;
        assert_eq!((status(first).code, second.unwrap(), requests), (code, 1, 2));
    }
    for code in [401, 403, 404, 410] {
        let (first, second, requests) = twice(move || Reply::new(code, failure(code, "", "no"))).await;
        assert_eq!((status(first).code, status(second).code, requests), (code, code, 1));
    }
    let (first, second, requests) = twice(|| Reply::json("{\"resou")).await;
    assert_eq!((first.is_err(), second.unwrap(), requests), (true, 1, 2));
    let (first, second, _) = twice(|| {
        let (body, reply) = Reply::pieces();
        body.send(Err(std::io::Error::other("cut"))).unwrap();
        reply
    })
    .await;
    assert_eq!((first.is_err(), second.unwrap()), (true, 1));
}

#[tokio::test]
async fn a_kept_failure_ends_with_an_invalidation() {
    let calls = Counter::default();
    let surface = Surface::new(Aggregated::Both);
    let server = Server::start(move |seen| match calls.next() {
        0 => Reply::new(403, failure(403, "Forbidden", "no")),
        _ => surface.reply(seen),
    })
    .await;
    let cached = cached(&server).await;
    assert!(cached.resources("apps", "v1").await.unwrap_err().is_forbidden());
    cached.invalidate();
    cached.resources("apps", "v1").await.unwrap();
}

#[tokio::test]
async fn a_group_that_was_down_is_asked_again_with_the_next_access() {
    let surface = Surface::new(Aggregated::Both);
    surface.down("metrics.example", true);
    let server = surface.start().await;
    let cached = cached(&server).await;
    assert_eq!(cached.groups_and_resources().await.unwrap().failed.len(), 1);
    assert_eq!(cached.groups_and_resources().await.unwrap().failed.len(), 1);
    assert_eq!(paths(&server), ["/api", "/apis", "/apis/metrics.example/v1beta1"]);
    surface.down("metrics.example", false);
    let all = cached.groups_and_resources().await.unwrap();
    assert_eq!((all.failed.len(), all.iter().count()), (0, 9));
    let _ = cached.groups_and_resources().await.unwrap();
    assert_eq!(server.seen().len(), 4);
}

#[tokio::test]
async fn what_began_before_an_invalidation_is_not_used_after_it() {
    let surface = Surface::new(Aggregated::Both);
    let (old, held) = Reply::json(r#"{"resources":[]}"#).held();
    let held = parking_lot::Mutex::new(Some(held));
    let of = surface.clone();
    let server = Server::start(move |seen| held.lock().take().unwrap_or_else(|| of.reply(seen))).await;
    let cached = cached(&server).await;
    let early = tokio::spawn({
        let cached = cached.clone();
        async move { cached.resources("apps", "v1").await.unwrap().len() }
    });
    server.until_seen(1).await;
    cached.invalidate();
    let late = tokio::spawn({
        let cached = cached.clone();
        async move { cached.resources("apps", "v1").await.unwrap().len() }
    });
    old.send(()).unwrap();
    assert_eq!((early.await.unwrap(), late.await.unwrap()), (0, 1));
    assert_eq!(cached.resources("apps", "v1").await.unwrap().len(), 1);
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn what_was_asked_for_earlier_does_not_replace_what_is_newer() {
    let (late, held) = Reply::json(r#"{"resources":[]}"#).held();
    let held = parking_lot::Mutex::new(Some(held));
    let surface = Surface::new(Aggregated::Both);
    let server = Server::start(move |seen| held.lock().take().unwrap_or_else(|| surface.reply(seen))).await;
    let cached = cached(&server).await;
    let early = tokio::spawn({
        let cached = cached.clone();
        async move { cached.resources("apps", "v1").await.unwrap().len() }
    });
    server.until_seen(1).await;
    assert_eq!(cached.groups_and_resources().await.unwrap().iter().count(), 9);
    late.send(()).unwrap();
    assert_eq!(early.await.unwrap(), 0);
    assert_eq!(cached.resources("apps", "v1").await.unwrap().len(), 1);
}

#[tokio::test]
async fn who_gives_up_does_not_keep_others_from_asking() {
    let (_never, held) = Reply::json("{}").held();
    let held = parking_lot::Mutex::new(Some(held));
    let surface = Surface::new(Aggregated::Both);
    let server = Server::start(move |seen| held.lock().take().unwrap_or_else(|| surface.reply(seen))).await;
    let cached = cached(&server).await;
    let first = tokio::spawn({
        let cached = cached.clone();
        async move { cached.resources("apps", "v1").await.map(drop) }
    });
    server.until_seen(1).await;
    first.abort();
    cached.resources("apps", "v1").await.unwrap();
}
