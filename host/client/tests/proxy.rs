//! Proxies between the client and the server.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_client::{Client, ClientOptions, WatchEvent, WatchParams};

use crate::config::has;
use crate::support::{Authority, Kubeconfig, Logs, Reply, Server, TestProxy, event, key, pod, pods, soon};

/// A server under TLS that serves lists that take many reads, and watches.
async fn server(authority: &Authority) -> Server {
    Server::start_tls(authority.server().0, |seen| {
        if seen.query("watch").is_none() {
            let items: Vec<_> = (0..3000).map(|n| pod(&format!("p{n}"), n)).collect();
            let list = format!(
                r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"9"}},"items":[{}]}}"#,
                items.join(",")
            );
            return Reply::json(list);
        }
        Reply::json(event("ADDED", &pod("a", 1)))
    })
    .await
}

fn kubeconfig(server: &Server, authority: &Authority, proxy: &str) -> Kubeconfig {
    let cluster = ["certificate-authority: ca.pem".to_owned(), format!("proxy-url: '{proxy}'")];
    let kubeconfig = Kubeconfig::new(&server.url, &cluster.each_ref().map(String::as_str), &[]);
    kubeconfig.file("ca.pem", &authority.pem);
    kubeconfig
}

/// A large list and a watch, through connections that the proxy has seen.
async fn works(client: &Client, proxy: &TestProxy, server: &Server) {
    let list = soon(client.list_all(&pods(), None, &Default::default())).await.unwrap();
    assert_eq!(list.items.len(), 3000);
    let mut watch = soon(client.watch(&pods(), None, &WatchParams::default())).await.unwrap();
    assert!(matches!(soon(watch.next()).await, Some(Ok(WatchEvent::Added(_)))));
    let asked = proxy.asked();
    assert_eq!(asked, [server.address.to_string(), server.address.to_string()]);
    assert!(server.seen().iter().all(|seen| seen.version == http::Version::HTTP_2));
}

#[tokio::test]
async fn the_server_is_reached_through_each_kind_of_proxy() {
    let authority = Authority::new();
    for kind in ["http", "https", "socks5"] {
        let server = server(&authority).await;
        let proxy = match kind {
            "http" => TestProxy::connect().await,
            "https" => {
                let (mut tls, _) = authority.server();
                Arc::get_mut(&mut tls).unwrap().alpn_protocols.clear();
                TestProxy::connect_tls(tls).await
            }
            _ => TestProxy::socks().await,
        };
        let url = format!("{kind}://me:s3cret@{}", proxy.address);
        let client = kubeconfig(&server, &authority, &url).client().await.unwrap();
        works(&client, &proxy, &server).await;
    }
}

#[tokio::test]
async fn a_server_without_tls_is_reached_through_a_proxy_too() {
    let server = Server::always(200, &pod("a", 1)).await;
    for (proxy, scheme) in [(TestProxy::connect().await, "http"), (TestProxy::socks().await, "socks5")] {
        let url = format!("proxy-url: {scheme}://me:s3cret@{}", proxy.address);
        let client = Kubeconfig::new(&server.url, &[&url], &[]).client().await.unwrap();
        soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
        assert_eq!(proxy.asked(), [server.address.to_string()]);
    }
}

#[tokio::test]
async fn what_goes_wrong_names_the_proxy_and_the_remedy_and_no_password() {
    let (logs, _guard) = Logs::capture(tracing::Level::TRACE);
    let authority = Authority::new();
    let server = server(&authority).await;
    let of = async |kubeconfig: Kubeconfig| {
        let client = kubeconfig.client().await.unwrap();
        let error = soon(client.get(&pods(), &key("default/a"), None)).await.unwrap_err();
        for print in [error.to_string(), format!("{error:?}"), format!("{client:?}")] {
            assert!(!print.contains("s3cret") && !print.contains("czNjcmV0"), "{print}");
        }
        error.to_string()
    };
    for (proxy, scheme) in [(TestProxy::connect().await, "http"), (TestProxy::socks().await, "socks5")] {
        let shown = format!("proxy {scheme}://{} (proxy-url of cluster \"home\")", proxy.address);
        // Another password.
        let url = format!("{scheme}://me:nos3cret@{}", proxy.address);
        let message = of(kubeconfig(&server, &authority, &url)).await;
        has(&message, &[&shown, "another user name and password", "USER:PASSWORD@"]);
        // None.
        let message = of(kubeconfig(&server, &authority, &format!("{scheme}://{}", proxy.address))).await;
        has(&message, &[&shown, "USER:PASSWORD@"]);
        // A server that the proxy cannot reach.
        let url = format!("proxy-url: {scheme}://me:s3cret@{}", proxy.address);
        let nowhere = Kubeconfig::new("https://127.0.0.1:1", &[&url, "certificate-authority: ca.pem"], &[]);
        nowhere.file("ca.pem", &authority.pem);
        has(&of(nowhere).await, &[&shown, "no way to 127.0.0.1:1", "allow connections"]);
    }
    // Nobody there.
    let message = of(kubeconfig(&server, &authority, "http://me:s3cret@127.0.0.1:1")).await;
    has(&message, &["proxy http://127.0.0.1:1 (proxy-url of cluster \"home\") cannot be reached", "refused"]);
    // A server that is no proxy.
    let other = Server::always(200, "").await;
    let url = format!("socks5://me:s3cret@{}", other.address);
    has(&of(kubeconfig(&server, &authority, &url)).await, &["made no way", "protocol of proxy-url"]);
    for line in logs.text().lines().filter(|line| line.contains("pilothouse")) {
        assert!(!line.contains("s3cret") && !line.contains("czNjcmV0"), "{line}");
    }
}

#[tokio::test]
async fn a_proxy_that_says_nothing_is_given_up_in_time() {
    let authority = Authority::new();
    let server = server(&authority).await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    for scheme in ["http", "https", "socks5"] {
        let url = format!("{scheme}://me:s3cret@{}", silent.local_addr().unwrap());
        let kubeconfig = kubeconfig(&server, &authority, &url);
        let options = ClientOptions { connect_timeout: Duration::from_secs(7), ..kubeconfig.options() };
        let client = Client::new(options).await.unwrap();
        let call = tokio::spawn(async move { client.get(&pods(), &key("default/a"), None).await.map(drop) });
        let (tcp, _) = soon(silent.accept()).await.unwrap();
        tokio::time::pause();
        let message = call.await.unwrap().unwrap_err().to_string();
        tokio::time::resume();
        has(&message, &["not connected within 7s", &format!("through proxy {scheme}://127.0.0.1")]);
        assert!(!message.contains("s3cret"), "{message}");
        drop(tcp);
    }
}
