//! Watches that a test has prepared, one after the other, on a paused clock.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::stream;
use parking_lot::Mutex;
use pilothouse_object::Gvk;

use super::*;
use crate::error::{Status, StatusDetails};

type Watch = Result<Vec<Result<WatchEvent>>>;

/// When a watch was opened, in milliseconds, and from which version on.
type Opened = Arc<Mutex<Vec<(u128, String)>>>;

/// A watcher from version 1 on over these watches; when they are used up, the last one stays open.
fn watcher(watches: Vec<Watch>) -> (RetryWatcher, Opened) {
    let opened = Opened::default();
    let (seen, watches, start) = (opened.clone(), Mutex::new(VecDeque::from(watches)), Instant::now());
    let params = WatchParams { resource_version: Some("1".to_owned()), ..WatchParams::default() };
    let watcher = RetryWatcher::over(params, move |params| {
        seen.lock().push((start.elapsed().as_millis(), params.resource_version.unwrap_or_default()));
        let next = watches.lock().pop_front();
        async move {
            match next {
                Some(events) => Ok(stream::iter(events?).boxed()),
                None => Ok(stream::pending().boxed()),
            }
        }
        .boxed()
    });
    (watcher.unwrap(), opened)
}

fn changed(version: u32) -> Result<WatchEvent> {
    let object = format!(r#"{{"metadata":{{"name":"a","resourceVersion":"{version}"}}}}"#);
    Ok(WatchEvent::Modified(Object::decode_as(object.as_bytes(), &Gvk::new("", "v1", "Pod")).unwrap()))
}

fn bookmark(version: &str) -> Result<WatchEvent> {
    Ok(WatchEvent::Bookmark { resource_version: version.to_owned(), initial_events_end: false })
}

fn fails(code: u16, reason: &str, retry_after: Option<u64>) -> Error {
    let details = StatusDetails { retry_after_seconds: retry_after, ..StatusDetails::default() };
    Error::Api(Box::new(Status {
        code,
        reason: reason.to_owned(),
        details: Some(details),
        ..Status::default()
    }))
}

fn broken() -> Error {
    let (doing, message) = (String::new(), "reset".to_owned());
    Error::Transport { doing, message, connection_refused: false, timeout: false, unsent: false }
}

async fn version(watcher: &mut RetryWatcher) -> String {
    version_of(&watcher.next().await.unwrap().unwrap()).to_owned()
}

#[test]
fn a_version_that_is_missing_or_zero_and_initial_events_are_refused() {
    let open = |params: WatchParams| RetryWatcher::over(params, |_| async { unreachable!() }.boxed());
    for version in [None, Some(String::new()), Some("0".to_owned())] {
        let params = WatchParams { resource_version: version, ..WatchParams::default() };
        assert!(matches!(open(params), Err(Error::Request(_))));
    }
    let params = WatchParams {
        resource_version: Some("1".to_owned()),
        send_initial_events: true,
        ..WatchParams::default()
    };
    assert!(matches!(open(params), Err(Error::Request(_))));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_or_breaks_goes_on_from_the_last_version_a_second_after_it_began() {
    let (mut watcher, opened) = watcher(vec![
        Ok(vec![changed(2), changed(3)]),
        Ok(vec![changed(4), Err(broken())]),
        Err(broken()),
        Ok(vec![changed(5)]),
    ]);
    for expected in ["2", "3", "4", "5"] {
        assert_eq!(version(&mut watcher).await, expected);
    }
    let expected = [(0, "1"), (1000, "3"), (2000, "4"), (3000, "4")].map(|(at, from)| (at, from.to_owned()));
    assert_eq!(*opened.lock(), expected);
    assert_eq!(watcher.resource_version(), "5");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_move_the_version_and_are_not_given() {
    let (mut watcher, opened) = watcher(vec![Ok(vec![bookmark("7")]), Ok(vec![changed(8)])]);
    assert_eq!(version(&mut watcher).await, "8");
    assert_eq!(opened.lock()[1].1, "7");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_too_old_is_told_and_ends_it_at_the_opening_as_in_the_stream() {
    let gone = || fails(410, "Expired", None);
    for watches in [vec![Err(gone())], vec![Ok(vec![Err(gone())])], vec![Ok(vec![]), Err(gone())]] {
        let (mut watcher, opened) = watcher(watches);
        assert!(watcher.next().await.unwrap().unwrap_err().is_expired());
        let count = opened.lock().len();
        assert!(watcher.next().await.is_none());
        assert!(matches!(watcher.until(|_| true).await, Err(Error::Request(_))));
        assert_eq!(opened.lock().len(), count);
    }
}

#[tokio::test(start_paused = true)]
async fn who_may_not_watch_is_told_at_once() {
    for (code, reason) in [(401, "Unauthorized"), (403, "Forbidden")] {
        let (mut watcher, _) = watcher(vec![Err(fails(code, reason, None))]);
        assert_eq!(watcher.next().await.unwrap().unwrap_err().status().unwrap().code, code);
        assert!(watcher.next().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_wrong_is_told_at_once_and_a_resource_that_is_not_there_is_waited_for() {
    for error in
        [Error::Request("a name".to_owned()), fails(400, "BadRequest", None), fails(422, "Invalid", None)]
    {
        let (mut watcher, opened) = watcher(vec![Err(error)]);
        assert!(watcher.next().await.unwrap().is_err());
        assert!(watcher.next().await.is_none());
        assert_eq!(opened.lock().len(), 1);
    }
    let (mut watcher, _) = watcher(vec![Err(fails(404, "NotFound", None)), Ok(vec![changed(2)])]);
    assert_eq!(version(&mut watcher).await, "2");
}

#[tokio::test(start_paused = true)]
async fn a_server_in_trouble_is_asked_again_when_it_says() {
    let (mut watcher, opened) = watcher(vec![
        Ok(vec![changed(2), Err(fails(504, "Timeout", Some(5)))]),
        Err(fails(429, "TooManyRequests", Some(3))),
        Ok(vec![Err(fails(500, "InternalError", None))]),
        Ok(vec![changed(3)]),
    ]);
    assert_eq!(version(&mut watcher).await, "2");
    assert_eq!(version(&mut watcher).await, "3");
    let at: Vec<u128> = opened.lock().iter().map(|(at, _)| *at).collect();
    assert_eq!(at, [0, 5000, 8000, 9000]);
}

#[tokio::test(start_paused = true)]
async fn an_event_without_a_version_ends_it() {
    let nothing = Object::decode_as(br#"{"metadata":{"name":"a"}}"#, &Gvk::new("", "v1", "Pod")).unwrap();
    for event in [WatchEvent::Added(nothing), bookmark("").unwrap()] {
        let (mut watcher, _) = watcher(vec![Ok(vec![Ok(event), changed(2)])]);
        assert!(matches!(watcher.next().await, Some(Err(Error::Protocol { .. }))));
        assert!(watcher.next().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_given_up_loses_nothing() {
    let (mut watcher, opened) = watcher(vec![Ok(vec![]), Ok(vec![changed(2)])]);
    for _ in 0..9 {
        assert!(tokio::time::timeout(Duration::from_millis(100), watcher.next()).await.is_err());
    }
    assert_eq!(version(&mut watcher).await, "2");
    assert_eq!(opened.lock().iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 1000]);
}

#[tokio::test(start_paused = true)]
async fn until_gives_the_change_that_was_waited_for_and_then_those_behind_it() {
    let (mut watcher, _) = watcher(vec![Ok(vec![changed(2), changed(3)]), Ok(vec![changed(4), changed(5)])]);
    let found = watcher.until(|event| version_of(event) == "4").await.unwrap();
    assert_eq!(version_of(&found), "4");
    assert_eq!(version(&mut watcher).await, "5");
}

#[tokio::test(start_paused = true)]
async fn an_event_or_a_response_that_cannot_be_decoded_ends_it() {
    let (doing, message) = (String::new(), String::new());
    let event = Error::Event { doing: doing.clone(), message: message.clone() };
    let (mut watcher, opened) = watcher(vec![Ok(vec![changed(2), Err(event)])]);
    assert_eq!(version(&mut watcher).await, "2");
    let hour = Duration::from_secs(3600);
    let error = tokio::time::timeout(hour, watcher.next()).await.expect("it ends").unwrap().unwrap_err();
    assert!(error.is_skippable(), "a change was missed: {error:?}");
    assert!(watcher.next().await.is_none());
    assert_eq!(opened.lock().len(), 1);
    let (mut watcher, _) = self::watcher(vec![Err(Error::Protocol { doing, message })]);
    let next = tokio::time::timeout(hour, watcher.next()).await.expect("it ends");
    assert!(next.unwrap().is_err() && watcher.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_an_age_is_asked_again_after_a_minute() {
    let busy = fails(429, "TooManyRequests", Some(u64::MAX));
    let (mut watcher, opened) = watcher(vec![Err(busy), Ok(vec![changed(2)])]);
    assert_eq!(version(&mut watcher).await, "2");
    assert_eq!(opened.lock()[1].0, 60_000);
}
