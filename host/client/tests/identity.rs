//! Who a client is: which of several credentials counts, what is no longer supported, and that none is ever shown.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pilothouse_client::{Client, Identity, Impersonation, WatchParams};
use serde_json::json;

use crate::config::{has, refused};
use crate::support::{Authority, Kubeconfig, Logs, Reply, Server, TestProxy, key, pod, pods, soon};

async fn authorization(user: &[&str]) -> Option<String> {
    let server = Server::always(200, &pod("a", 1)).await;
    let client = Kubeconfig::new(&server.url, &[], user).client().await.unwrap();
    soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
    server.only().header("authorization").map(str::to_owned)
}

#[tokio::test]
async fn credentials_count_in_the_order_of_kubectl() {
    let bearer = Some("Bearer inline".to_owned());
    assert_eq!(authorization(&["token: inline", "tokenFile: gone"]).await, bearer);
    // A file that is there goes before the token beside it.
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("token"), "of file").unwrap();
    let file = format!("tokenFile: {}", dir.path().join("token").display());
    assert_eq!(authorization(&["token: inline", &file]).await.as_deref(), Some("Bearer of file"));
    assert_eq!(authorization(&["token: inline", "auth-provider: {name: gcp}"]).await, bearer);
    // A password may be empty, and hold what it likes.
    assert_eq!(authorization(&["username: me"]).await.as_deref(), Some("Basic bWU6"));
    let encoded = BASE64_STANDARD.encode("me:pä:ß");
    assert_eq!(authorization(&["username: me", "password: 'pä:ß'"]).await, Some(format!("Basic {encoded}")));
    let both = Kubeconfig::new("https://h", &[], &["token: s3cret", "username: me", "password: s3cret"]);
    has(&refused(&both).await, &["a token and a user name", "remove one"]);
}

#[tokio::test]
async fn no_credentials_go_over_plain_http_to_another_machine() {
    let server = Server::always(200, &pod("a", 1)).await;
    // Linux reaches this machine by it, and it is not the loopback address.
    let url = server.url.replace("127.0.0.1", "0.0.0.0");
    for user in [
        "token: s3cret",
        "username: me",
        "exec: {apiVersion: client.authentication.k8s.io/v1, command: /no/such}",
    ] {
        let (logs, _guard) = Logs::capture(tracing::Level::WARN);
        let client = Kubeconfig::new(&url, &[], &[user]).client().await.unwrap();
        soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
        assert_eq!(server.seen().last().unwrap().header("authorization"), None, "{user}");
        let told = logs.text();
        assert!(told.contains("not sent over plain http") && !told.contains("s3cret"), "{told}");
    }
}

#[tokio::test]
async fn no_credentials_go_over_plain_http_through_a_proxy() {
    let (logs, _guard) = Logs::capture(tracing::Level::WARN);
    let server = Server::always(200, &pod("a", 1)).await;
    let proxy = TestProxy::connect().await;
    // Which machine this is decides the proxy.
    let server_url = server.url.replace("127.0.0.1", "localhost");
    let url = format!("proxy-url: http://me:s3cret@{}", proxy.address);
    let client = Kubeconfig::new(&server_url, &[&url], &["token: mine"]).client().await.unwrap();
    soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
    assert_eq!((server.only().header("authorization"), proxy.asked().len()), (None, 1));
    assert_eq!(logs.count("not sent over plain http"), 1, "{}", logs.text());
}

#[tokio::test]
async fn auth_providers_are_refused_with_the_user_and_what_to_use_instead() {
    let of = async |provider: &str| {
        refused(&Kubeconfig::new("https://h", &[], &[&format!("auth-provider: {{{provider}}}")])).await
    };
    let oidc =
        of("name: oidc, config: {id-token: s3cret, client-secret: s3cret, refresh-token: s3cret}").await;
    has(
        &oidc,
        &["user \"me\": auth-provider oidc is not supported", "kubelogin", "kubectl oidc-login setup"],
    );
    let gcp = of("name: gcp, config: {access-token: s3cret, cmd-path: /bin/false}").await;
    has(&gcp, &["auth-provider gcp was removed", "gke-gcloud-auth-plugin"]);
    has(&of("name: azure").await, &["auth-provider azure was removed", "kubelogin"]);
    let other = of("name: other").await;
    has(&other, &["user \"me\": auth-provider: its name is not known", "exec plugin"]);
}

#[tokio::test]
async fn a_server_is_checked_by_the_name_that_the_kubeconfig_says() {
    const CA: &str = "certificate-authority: ca.pem";
    let authority = Authority::new();
    let server = Server::start_tls(authority.server().0, |_| Reply::json(pod("a", 1))).await;
    let of = async |cluster: &[&str]| {
        let kubeconfig = Kubeconfig::new(&server.url, cluster, &[]);
        kubeconfig.file("ca.pem", &authority.pem);
        let client = kubeconfig.client().await.unwrap();
        soon(client.get(&pods(), &key("default/a"), None)).await.map(drop)
    };
    of(&[CA]).await.unwrap();
    let error = of(&[CA, "tls-server-name: elsewhere"]).await.unwrap_err().to_string();
    has(&error, &["tls-server-name in the kubeconfig's cluster"]);
    let (logs, _guard) = Logs::capture(tracing::Level::WARN);
    of(&["tls-server-name: elsewhere", "insecure-skip-tls-verify: true"]).await.unwrap();
    has(&logs.text(), &["insecure-skip-tls-verify is set"]);
}

/// The secrets that stand in the kubeconfig of the test, in the forms that they are sent in.
const SECRETS: &[&str] = &["s3cret", "czNjcmV0", "bWU6czNjcmV0", "PRIVATE KEY"];

/// Starts a server in a thread, and a runtime, that are not captured.
fn on_another_thread(server: impl Future<Output = Server> + Send + 'static) -> Server {
    let (sender, started) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            sender.send(server.await).unwrap();
            std::future::pending::<()>().await;
        });
    });
    started.recv().unwrap()
}

#[tokio::test]
async fn no_secret_is_in_a_log_line_a_debug_print_or_an_error() {
    let (logs, _guard) = Logs::capture(tracing::Level::TRACE);
    let authority = Authority::new();
    let pair = authority.client();
    let (ok, _) = authority.server();
    // Says back all that it was sent, as some proxies do.
    // In a thread of its own, so that the lines of hyper and h2 are those of the client.
    let server = on_another_thread(Server::start_tls(Arc::clone(&ok), |seen| {
        let said = seen.header("authorization").unwrap_or_default();
        Reply::new(403, format!("<pre>Authorization: {said}</pre>"))
    }));
    let exec = "exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, interactiveMode: Never, \
                args: [-c, 'echo s3cret', s3cret], env: [{name: TOKEN, value: s3cret}]}";
    let credential = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {
        "token": "s3cret", "clientCertificateData": pair.certificate, "clientKeyData": pair.key,
    }});
    let good_exec = "exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, interactiveMode: Never, \
         args: [-c, 'cat $CREDENTIAL', s3cret], env: [{name: CREDENTIAL, value: CREDENTIAL_FILE}]}";
    let certificate = ["client-certificate: me.pem", "client-key: me.key"];
    let users: &[&[&str]] = &[
        &["token: s3cret"],
        &["tokenFile: token"],
        &["username: me", "password: s3cret"],
        &[
            "auth-provider: {name: oidc, config: {id-token: s3cret, client-secret: s3cret, refresh-token: s3cret}}",
        ],
        &[exec],
        &[good_exec],
        &certificate,
        &["client-certificate: me.pem", "client-key: token"],
        &["client-certificate: token", "client-key: me.key"],
        &["client-certificate-data: s3cret!", "client-key-data: s3cret!"],
        &["token: [s3cret]"],
        &["token: {s3cret: s3cret}"],
        &["exec: s3cret"],
        &["auth-provider: s3cret"],
        &["as-user-extra: s3cret"],
    ];
    let mut prints = Vec::new();
    for proxy in [None, Some("proxy-url: http://me:s3cret@127.0.0.1:1"), Some("proxy-url: 'me:s3cret@:://'")]
    {
        for user in users {
            let mut cluster = vec!["insecure-skip-tls-verify: true"];
            cluster.extend(proxy);
            let kubeconfig = Kubeconfig::new(&server.url, &cluster, user);
            let credential = kubeconfig.file("credential", &credential.to_string());
            let text = std::fs::read_to_string(&kubeconfig.path).unwrap();
            kubeconfig.file("config", &text.replace("CREDENTIAL_FILE", credential.to_str().unwrap()));
            for (name, text) in [
                ("ca.pem", &*authority.pem),
                ("token", "s3cret"),
                ("me.pem", &pair.certificate),
                ("me.key", &pair.key),
            ] {
                kubeconfig.file(name, text);
            }
            prints.push(format!("{:?}", kubeconfig.options()));
            let client = match kubeconfig.client().await {
                Ok(client) => client,
                Err(error) => {
                    prints.extend([error.to_string(), format!("{error:?}")]);
                    continue;
                }
            };
            let someone = Impersonation { user: "someone".to_owned(), ..Impersonation::default() };
            let identity = Identity { impersonate: Some(someone), ..Identity::default() };
            for client in [client.with_identity(identity.clone()), client] {
                let error = soon(client.get(&pods(), &key("default/a"), None)).await.unwrap_err();
                prints.extend([error.to_string(), format!("{error:?}"), format!("{client:?}")]);
                let error = soon(client.watch(&pods(), None, &WatchParams::default())).await.unwrap_err();
                prints.extend([error.to_string(), format!("{error:?}"), format!("{identity:?}")]);
            }
        }
    }
    let text = logs.text();
    assert!(text.contains("pilothouse_client"), "nothing was captured");
    for part in ["h2::", "hyper"] {
        assert!(text.contains(part), "nothing of {part} was captured");
    }
    prints.extend(text.lines().map(str::to_owned));
    assert!(prints.len() > 100);
    for print in &prints {
        for secret in SECRETS {
            assert!(!print.contains(secret), "{print}");
        }
    }
    // The servers did get them.
    assert!(server.seen().iter().any(|seen| seen.header("authorization") == Some("Bearer s3cret")));
    assert!(server.seen().iter().any(|seen| seen.peer == Some(pair.der())));
}

#[tokio::test]
async fn a_server_that_is_not_kubernetes_is_told() {
    let server = Server::always(200, "<html><title>Welcome to nginx</title></html>").await;
    let client: Client = Kubeconfig::new(&server.url, &[], &[]).client().await.unwrap();
    let error = client.server_version().await.unwrap_err().to_string();
    has(&error, &["/version", "unexpected response"]);
    let server = Server::always(200, "{}").await;
    let client = Kubeconfig::new(&server.url, &[], &[]).client().await.unwrap();
    has(&client.server_version().await.unwrap_err().to_string(), &["is this a Kubernetes API server?"]);
}
