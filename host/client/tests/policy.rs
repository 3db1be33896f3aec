//! Retries, rate limits and compression: what is sent, when, and what the observer is told.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_client::{
    Client, ClientOptions, Error, Identity, ListParams, ObservedRequest, RateLimit, RequestObserver,
    RetryPolicy, WatchParams,
};
use tokio::time::Instant;

use crate::support::{
    Counter, Reply, Server, client, client_with, failure, key, page, pod, pods, soon, status,
};

fn asks_to_come_again(code: u16, seconds: &str) -> Reply {
    Reply::new(code, failure(code, "TooManyRequests", "later")).header("retry-after", seconds)
}

/// Turns away the first calls.
async fn busy(code: u16, seconds: &'static str, times: usize) -> Server {
    let calls = Counter::default();
    Server::start(move |_| match calls.next() {
        call if call < times => asks_to_come_again(code, seconds),
        _ => Reply::json(pod("a", 1)),
    })
    .await
}

#[derive(Default)]
struct Told {
    waited: Mutex<Vec<Duration>>,
    retried: Mutex<Vec<(String, u16)>>,
    answers: Mutex<Vec<Option<u16>>>,
}

impl RequestObserver for Told {
    fn request(&self, request: &ObservedRequest<'_>) {
        self.answers.lock().push(request.code);
    }

    fn rate_limited(&self, _: &str, _: &str, waited: Duration) {
        self.waited.lock().push(waited);
    }

    fn retried(&self, method: &str, _: &str, code: u16) {
        self.retried.lock().push((method.to_owned(), code));
    }
}

async fn told(server: &Server, change: impl FnOnce(&mut ClientOptions)) -> (Arc<Told>, Client) {
    let told = Arc::new(Told::default());
    let observer: Arc<dyn RequestObserver> = told.clone();
    let client = client_with(server, |options| {
        options.observer = Some(observer);
        change(options);
    })
    .await;
    (told, client)
}

#[tokio::test]
async fn an_answer_that_asks_to_come_again_is_asked_for_again() {
    for code in [429, 503] {
        let server = busy(code, "0", 2).await;
        let (told, client) = told(&server, |_| {}).await;
        soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
        assert_eq!(server.seen().len(), 3);
        assert_eq!(*told.retried.lock(), [("GET".to_owned(), code), ("GET".to_owned(), code)]);
        assert_eq!(*told.answers.lock(), [Some(code), Some(code), Some(200)], "each attempt is a request");
    }
}

#[tokio::test]
async fn writes_that_might_be_done_twice_and_watches_are_not_sent_again() {
    let server = busy(503, "0", 100).await;
    let client = client(&server).await;
    let params = Default::default();
    assert_eq!(status(client.create(&pods(), Some("default"), b"{}", &params).await).code, 503);
    assert_eq!(server.seen().len(), 1);
    assert_eq!(status(client.watch(&pods(), None, &WatchParams::default()).await).code, 503);
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn retries_end_with_the_policy_with_the_time_and_with_the_caller() {
    let server = busy(429, "0", 100).await;
    let policy = RetryPolicy { max_retries: 3, ..RetryPolicy::default() };
    let client = client(&server).await.with_retry_policy(policy);
    assert_eq!(status(soon(client.get(&pods(), &key("default/a"), None)).await).code, 429);
    assert_eq!(server.seen().len(), 4);

    // A wait that would outlast the call is not begun.
    let server = busy(429, "20", 100).await;
    let hasty = crate::support::client(&server).await.with_request_timeout(Duration::from_secs(10));
    assert_eq!(status(soon(hasty.get(&pods(), &key("default/a"), None)).await).code, 429);
    assert_eq!(server.seen().len(), 1);

    let server = busy(429, "20", 1).await;
    let patient = crate::support::client(&server).await;
    let call = tokio::spawn(async move { patient.get(&pods(), &key("default/a"), None).await });
    server.until_seen(1).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_list_is_asked_for_again_as_well() {
    let calls = Counter::default();
    let server = Server::start(move |_| match calls.next() {
        0 => asks_to_come_again(503, "0"),
        _ => Reply::json(page(7, "", &[pod("a", 1)])),
    })
    .await;
    let list = soon(client(&server).await.list_all(&pods(), None, &ListParams::default())).await.unwrap();
    assert_eq!((list.items.len(), server.seen().len()), (1, 2));
}

#[tokio::test]
async fn an_identity_keeps_to_its_own_limit_and_watches_do_not_count() {
    let server = Server::always(200, &pod("a", 1)).await;
    let (told, host) = told(&server, |_| {}).await;
    let limited = host.with_identity(Identity {
        user_agent: "limited/1".to_owned(),
        rate_limit: Some(RateLimit { qps: 0.5, burst: 3 }),
        ..Identity::default()
    });
    for _ in 0..3 {
        soon(limited.get(&pods(), &key("default/a"), None)).await.unwrap();
    }
    for _ in 0..20 {
        soon(host.get(&pods(), &key("default/a"), None)).await.unwrap();
        let _ = soon(limited.watch(&pods(), None, &WatchParams::default())).await;
        soon(limited.clone().without_rate_limit().get(&pods(), &key("default/a"), None)).await.unwrap();
    }
    assert_eq!(told.waited.lock().len(), 3, "what has no limit is not told of");
    let seen = server.seen().len();
    tokio::time::pause();
    let began = Instant::now();
    let hasty = limited.clone().with_request_timeout(Duration::from_millis(500));
    let error = hasty.get(&pods(), &key("default/a"), None).await.unwrap_err();
    assert!(matches!(error, Error::Transport { timeout: true, .. }), "{error:?}");
    assert!(error.to_string().contains("client-side rate limit"), "{error}");
    // Timers have steps of a millisecond.
    assert!((500..=502).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    assert_eq!(server.seen().len(), seen, "it was not sent");
    assert!(told.waited.lock().last().unwrap().as_millis() >= 500);
}

#[tokio::test]
async fn clients_of_two_servers_may_have_the_limit_of_one_identity_in_common() {
    let (home, east) = (Server::always(200, &pod("a", 1)).await, Server::always(200, &pod("a", 1)).await);
    let identity = || Identity {
        user_agent: "limited/1".to_owned(),
        rate_limit: Some(RateLimit { qps: 0.01, burst: 3 }),
        ..Identity::default()
    };
    let at_home = client(&home).await.with_identity(identity());
    let in_east = client(&east).await.with_identity_limited_with(identity(), &at_home);
    for client in [&at_home, &in_east, &in_east] {
        soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
    }
    for client in [at_home, in_east] {
        let hasty = client.with_request_timeout(Duration::from_millis(20));
        let error = soon(hasty.get(&pods(), &key("default/a"), None)).await.unwrap_err();
        assert!(error.to_string().contains("client-side rate limit"), "{error}");
    }
    assert_eq!((home.seen().len(), east.seen().len()), (1, 2));
    assert_eq!(east.seen()[0].header("user-agent"), Some("limited/1"));
}

#[tokio::test]
async fn a_limit_of_the_client_holds_for_all_identities_together() {
    let server = Server::always(200, &pod("a", 1)).await;
    let (told, host) =
        told(&server, |options| options.rate_limit = Some(RateLimit { qps: 0.01, burst: 4 })).await;
    let of =
        |agent: &str| host.with_identity(Identity { user_agent: agent.to_owned(), ..Identity::default() });
    for agent in ["a", "b", "a", "b"] {
        soon(of(agent).get(&pods(), &key("default/a"), None)).await.unwrap();
    }
    let hasty = of("a").with_request_timeout(Duration::from_millis(20));
    soon(hasty.get(&pods(), &key("default/a"), None)).await.unwrap_err();
    assert_eq!((server.seen().len(), told.waited.lock().len()), (4, 5));
}

#[tokio::test]
async fn a_limit_that_lets_nothing_through_is_refused() {
    let options = |rate_limit| ClientOptions {
        server: Some("http://127.0.0.1:1".to_owned()),
        rate_limit,
        ..ClientOptions::default()
    };
    let none = Some(RateLimit { qps: 0.0, burst: 1 });
    let error = Client::new(options(none)).await.unwrap_err();
    assert!(matches!(error, Error::Config(_)), "{error:?}");
    let client = Client::new(options(None)).await.unwrap();
    let broken = client.with_identity(Identity { rate_limit: none, ..Identity::default() });
    let error = broken.get(&pods(), &key("default/a"), None).await.unwrap_err();
    assert!(error.to_string().contains("rate limit of 0 requests a second"), "{error}");
}

#[tokio::test]
async fn lists_come_in_gzip_where_that_is_asked_for() {
    let list = page(7, "", &(0..500).map(|n| pod(&format!("p{n}"), 1)).collect::<Vec<_>>());
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(list.as_bytes()).unwrap();
    let packed = encoder.finish().unwrap();
    let server = Server::start(move |seen| match (seen.header("accept-encoding"), seen.path()) {
        (Some("gzip"), _) => Reply::new(200, packed.clone()).header("content-encoding", "gzip"),
        (_, path) if path.ends_with("/a") => Reply::json(pod("a", 1)),
        _ => Reply::json(list.clone()),
    })
    .await;
    let packed = client_with(&server, |options| options.compress_lists = true).await;
    for client in [packed.clone(), client(&server).await] {
        let list = soon(client.list_all(&pods(), None, &ListParams::default())).await.unwrap();
        assert_eq!((list.items.len(), list.meta.resource_version.as_str()), (500, "7"));
    }
    packed.get(&pods(), &key("default/a"), None).await.unwrap();
    let asked: Vec<_> =
        server.seen().iter().map(|s| s.header("accept-encoding").map(str::to_owned)).collect();
    assert_eq!(asked, [Some("gzip".to_owned()), None, None]);
}

#[tokio::test]
async fn a_list_that_is_not_what_its_encoding_says_is_refused() {
    let server = Server::start(|_| Reply::json(page(7, "", &[])).header("content-encoding", "gzip")).await;
    for compress in [true, false] {
        let client = client_with(&server, |options| options.compress_lists = compress).await;
        let error = soon(client.list_all(&pods(), None, &ListParams::default())).await.unwrap_err();
        assert!(matches!(&error, Error::Protocol { message, .. } if message.contains("gzip")), "{error:?}");
    }
}
