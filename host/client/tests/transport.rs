//! Connections: how many, over what, and what happens when one goes.

use std::time::Duration;

use http::Version;
use parking_lot::Mutex;
use pilothouse_client::{Client, ClientOptions, Error, WatchEvent, WatchParams};
use tokio::io::{AsyncReadExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::support::{Kubeconfig, Reply, Server, client, event, key, pod, pods, soon, tls};

/// Opens watches on `?watch`, answers a pod to the rest; the watches stay open.
fn pods_and_watches() -> impl Fn(&crate::support::Seen) -> Reply + Send + Sync {
    let open = Mutex::new(Vec::new());
    move |seen| {
        if seen.query("watch").is_none() {
            return Reply::json(pod("a", 1));
        }
        let (sender, reply) = Reply::pieces();
        sender.send(Ok(event("ADDED", &pod("a", 1)).into())).unwrap();
        open.lock().push(sender);
        reply
    }
}

#[tokio::test]
async fn requests_share_one_http2_connection_and_watches_another() {
    let tls = tls(&["h2", "http/1.1"]);
    let server = Server::start_tls(tls.server.clone(), pods_and_watches()).await;
    let client = Kubeconfig::trusting(&server.url, &tls).client().await.unwrap();
    // All of them find no connection yet.
    let mut calls = JoinSet::new();
    for _ in 0..30 {
        let client = client.clone();
        calls.spawn(async move { drop(client.get(&pods(), &key("default/a"), None).await.unwrap()) });
    }
    soon(calls.join_all()).await;
    let mut watches = Vec::new();
    for _ in 0..30 {
        watches.push(soon(client.watch(&pods(), None, &WatchParams::default())).await.unwrap());
    }
    let seen = server.seen();
    assert_eq!(seen.len(), 60);
    assert!(seen.iter().all(|seen| seen.version == Version::HTTP_2));
    let (requests, watches): (Vec<_>, Vec<_>) = seen.iter().partition(|seen| seen.query("watch").is_none());
    assert!(requests.iter().all(|seen| seen.connection == 0), "{requests:?}");
    assert!(watches.iter().all(|seen| seen.connection == 1), "{watches:?}");
}

#[tokio::test]
async fn more_watches_than_a_connection_serves_get_another() {
    let tls = tls(&["h2"]);
    let server = Server::start_tls(tls.server.clone(), pods_and_watches()).await;
    let client = Kubeconfig::trusting(&server.url, &tls).client().await.unwrap();
    let mut watches = Vec::new();
    for _ in 0..170 {
        watches.push(soon(client.watch(&pods(), None, &WatchParams::default())).await.unwrap());
    }
    for watch in &mut watches {
        assert!(matches!(soon(watch.next()).await, Some(Ok(WatchEvent::Added(_)))));
    }
    soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
    let connections =
        |seen: Vec<crate::support::Seen>| seen.iter().map(|seen| seen.connection).max().unwrap() + 1;
    assert_eq!(connections(server.seen()), 4);
    // Places that have become free are used again.
    watches.truncate(1);
    watches.push(soon(client.watch(&pods(), None, &WatchParams::default())).await.unwrap());
    assert_eq!(connections(server.seen()), 4);
}

#[tokio::test]
async fn watches_over_http1_do_not_block_requests() {
    for protocols in [None, Some(&["http/1.1"][..])] {
        let tls = tls(protocols.unwrap_or_default());
        let (server, client) = match protocols {
            None => {
                let server = Server::start(pods_and_watches()).await;
                let client = client(&server).await;
                (server, client)
            }
            Some(_) => {
                let server = Server::start_tls(tls.server.clone(), pods_and_watches()).await;
                let client = Kubeconfig::trusting(&server.url, &tls).client().await.unwrap();
                (server, client)
            }
        };
        let mut watches = Vec::new();
        for _ in 0..20 {
            watches.push(soon(client.watch(&pods(), None, &WatchParams::default())).await.unwrap());
        }
        soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
        assert!(server.seen().iter().all(|seen| seen.version == Version::HTTP_11));
    }
}

#[tokio::test]
async fn a_watch_that_nobody_reads_does_not_hold_up_the_others() {
    let tls = tls(&["h2"]);
    let senders = std::sync::Arc::new(Mutex::new(Vec::new()));
    let kept = senders.clone();
    let server = Server::start_tls(tls.server.clone(), move |_| {
        let (sender, reply) = Reply::pieces();
        kept.lock().push(sender);
        reply
    })
    .await;
    let client = Kubeconfig::trusting(&server.url, &tls).client().await.unwrap();
    let mut unread = Vec::new();
    for _ in 0..20 {
        unread.push(soon(client.watch(&pods(), None, &WatchParams::default())).await.unwrap());
    }
    let megabyte = vec![b' '; 1 << 20];
    for sender in senders.lock().iter() {
        for _ in 0..4 {
            sender.send(Ok(megabyte.clone().into())).unwrap();
        }
    }
    let mut read = soon(client.watch(&pods(), None, &WatchParams::default())).await.unwrap();
    senders.lock().last().unwrap().send(Ok(event("ADDED", &pod("a", 1)).into())).unwrap();
    assert!(matches!(soon(read.next()).await, Some(Ok(WatchEvent::Added(_)))));
}

#[tokio::test]
async fn nobody_listening_is_told_as_such() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let options = ClientOptions { server: Some(format!("http://{address}")), ..ClientOptions::default() };
    let client = Client::new(options).await.unwrap();
    let error = client.get(&pods(), &key("default/a"), None).await.unwrap_err();
    assert!(error.is_connection_refused(), "{error:?}");
    let text = error.to_string();
    assert!(text.starts_with(&format!("GET http://{address}/api/v1/")) && text.contains("refused"), "{text}");
    let error = client.watch(&pods(), None, &WatchParams::default()).await.unwrap_err();
    assert!(error.is_connection_refused(), "{error:?}");
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused_with_a_remedy() {
    let (ours, theirs) = (tls(&["h2"]), tls(&["h2"]));
    let server = Server::start_tls(theirs.server, pods_and_watches()).await;
    let client = Kubeconfig::trusting(&server.url, &ours).client().await.unwrap();
    let text = client.get(&pods(), &key("default/a"), None).await.unwrap_err().to_string();
    assert!(text.contains("certificate-authority of the kubeconfig's cluster"), "{text}");
    // The name in the certificate may differ from the address, when the kubeconfig says so.
    let kubeconfig = Kubeconfig::new(
        &server.url.replace("127.0.0.1", "localhost"),
        &["certificate-authority: ca.pem", "tls-server-name: 127.0.0.1"],
        &[],
    );
    kubeconfig.file("ca.pem", &theirs.ca);
    kubeconfig.client().await.unwrap().get(&pods(), &key("default/a"), None).await.unwrap();
    let insecure = Kubeconfig::new(&server.url, &["insecure-skip-tls-verify: true"], &[]);
    insecure.client().await.unwrap().get(&pods(), &key("default/a"), None).await.unwrap();
}

#[tokio::test]
async fn a_server_that_hangs_up_gets_no_second_try() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let accepted = tokio::spawn(async move {
        for number in 1.. {
            let (mut tcp, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 1024];
            let read = tcp.read(&mut buffer).await.unwrap();
            if buffer[..read].starts_with(b"DELETE") {
                return number;
            }
        }
        0
    });
    let client = Client::new(ClientOptions { server: Some(url), ..ClientOptions::default() }).await.unwrap();
    let error = soon(client.get(&pods(), &key("default/a"), None)).await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error:?}");
    soon(client.delete(&pods(), &key("default/a"), &Default::default())).await.unwrap_err();
    assert_eq!(soon(accepted).await.unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_outlive_the_runtime_that_a_call_came_from() {
    let tls = tls(&["h2"]);
    let server = Server::start_tls(tls.server.clone(), pods_and_watches()).await;
    let client = Kubeconfig::trusting(&server.url, &tls).client().await.unwrap();
    let guest = client.clone();
    let mut watch = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            guest.get(&pods(), &key("default/a"), None).await.unwrap();
            guest.watch(&pods(), None, &WatchParams::default()).await.unwrap()
        })
    })
    .join()
    .unwrap();
    soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
    assert!(matches!(soon(watch.next()).await, Some(Ok(WatchEvent::Added(_)))));
    assert_eq!(server.seen().iter().filter(|seen| seen.connection == 0).count(), 2);
}

#[tokio::test]
async fn a_peer_that_has_vanished_is_noticed_by_pings() {
    let tls = tls(&["h2"]);
    let server = Server::start_tls(tls.server.clone(), pods_and_watches()).await;
    // Bytes pass through here until the line is cut without a word.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let upstream = server.address;
    let (cut, mut is_cut) = tokio::sync::watch::channel(false);
    let line = tokio::spawn(async move {
        let (near, _) = listener.accept().await.unwrap();
        let far = TcpStream::connect(upstream).await.unwrap();
        let ((mut a, mut b), (mut c, mut d)) = (near.into_split(), far.into_split());
        tokio::select! {
            _ = copy(&mut a, &mut d) => {}
            _ = copy(&mut c, &mut b) => {}
            _ = is_cut.wait_for(|cut| *cut) => {}
        }
        // Both ends stay open, and nothing passes.
        std::future::pending::<()>().await;
        drop((a, b, c, d));
    });
    let client = Kubeconfig::trusting(&url, &tls).client().await.unwrap();
    let mut watch = soon(client.watch(&pods(), None, &WatchParams::default())).await.unwrap();
    assert!(matches!(soon(watch.next()).await, Some(Ok(WatchEvent::Added(_)))));
    cut.send(true).unwrap();
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let error = watch.next().await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error:?}");
    let waited = began.elapsed();
    assert!((Duration::from_secs(40)..Duration::from_secs(46)).contains(&waited), "{waited:?}");
    line.abort();
}
