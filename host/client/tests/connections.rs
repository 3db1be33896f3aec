//! Connections that are full, refuse, close or fall silent, and what becomes of the calls.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use parking_lot::Mutex;
use pilothouse_client::{Client, ClientOptions, Error, RetryPolicy, WatchParams, WriteGate};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::support::{Kubeconfig, Reply, Seen, Server, key, pod, pods, soon, tls};

type Held = Arc<Mutex<Vec<oneshot::Sender<()>>>>;

async fn plain(url: String) -> Client {
    Client::new(ClientOptions { server: Some(url), ..ClientOptions::default() }).await.unwrap()
}

/// What lets answers go, and a pod to all; what asks for the pod of this name waits until then.
fn holding(name: &'static str) -> (Held, impl Fn(&Seen) -> Reply + Send + Sync) {
    let held = Held::default();
    let holder = Arc::clone(&held);
    let answer = move |seen: &Seen| {
        let reply = Reply::json(pod("a", 1));
        if !seen.path().contains(name) {
            return reply;
        }
        let (release, reply) = reply.held();
        holder.lock().push(release);
        reply
    };
    (held, answer)
}

#[tokio::test]
async fn requests_beyond_what_a_peer_serves_at_once_get_connections_of_their_own() {
    let tls = tls(&["h2"]);
    let (held, answer) = holding("held");
    let server = Server::start_tls_narrow(tls.server.clone(), 10, answer).await;
    let client = Kubeconfig::trusting(&server.url, &tls).client().await.unwrap();
    // The peer's settings are there with the first answer.
    client.get(&pods(), &key("default/a"), None).await.unwrap();
    let mut calls = JoinSet::new();
    for _ in 0..40 {
        let client = client.clone();
        calls.spawn(async move { client.get(&pods(), &key("default/held"), None).await.unwrap() });
    }
    // All of them are under way although none has an answer.
    server.until_seen(41).await;
    let mut on = [0; 16];
    server.seen()[1..].iter().for_each(|seen| on[seen.connection] += 1);
    assert!(on.iter().all(|calls| *calls <= 8), "{on:?}");
    held.lock().drain(..).for_each(|release| release.send(()).unwrap());
    soon(calls.join_all()).await;
    // A flood's connections are not used for what one can carry.
    for _ in 0..20 {
        client.get(&pods(), &key("default/a"), None).await.unwrap();
    }
    assert!(server.seen()[41..].iter().all(|seen| seen.connection == 0));
}

#[tokio::test]
async fn calls_beyond_the_limit_of_connections_wait_and_are_told_of_it() {
    let tls = tls(&["h2"]);
    let (held, answer) = holding("held");
    let server = Server::start_tls_narrow(tls.server.clone(), 10, answer).await;
    let kubeconfig = Kubeconfig::trusting(&server.url, &tls);
    let options = ClientOptions { max_connections: 2, ..kubeconfig.options() };
    let client = Client::new(options).await.unwrap();
    client.get(&pods(), &key("default/a"), None).await.unwrap();
    let mut calls = JoinSet::new();
    for _ in 0..20 {
        let client = client.clone();
        calls.spawn(async move { client.get(&pods(), &key("default/held"), None).await.unwrap() });
    }
    server.until_seen(21).await;
    assert!(server.seen().iter().all(|seen| seen.connection < 2));
    // The 21st is not sent, whatever its verb, and says why.
    let hasty = client.clone().with_request_timeout(Duration::from_millis(50));
    let create = async || hasty.create(&pods(), Some("default"), b"{}", &Default::default()).await;
    let error = soon(create()).await.unwrap_err();
    assert!(matches!(error, Error::Transport { timeout: true, unsent: true, .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("20 calls") && text.contains("all 2 connections"), "{text}");
    assert!(text.contains("max_connections"), "{text}");
    assert_eq!(server.seen().len(), 21);
    // A client with connections of its own does not wait for them.
    let own = client.clone().with_own_connections();
    soon(own.get(&pods(), &key("default/a"), None)).await.unwrap();
    assert_eq!(server.seen().pop().unwrap().connection, 2);
    // One that waits goes on when a place falls free.
    let waiting = client.clone();
    let waiting = tokio::spawn(async move { waiting.get(&pods(), &key("default/a"), None).await.unwrap() });
    let release = held.lock().pop().unwrap();
    release.send(()).unwrap();
    soon(waiting).await.unwrap();
    held.lock().drain(..).for_each(|release| release.send(()).unwrap());
    soon(calls.join_all()).await;
}

#[tokio::test]
async fn a_write_that_may_not_be_sent_any_more_is_not_sent_after_a_wait_for_a_place_either() {
    let tls = tls(&["h2"]);
    let (held, answer) = holding("held");
    let server = Server::start_tls_narrow(tls.server.clone(), 10, answer).await;
    let kubeconfig = Kubeconfig::trusting(&server.url, &tls);
    let options = ClientOptions { max_connections: 2, ..kubeconfig.options() };
    let open = Arc::new(AtomicBool::new(true));
    let may_write = Arc::clone(&open);
    let gate = WriteGate::new(move || match may_write.load(SeqCst) {
        true => Ok(()),
        false => Err("the term is over".to_owned()),
    });
    let client = Client::new(options).await.unwrap().with_write_gate(gate);
    let create = |client: Client| async move {
        client.create(&pods(), Some("default"), b"{}", &Default::default()).await
    };
    create(client.clone()).await.unwrap();
    let mut calls = JoinSet::new();
    for _ in 0..20 {
        let client = client.clone();
        calls.spawn(async move { client.get(&pods(), &key("default/held"), None).await.unwrap() });
    }
    server.until_seen(21).await;
    // All places are taken: it waits.
    let mut waiting = tokio::spawn(create(client.clone()));
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut waiting).await.is_err());
    open.store(false, SeqCst);
    held.lock().pop().unwrap().send(()).unwrap();
    let error = soon(waiting).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Transport { unsent: true, timeout: false, .. }), "{error:?}");
    assert!(error.to_string().ends_with("not sent: the term is over"), "{error}");
    // Reads are.
    client.get(&pods(), &key("default/a"), None).await.unwrap();
    assert_eq!(server.seen().len(), 22);
    held.lock().drain(..).for_each(|release| release.send(()).unwrap());
    soon(calls.join_all()).await;
}

#[tokio::test]
async fn connections_on_another_runtime_live_and_end_with_that_one() {
    let tls = tls(&["h2"]);
    let server = Server::start_tls(tls.server.clone(), |_| Reply::json(pod("a", 1))).await;
    let client = Kubeconfig::trusting(&server.url, &tls).client().await.unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let other = client.clone().with_connections_on(runtime.handle());
    for client in [&client, &other] {
        soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
    }
    let connections: Vec<_> = server.seen().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [0, 1]);
    runtime.shutdown_background();
    let error = soon(other.get(&pods(), &key("default/a"), None)).await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error:?}");
    soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
    assert_eq!(server.seen().pop().unwrap().connection, 0);
}

#[tokio::test]
async fn calls_that_wait_for_one_connection_fail_with_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let (release, mut released) = watch::channel(false);
    let accepted = tokio::spawn(async move {
        for number in 1.. {
            let (tcp, _) = listener.accept().await.unwrap();
            released.wait_for(|released| *released).await.unwrap();
            drop((tcp, &listener));
            if number > 1 {
                return number;
            }
        }
        0
    });
    let tls = tls(&["h2"]);
    let client = Kubeconfig::trusting(&url, &tls).client().await.unwrap();
    let mut calls = JoinSet::new();
    for _ in 0..50 {
        let client = client.clone();
        calls.spawn(async move { client.get(&pods(), &key("default/a"), None).await.unwrap_err() });
    }
    while calls.try_join_next().is_some() {}
    release.send(true).unwrap();
    for error in soon(calls.join_all()).await {
        assert!(matches!(error, Error::Transport { .. }), "{error:?}");
    }
    assert!(!accepted.is_finished(), "fifty calls, one connection");
    accepted.abort();
}

#[tokio::test]
async fn a_call_that_meets_a_connection_which_has_closed_goes_over_another() {
    // HTTP/1.1: each connection serves one call and is closed without a word.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let client = plain(format!("http://{}", listener.local_addr().unwrap())).await;
    let (close, may_close) = std::sync::mpsc::channel();
    let (closed, is_closed) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        for _ in 0..5 {
            let (mut tcp, _) = listener.accept().unwrap();
            let mut buffer = [0; 4096];
            let read = tcp.read(&mut buffer).unwrap();
            assert!(buffer[..read].starts_with(b"POST"));
            let body = pod("a", 1);
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            tcp.write_all(answer.as_bytes()).unwrap();
            may_close.recv().unwrap();
            drop(tcp);
            closed.send(()).unwrap();
        }
    });
    let settle = || async {
        // Those who have something to do have done it, the connection's task among them.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    };
    for _ in 0..5 {
        // Not even an idempotent verb: what was not sent may be sent.
        soon(client.create(&pods(), Some("default"), b"{}", &Default::default())).await.unwrap();
        settle().await;
        close.send(()).unwrap();
        is_closed.recv().unwrap();
        settle().await;
    }
    server.join().unwrap();
}

#[tokio::test]
async fn a_stream_that_is_refused_goes_over_again_and_a_reset_one_does_not() {
    let tls = tls(&["h2"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let acceptor = TlsAcceptor::from(tls.server.clone());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let server = tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let stream = acceptor.accept(tcp).await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            let seen = Arc::clone(&seen);
            tokio::spawn(async move {
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    let path = request.uri().path().to_owned();
                    let times = {
                        let mut seen = seen.lock();
                        seen.push(path.clone());
                        seen.iter().filter(|before| **before == path).count()
                    };
                    match (path.rsplit('/').next().unwrap(), times) {
                        ("refused", 1 | 2) => respond.send_reset(h2::Reason::REFUSED_STREAM),
                        ("reset", _) => respond.send_reset(h2::Reason::INTERNAL_ERROR),
                        ("always", _) => respond.send_reset(h2::Reason::REFUSED_STREAM),
                        _ => {
                            let mut body = respond.send_response(Response::new(()), false).unwrap();
                            body.send_data(Bytes::from(pod("a", 1)), true).unwrap();
                        }
                    }
                }
            });
        }
    });
    let client = Kubeconfig::trusting(&url, &tls).client().await.unwrap();
    let times = |name: &str| asked.lock().iter().filter(|path| path.ends_with(name)).count();
    soon(client.get(&pods(), &key("default/refused"), None)).await.unwrap();
    assert_eq!(times("refused"), 3);
    soon(client.get(&pods(), &key("default/reset"), None)).await.unwrap_err();
    assert_eq!(times("reset"), 1);
    soon(client.get(&pods(), &key("default/always"), None)).await.unwrap_err();
    assert_eq!(times("always"), 4, "within bounds");
    server.abort();
}

/// A line to a server that can be cut without a word; later connections pass.
async fn line(upstream: std::net::SocketAddr) -> (String, watch::Sender<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let (cut, is_cut) = watch::channel(false);
    tokio::spawn(async move {
        for number in 0.. {
            let (near, _) = listener.accept().await.unwrap();
            let mut is_cut = is_cut.clone();
            tokio::spawn(async move {
                let far = TcpStream::connect(upstream).await.unwrap();
                let ((mut a, mut b), (mut c, mut d)) = (near.into_split(), far.into_split());
                tokio::select! {
                    _ = copy(&mut a, &mut d) => {}
                    _ = copy(&mut c, &mut b) => {}
                    _ = is_cut.wait_for(|cut| *cut && number == 0) => {}
                }
                // Both ends stay open, and nothing passes.
                std::future::pending::<()>().await;
                drop((a, b, c, d));
            });
        }
    });
    (url, cut)
}

#[tokio::test]
async fn after_a_call_without_a_byte_in_its_time_the_next_takes_another_connection() {
    let tls = tls(&["h2"]);
    let server = Server::start_tls(tls.server.clone(), |_| Reply::json(pod("a", 1))).await;
    let (url, cut) = line(server.address).await;
    let client = Kubeconfig::trusting(&url, &tls).client().await.unwrap();
    let client = client.with_request_timeout(Duration::from_secs(5));
    soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
    cut.send(true).unwrap();
    tokio::time::pause();
    let error = client.get(&pods(), &key("default/a"), None).await.unwrap_err();
    assert!(matches!(error, Error::Transport { timeout: true, .. }), "{error:?}");
    tokio::time::resume();
    soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
    let connections: Vec<_> = server.seen().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [0, 1]);
}

#[tokio::test]
async fn a_slow_answer_does_not_cost_a_connection_that_lives() {
    let tls = tls(&["h2"]);
    let (_held, answer) = holding("slow");
    let server = Server::start_tls(tls.server.clone(), answer).await;
    let client = Kubeconfig::trusting(&server.url, &tls).client().await.unwrap();
    let impatient = client.clone().with_request_timeout(Duration::from_secs(5));
    let slow = tokio::spawn(async move { impatient.get(&pods(), &key("default/slow"), None).await });
    server.until_seen(1).await;
    soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(6)).await;
    slow.await.unwrap().unwrap_err();
    tokio::time::resume();
    soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
    assert!(server.seen().iter().all(|seen| seen.connection == 0));
}

#[tokio::test]
async fn a_watch_given_up_at_once_says_nothing_of_its_connection() {
    let tls = tls(&["h2"]);
    let held = Arc::new(Mutex::new(Vec::new()));
    let server = Server::start_tls(tls.server.clone(), move |_| {
        let (release, reply) = Reply::json("").held();
        held.lock().push(release);
        reply
    })
    .await;
    let client = Kubeconfig::trusting(&server.url, &tls).client().await.unwrap();
    for number in 1..=5 {
        let (params, pods) = (WatchParams::default(), pods());
        tokio::select! {
            biased;
            _ = client.watch(&pods, None, &params) => panic!("it has no answer"),
            () = server.until_seen(number) => {}
        }
    }
    assert!(server.seen().iter().all(|seen| seen.connection == 0));
}

#[tokio::test]
async fn a_server_that_closes_each_connection_at_once_is_told_as_such() {
    let tls = tls(&["h2"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let acceptor = TlsAcceptor::from(tls.server.clone());
    let server = tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            // The handshake is good, and that is all.
            let _ = acceptor.accept(tcp).await;
        }
    });
    let client = Kubeconfig::trusting(&url, &tls).client().await.unwrap();
    let client = client.with_retry_policy(RetryPolicy::none());
    let error = soon(client.get(&pods(), &key("default/a"), None)).await.unwrap_err();
    assert!(matches!(error, Error::Transport { timeout: false, .. }), "{error:?}");
    server.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_connection_that_was_just_made_is_used() {
    let server = Server::always(200, &pod("a", 1)).await;
    let client = crate::support::client(&server).await;
    // In the task queue of the one worker, as the calls of reflectors are.
    let calls = tokio::spawn(async move {
        for _ in 0..20 {
            client.get(&pods(), &key("default/a"), None).await.unwrap();
        }
    });
    soon(calls).await.unwrap();
    assert!(server.seen().iter().all(|seen| seen.connection == 0), "{:?}", server.seen());
}

#[tokio::test]
async fn a_failure_that_nobody_waited_for_is_not_the_answer_to_a_later_call() {
    let tls = tls(&["h2"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = Kubeconfig::trusting(&format!("https://{address}"), &tls).client().await.unwrap();
    let hasty = client.clone();
    let call = tokio::spawn(async move { hasty.get(&pods(), &key("default/a"), None).await });
    let (tcp, _) = listener.accept().await.unwrap();
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    // The handshake fails now, and nobody is there to hear it.
    drop(tcp);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let server = tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        let stream = TlsAcceptor::from(tls.server.clone()).accept(tcp).await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            let mut body = respond.send_response(Response::new(()), false).unwrap();
            body.send_data(Bytes::from(pod("a", 1)), true).unwrap();
        }
    });
    soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
    server.abort();
}

#[tokio::test]
async fn a_call_that_a_server_on_its_way_out_has_not_taken_goes_over_another_connection() {
    // Frames: an empty SETTINGS, its acknowledgement, and a GOAWAY that says that no stream was processed.
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const ACKNOWLEDGED: [u8; 9] = [0, 0, 0, 4, 1, 0, 0, 0, 0];
    const GOAWAY: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    const PREFACE: usize = 24;

    let tls = tls(&["h2"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let acceptor = TlsAcceptor::from(tls.server.clone());
    let server = tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        let mut leaving = acceptor.accept(tcp).await.unwrap();
        leaving.write_all(&SETTINGS).await.unwrap();
        leaving.read_exact(&mut [0; PREFACE]).await.unwrap();
        loop {
            let mut head = [0; 9];
            leaving.read_exact(&mut head).await.unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            leaving.read_exact(&mut vec![0; length]).await.unwrap();
            // Headers: the call is there.
            if head[3] == 1 {
                break;
            }
        }
        leaving.write_all(&[&ACKNOWLEDGED[..], &GOAWAY[..]].concat()).await.unwrap();
        leaving.flush().await.unwrap();
        let (tcp, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(acceptor.accept(tcp).await.unwrap()).await.unwrap();
        let mut asked = 0;
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            assert_eq!(request.method(), http::Method::POST);
            asked += 1;
            let mut body = respond.send_response(Response::new(()), false).unwrap();
            body.send_data(Bytes::from(pod("a", 1)), true).unwrap();
            assert_eq!(asked, 1);
        }
    });
    let client = Kubeconfig::trusting(&url, &tls).client().await.unwrap();
    soon(client.create(&pods(), Some("default"), b"{}", &Default::default())).await.unwrap();
    server.abort();
}
