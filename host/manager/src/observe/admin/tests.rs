//! Who gets which answer, over real sockets.

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pilothouse_cache::Availability;
use pilothouse_client::{Client, ClientOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::access::AskServer;
use crate::manager::tests::Host;
use crate::testing::{FakeComponent, unreachable_client};

/// An API server that knows the tokens `jane` and `mary`, and lets them `get` /metrics and /plugins alone; and the number of its
/// answers.
async fn reviewing_server() -> (String, Arc<AtomicUsize>, AbortOnDropHandle<()>) {
    async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let path = request.uri().path().to_owned();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let mut review: Value = serde_json::from_slice(&body).unwrap();
        review["status"] = if path.ends_with("/tokenreviews") {
            match review["spec"]["token"].as_str() {
                Some(user @ ("jane" | "mary")) => {
                    json!({"authenticated": true, "user": {"username": user, "groups": ["g"]}})
                }
                _ => json!({"authenticated": false}),
            }
        } else {
            let spec = &review["spec"];
            let path = if spec["user"] == "mary" { "/plugins" } else { "/metrics" };
            let wanted = json!({"path": path, "verb": "get"});
            let is_allowed = spec["groups"] == json!(["g"]) && spec["nonResourceAttributes"] == wanted;
            json!({"allowed": is_allowed, "reason": "no rule"})
        };
        review["metadata"] = json!({"name": ""});
        let mut response = Response::new(Full::new(Bytes::from(review.to_string())));
        *response.status_mut() = StatusCode::CREATED;
        response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
        Ok(response)
    }
    use http::StatusCode;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&count);
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let server = hyper::server::conn::http1::Builder::new();
            let count = Arc::clone(&counted);
            let service = service_fn(move |request| {
                count.fetch_add(1, Ordering::SeqCst);
                answer(request)
            });
            tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
        }
    });
    (url, count, AbortOnDropHandle::new(serving))
}

/// The endpoints of a host with one plugin, `p`.
struct Served {
    host: Host,
    address: SocketAddr,
    log: RecentLog,
    _serving: AbortOnDropHandle<()>,
}

impl Served {
    async fn new(address: &str, token_file: Option<PathBuf>, server: AskServer) -> Self {
        let host = Host::new().await;
        host.compiler.add(b"a", FakeComponent::reconciler().0);
        host.change_to(b"a").await;
        let listener = TcpListener::bind(address).await.unwrap();
        let mut address = listener.local_addr().unwrap();
        let is_loopback = address.ip().is_loopback();
        address.set_ip([127, 0, 0, 1].into());
        let access = AdminAccess::new(is_loopback, token_file, server);
        let log = RecentLog::default();
        let endpoints = Endpoints::new(host.manager.clone(), host.metrics.clone(), access, Some(log.clone()));
        let serving = tokio::spawn(serve_connections(listener, Arc::new(endpoints)));
        Self { host, address, log, _serving: AbortOnDropHandle::new(serving) }
    }

    /// The status and the rest of an answer.
    async fn ask(&self, request: &str, token: &str) -> (u16, String) {
        ask(self.address, request, token).await.unwrap()
    }

    /// The same, by this name of the host.
    async fn ask_by_name(&self, name: &str, request: &str, token: &str) -> (u16, String) {
        ask_by_name(self.address, name, request, token).await.unwrap()
    }
}

async fn ask(address: SocketAddr, request: &str, token: &str) -> io::Result<(u16, String)> {
    ask_by_name(address, &address.to_string(), request, token).await
}

async fn ask_by_name(
    address: SocketAddr,
    name: &str,
    request: &str,
    token: &str,
) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let token = if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
    let head = format!("{request} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n{token}\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
    Ok((code, answer))
}

async fn no_server() -> AskServer {
    AskServer::new(&unreachable_client().await, Availability::new())
}

async fn asking(url: &str) -> AskServer {
    let options = ClientOptions { server: Some(url.to_owned()), ..ClientOptions::default() };
    AskServer::new(&Client::new(options).await.unwrap(), Availability::new())
}

#[tokio::test]
async fn on_loopback_everybody_reads_and_nobody_commands_without_a_token() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "sesame\n").unwrap();
    let served = Served::new("127.0.0.1:0", Some(file.clone()), no_server().await).await;
    for path in
        ["/livez", "/metrics", "/plugins", "/plugins/p", "/caches", "/log", "/", "/page.js", "/page.css"]
    {
        assert_eq!(served.ask(&format!("GET {path}"), "").await.0, 200, "{path}");
    }
    for (path, has_usage) in [("/plugins", false), ("/plugins?usage=true", true), ("/plugins/p", true)] {
        let (code, text) = served.ask(&format!("GET {path}"), "").await;
        assert_eq!((code, text.contains("\"reconcileTime\"")), (200, has_usage), "{path}: {text}");
    }
    let (code, text) = served.ask("GET /plugins/q", "").await;
    assert!(code == 404 && text.contains("there is no plugin \"q\""), "{text}");
    served.host.manager.home().answers(Some("https://10.0.0.1"));
    let (code, text) = served.ask("GET /readyz", "").await;
    assert!(code == 503 && text.ends_with("not ready: no API server yet: https://10.0.0.1\n"), "{text}");
    let pause = "POST /plugins/p/pause";
    let (code, text) = served.ask(pause, "").await;
    assert!(code == 401 && text.to_lowercase().contains("www-authenticate: bearer"), "{text}");
    assert!(text.contains("--admin-token-file"), "{text}");
    assert_eq!(served.ask(pause, "wrong").await.0, 401);
    assert_eq!(served.host.plugin().state.as_str(), "running");
    assert_eq!(served.ask(pause, "sesame").await.0, 200);
    assert_eq!(served.host.plugin().state.as_str(), "paused");
    assert_eq!(served.ask("POST /plugins/p/resume", "sesame").await.0, 200);
    let (code, text) = served.ask("POST /plugins/p/release", "sesame").await;
    assert!(code == 409 && text.contains("not in quarantine"), "{text}");
    assert_eq!(served.ask("POST /plugins/q/pause", "sesame").await.0, 404);
    assert_eq!(served.ask("POST /plugins/p/stop", "sesame").await.0, 404);
    assert_eq!(served.ask("DELETE /plugins/p", "sesame").await.0, 405);
    // A rotated token counts at once.
    std::fs::write(&file, "other").unwrap();
    assert_eq!(served.ask(pause, "sesame").await.0, 401);
    assert_eq!(served.ask(pause, "other").await.0, 200);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(served.ask(pause, "other").await.0, 503);
}

/// A web site can make its own name lead to 127.0.0.1. The browser of a visitor then sends that name.
#[tokio::test]
async fn on_loopback_who_asks_by_another_name_than_localhost_needs_a_token() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "sesame").unwrap();
    let served = Served::new("127.0.0.1:0", Some(file), no_server().await).await;
    served.host.manager.home().answers(Some("https://10.0.0.1"));
    for name in ["localhost", "LOCALHOST:9470", "127.0.0.1", "127.0.0.1:9470", "10.0.0.7:9470", "[::1]:9470"]
    {
        assert_eq!(served.ask_by_name(name, "GET /log", "").await.0, 200, "{name}");
        let (_, text) = served.ask_by_name(name, "GET /readyz", "").await;
        assert!(text.contains("https://10.0.0.1"), "{name}: {text}");
    }
    for name in
        ["rebound.example", "rebound.example:9470", "localhost.rebound.example", "127.0.0.1.nip", "", "a b"]
    {
        for path in ["/log", "/plugins", "/plugins/p", "/metrics", "/caches"] {
            let (code, text) = served.ask_by_name(name, &format!("GET {path}"), "").await;
            assert!(code == 401 && text.contains("as 127.0.0.1 or localhost"), "{name}: {text}");
            let (code, _) = served.ask_by_name(name, &format!("GET {path}"), "sesame").await;
            assert_eq!(code, 200, "{name}: {path}");
        }
        let (code, text) = served.ask_by_name(name, "GET /readyz", "").await;
        assert!(code == 503 && !text.contains("https://10.0.0.1"), "{name}: {text}");
        assert_eq!(served.ask_by_name(name, "GET /livez", "").await.0, 200, "{name}");
    }
}

#[tokio::test]
async fn a_long_path_is_refused_before_anything_is_done_with_it() {
    let (url, count, _server) = reviewing_server().await;
    let served = Served::new("0.0.0.0:0", None, asking(&url).await).await;
    let path = |length: usize| format!("/plugins/{}", "p".repeat(length - "/plugins/".len()));
    for method in ["GET", "POST"] {
        let (code, text) = served.ask(&format!("{method} {}", path(2049)), "jane").await;
        assert!(code == 414 && text.contains("2048 bytes at most"), "{method}: {text}");
    }
    let (code, text) = served.ask(&format!("GET /log?after={}", "1".repeat(2048)), "jane").await;
    assert_eq!(code, 414, "{text}");
    assert_eq!(count.load(Ordering::SeqCst), 0, "nothing was asked of the API server");
    assert_eq!(served.ask(&format!("GET {}", path(2048)), "jane").await.0, 403);
}

#[tokio::test]
async fn elsewhere_a_token_is_reviewed_and_health_has_reasons_for_those_who_may_read_plugins() {
    let (url, _, _server) = reviewing_server().await;
    let served = Served::new("0.0.0.0:0", None, asking(&url).await).await;
    let (code, text) = served.ask("GET /metrics", "").await;
    assert!(code == 401 && text.contains("a token is needed"), "{text}");
    let (code, text) = served.ask("GET /metrics", "joe").await;
    assert!(code == 401 && text.contains("does not know the token"), "{text}");
    let (code, text) = served.ask("GET /metrics", "jane").await;
    assert!(code == 200 && text.contains("pilothouse_denied_total{plugin=\"p\""), "{text}");
    for refused in [
        "GET /plugins",
        "GET /plugins?usage=true",
        "GET /plugins/p",
        "GET /caches",
        "GET /log",
        "POST /plugins/p/pause",
    ] {
        assert_eq!(served.ask(refused, "").await.0, 401, "{refused}");
        let (code, text) = served.ask(refused, "jane").await;
        assert!(code == 403 && text.contains("user jane may not"), "{refused}: {text}");
        assert!(text.contains("nonResourceURLs") && text.contains("no rule"), "{refused}: {text}");
    }
    assert_eq!(served.host.plugin().state.as_str(), "running");
    served.host.manager.home().answers(Some("https://10.0.0.1"));
    for (path, words) in [("/livez", "ok"), ("/healthz", "ok, not ready"), ("/readyz", "not ready")] {
        for token in ["", "joe", "jane"] {
            let (_, text) = served.ask(&format!("GET {path}"), token).await;
            assert!(text.ends_with(&format!("{words}\n")) && !text.contains("10.0.0.1"), "{token}: {text}");
        }
    }
    let (code, text) = served.ask("GET /readyz", "mary").await;
    assert!(code == 503 && text.ends_with("not ready: no API server yet: https://10.0.0.1\n"), "{text}");
}

#[tokio::test]
async fn an_answer_is_remembered_and_an_api_server_that_is_away_allows_nothing_new() {
    let (url, count, _server) = reviewing_server().await;
    let served = Served::new("0.0.0.0:0", None, asking(&url).await).await;
    for _ in 0..3 {
        assert_eq!(served.ask("GET /metrics", "jane").await.0, 200);
    }
    assert_eq!(count.load(Ordering::SeqCst), 2, "whose token it is, and what she may do");
    assert_eq!(served.ask("GET /metrics", "joe").await.0, 401);
    assert_eq!(count.load(Ordering::SeqCst), 3);
    let mut codes = Vec::new();
    for n in 0..50 {
        codes.push(served.ask("GET /metrics", &format!("guess-{n}")).await.0);
    }
    assert!(codes.starts_with(&[401; 10]) && codes.contains(&429), "{codes:?}");
    assert_eq!(served.ask("GET /metrics", "jane").await.0, 200, "who is known is not concerned");
    // Not even when her answer is over and has to be asked for again. The bucket has a clock of its own.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    let mut n = 0;
    while served.ask("GET /metrics", &format!("another-{n}")).await.0 != 429 {
        n += 1;
        assert!(n < 1000, "made-up tokens are reviewed without a bound");
    }
    let before = count.load(Ordering::SeqCst);
    assert_eq!(served.ask("GET /metrics", "jane").await.0, 200);
    assert_eq!(count.load(Ordering::SeqCst), before + 2, "she was reviewed again");
    let served = Served::new("0.0.0.0:0", None, no_server().await).await;
    let (code, text) = served.ask("GET /metrics", "jane").await;
    assert!(code == 503 && text.contains("cannot be asked about the token"), "{text}");
}

#[tokio::test]
async fn health_asks_about_a_token_only_when_there_is_a_reason_to_tell() {
    let (url, count, _server) = reviewing_server().await;
    let served = Served::new("0.0.0.0:0", None, asking(&url).await).await;
    let (code, text) = served.ask("GET /livez", "mary").await;
    assert!(code == 200 && text.ends_with("\r\nok\n"), "{text}");
    let (code, text) = served.ask("GET /readyz", "").await;
    assert!(code == 503 && text.ends_with("\r\nnot ready\n"), "{text}");
    assert_eq!(count.load(Ordering::SeqCst), 0, "nothing to tell, and nobody to tell it");
    let (code, text) = served.ask("GET /readyz", "mary").await;
    assert!(code == 503 && text.contains("not ready: "), "{text}");
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

/// On the paused clock time passes when nothing happens.
#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_delays_health_for_half_a_second_and_without_a_token_not_at_all() {
    // It takes connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let access = AdminAccess::new(false, None, asking(&url).await);
    let began = tokio::time::Instant::now();
    assert!(!access.may_see_reasons(&http::HeaderMap::new()).await);
    assert_eq!(began.elapsed(), Duration::ZERO);
    let mut headers = http::HeaderMap::new();
    headers.insert(http::header::AUTHORIZATION, http::HeaderValue::from_static("Bearer mary"));
    let asked = tokio::time::timeout(Duration::from_secs(1), access.may_see_reasons(&headers)).await;
    assert_eq!(asked, Ok(false), "the question ends before a probe would");
    assert!(began.elapsed() >= Duration::from_millis(500));
}

#[tokio::test]
async fn the_address_of_health_has_health_alone() {
    let host = Host::new().await;
    host.manager.home().answers(Some("https://10.0.0.1"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let health = serve_connections(listener, Arc::new(Health(host.manager.clone())));
    let _serving = AbortOnDropHandle::new(tokio::spawn(health));
    let (code, text) = ask(address, "GET /readyz", "").await.unwrap();
    assert!(code == 503 && text.ends_with("\r\nnot ready\n"), "{text}");
    assert_eq!(ask(address, "GET /livez", "").await.unwrap().0, 200);
    for path in ["/metrics", "/plugins", "/plugins/p"] {
        assert_eq!(ask(address, &format!("GET {path}"), "").await.unwrap().0, 404);
    }
    assert_eq!(ask(address, "POST /plugins/p/pause", "").await.unwrap().0, 405);
}

/// On the paused clock time passes when nothing happens.
#[tokio::test(start_paused = true)]
async fn connections_are_bounded_in_number_and_time() {
    let host = Host::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let health = serve_connections(listener, Arc::new(Health(host.manager.clone())));
    let _serving = AbortOnDropHandle::new(tokio::spawn(health));
    // More than are served at a time, and none says a word.
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let began = tokio::time::Instant::now();
    for stream in &mut silent {
        let mut rest = Vec::new();
        // Closed, with or without a word about it.
        let _ = stream.read_to_end(&mut rest).await;
    }
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(60), "{took:?}");
    assert_eq!(ask(address, "GET /livez", "").await.unwrap().0, 200);
    // After its answer a connection is closed, though the client would keep it.
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"), "{answer}");
}

/// On the paused clock time passes when nothing happens.
#[tokio::test(start_paused = true)]
async fn connections_that_say_nothing_or_half_a_request_keep_nobody_from_being_answered() {
    let host = Host::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let health = serve_connections(listener, Arc::new(Health(host.manager.clone())));
    let _serving = AbortOnDropHandle::new(tokio::spawn(health));
    let mut silent = Vec::new();
    for number in 0..500 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        if number % 2 == 0 {
            stream.write_all(b"GET /livez HT").await.unwrap();
        }
        silent.push(stream);
    }
    let began = tokio::time::Instant::now();
    assert_eq!(ask(address, "GET /livez", "").await.unwrap().0, 200);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(1), "a probe would have ended: {took:?}");
    // The last ones had no need to go: they have their whole time.
    let mut rest = Vec::new();
    let _ = silent.pop().unwrap().read_to_end(&mut rest).await;
    assert!(began.elapsed() >= Duration::from_secs(9), "{:?}", began.elapsed());
}

/// Answers when it is told to.
struct Told {
    asked: Semaphore,
    told: Semaphore,
}

impl super::connections::Answering for Told {
    fn answer(
        self: Arc<Self>,
        _request: Request<Incoming>,
    ) -> futures_util::future::BoxFuture<'static, Response<Full<Bytes>>> {
        Box::pin(async move {
            self.asked.add_permits(1);
            let _told = self.told.acquire().await;
            Response::default()
        })
    }
}

#[tokio::test]
async fn silent_connections_end_none_that_is_being_answered() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let told = Arc::new(Told { asked: Semaphore::new(0), told: Semaphore::new(0) });
    let _serving = AbortOnDropHandle::new(tokio::spawn(serve_connections(listener, Arc::clone(&told))));
    let mut asking = TcpStream::connect(address).await.unwrap();
    asking.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let _asked = told.asked.acquire().await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let mut rest = Vec::new();
    // The oldest of them had to go.
    let _ = silent[0].read_to_end(&mut rest).await;
    told.told.add_permits(1);
    let mut answer = String::new();
    asking.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn the_web_page_has_no_data_and_takes_scripts_of_this_address_alone() {
    let served = Served::new("0.0.0.0:0", None, no_server().await).await;
    served.log.push("WARN", "guest", Some("p"), "hello", "");
    for path in ["/", "/page.js", "/page.css"] {
        let (code, text) = served.ask(&format!("GET {path}"), "").await;
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let head = head.to_lowercase();
        assert!(code == 200 && !body.contains("hello") && !body.contains("sha256:"), "{path}: {text}");
        assert!(head.contains("content-security-policy: default-src 'none'; script-src 'self';"), "{head}");
        assert!(head.contains("x-content-type-options: nosniff"), "{head}");
        for unsafe_word in ["unsafe-inline", "unsafe-eval", "http:", "*"] {
            assert!(!head.contains(unsafe_word), "{head}");
        }
    }
    assert_eq!(served.ask("POST /", "").await.0, 404);
}

#[tokio::test]
async fn the_log_comes_line_by_line_and_no_line_twice() {
    let served = Served::new("127.0.0.1:0", None, no_server().await).await;
    served.log.push("WARN", "guest", Some("p"), "<b>hello</b>", "key=ns/x");
    let page =
        |text: String| -> Value { serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap() };
    let first = page(served.ask("GET /log", "").await.1);
    let line = &first["lines"][0];
    assert_eq!((&line["message"], &line["plugin"]), (&json!("<b>hello</b>"), &json!("p")), "{first}");
    assert_eq!((&first["next"], &first["missed"]), (&json!(1), &json!(0)), "{first}");
    assert_eq!(page(served.ask("GET /log?after=1", "").await.1)["lines"], json!([]));
    served.log.push("INFO", "guest", None, "more", "");
    assert_eq!(page(served.ask("GET /log?after=1", "").await.1)["lines"][0]["message"], json!("more"));
}
