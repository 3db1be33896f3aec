//! Kubeconfig files: credentials that work, and errors that name file, fault and remedy.

use std::time::Duration;

use pilothouse_client::{Client, ClientOptions, Error, Identity};

use crate::support::{Kubeconfig, Logs, Reply, Server, key, pod, pods, soon, tls};

async fn authorization(kubeconfig: &Kubeconfig, server: &Server) -> Option<String> {
    let client = kubeconfig.client().await.unwrap();
    client.get(&pods(), &key("default/a"), None).await.unwrap();
    server.seen().pop().unwrap().header("authorization").map(str::to_owned)
}

async fn server() -> Server {
    Server::always(200, &pod("a", 1)).await
}

/// The message of a configuration that must be refused.
pub(crate) async fn refused(kubeconfig: &Kubeconfig) -> String {
    let error = kubeconfig.client().await.unwrap_err();
    assert!(matches!(error, Error::Config(_)), "{error:?}");
    let message = error.to_string();
    assert!(message.contains(kubeconfig.path.to_str().unwrap()), "no file named: {message}");
    assert!(!message.contains("s3cret") && !format!("{error:?}").contains("s3cret"), "{error:?}");
    message
}

pub(crate) fn has(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

#[tokio::test]
async fn tokens_and_passwords_are_sent() {
    let server = server().await;
    let kubeconfig = Kubeconfig::new(&server.url, &[], &["token: s3cret"]);
    assert_eq!(authorization(&kubeconfig, &server).await.as_deref(), Some("Bearer s3cret"));
    let kubeconfig = Kubeconfig::new(&server.url, &[], &["username: me", "password: s3cret"]);
    assert_eq!(authorization(&kubeconfig, &server).await.as_deref(), Some("Basic bWU6czNjcmV0"));
    assert_eq!(authorization(&Kubeconfig::new(&server.url, &[], &[]), &server).await, None);
    assert_eq!(kubeconfig.client().await.unwrap().default_namespace(), "mine");
}

#[tokio::test]
async fn a_token_file_is_read_again_as_it_rotates() {
    let server = Server::start(|seen| match seen.header("authorization") {
        Some("Bearer revoked") => Reply::new(401, ""),
        _ => Reply::json(pod("a", 1)),
    })
    .await;
    let kubeconfig = Kubeconfig::new(&server.url, &[], &["tokenFile: token"]);
    // Editors and `echo` end a file with a line break.
    kubeconfig.file("token", "first\n");
    let client = kubeconfig.client().await.unwrap();
    let get = async || {
        let result = client.get(&pods(), &key("default/a"), None).await;
        (server.seen().pop().unwrap().header("authorization").unwrap().to_owned(), result.is_ok())
    };
    assert_eq!(get().await, ("Bearer first".to_owned(), true));
    kubeconfig.file("token", "revoked");
    assert_eq!(get().await.0, "Bearer first");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(60)).await;
    tokio::time::resume();
    assert_eq!(get().await, ("Bearer revoked".to_owned(), false));
    // A 401 makes the file be read at once.
    kubeconfig.file("token", "third");
    assert_eq!(get().await, ("Bearer third".to_owned(), true));
    std::fs::remove_file(kubeconfig.dir.path().join("token")).unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(60)).await;
    tokio::time::resume();
    assert_eq!(get().await, ("Bearer third".to_owned(), true));
}

#[tokio::test]
async fn impersonation_of_the_kubeconfig_stays_for_identities_without_one() {
    let server = server().await;
    let kubeconfig = Kubeconfig::new(&server.url, &[], &["as: boss", "as-groups: [g]"]);
    let plugin = kubeconfig.client().await.unwrap().with_identity(Identity::default());
    plugin.get(&pods(), &key("default/a"), None).await.unwrap();
    let seen = server.only();
    assert_eq!(
        (seen.header("impersonate-user"), seen.header("impersonate-group")),
        (Some("boss"), Some("g"))
    );
}

#[tokio::test]
async fn missing_parts_are_named_with_what_there_is() {
    let nowhere = ClientOptions { kubeconfig: Some("/nowhere/config".into()), ..ClientOptions::default() };
    has(
        &Client::new(nowhere).await.unwrap_err().to_string(),
        &["/nowhere/config", "no such file", "--kubeconfig"],
    );

    let text = "contexts:\n- {name: a, context: {cluster: c}}\n- {name: b, context: {cluster: d, user: u}}\n\
                clusters: [{name: d, cluster: {server: 'https://h'}}]\nusers: [{name: s3, user: {token: s3cret}}]\n";
    let kubeconfig = Kubeconfig::of_text(text);
    has(&refused(&kubeconfig).await, &["no current-context", "--context", "a, b"]);
    let of = async |context: &str| {
        let options = ClientOptions { context: Some(context.to_owned()), ..kubeconfig.options() };
        Client::new(options).await.unwrap_err().to_string()
    };
    has(&of("x").await, &["no context \"x\"", "a, b"]);
    has(&of("a").await, &["names cluster \"c\"", "there are: d"]);
    has(&of("b").await, &["names user \"u\"", "there are: s3"]);
    has(&refused(&Kubeconfig::of_text("")).await, &["no current-context", "none"]);
}

#[tokio::test]
async fn bad_yaml_is_placed_and_not_quoted() {
    let bad = Kubeconfig::of_text("apiVersion: v1\nusers:\n- name: me\n  user: s3cret\n");
    has(&refused(&bad).await, &["not a kubeconfig", "line 4"]);
    let bad = Kubeconfig::of_text("users: [{name: a, user: {token: \"s3cret}}]\n");
    has(&refused(&bad).await, &["not a kubeconfig", "line"]);
}

#[tokio::test]
async fn certificates_that_cannot_be_used_are_named() {
    let new = |cluster: &[&str], user: &[&str]| Kubeconfig::new("https://127.0.0.1:1", cluster, user);
    let missing = new(&["certificate-authority: gone.pem"], &[]);
    has(&refused(&missing).await, &["certificate-authority", "gone.pem", "cannot be read"]);
    let base64 = new(&["certificate-authority-data: '***'"], &[]);
    has(&refused(&base64).await, &["certificate-authority-data is not base64"]);
    let pem = new(&["certificate-authority: ca.pem"], &[]);
    pem.file("ca.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    has(&refused(&pem).await, &["certificate authority cannot be used"]);
    let key = new(&[], &["client-certificate: me.pem", "client-key: me.key"]);
    key.file("me.pem", &tls(&[]).ca);
    has(&refused(&key).await, &["client-key", "me.key", "cannot be read"]);
    key.file("me.key", "s3cret");
    has(&refused(&key).await, &["client-key", "me.key holds no"]);
    let alone = new(&[], &["client-certificate: me.pem"]);
    alone.file("me.pem", &tls(&[]).ca);
    has(&refused(&alone).await, &["go together"]);
}

#[tokio::test]
async fn an_authority_beside_insecure_is_refused() {
    for server in ["https://h", "http://h"] {
        let kubeconfig = Kubeconfig::new(
            server,
            &["certificate-authority: ca.pem", "insecure-skip-tls-verify: true"],
            &[],
        );
        kubeconfig.file("ca.pem", &tls(&[]).ca);
        let message = refused(&kubeconfig).await;
        has(&message, &["insecure-skip-tls-verify", "certificate-authority", "remove one"]);
    }
}

#[tokio::test]
async fn a_token_file_that_is_gone_is_warned_of_once() {
    let (logs, _guard) = Logs::capture(tracing::Level::WARN);
    let server = server().await;
    let kubeconfig = Kubeconfig::new(&server.url, &[], &["tokenFile: token"]);
    let path = kubeconfig.file("token", "first");
    let client = kubeconfig.client().await.unwrap();
    std::fs::remove_file(path).unwrap();
    for _ in 0..3 {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(61)).await;
        tokio::time::resume();
        client.get(&pods(), &key("default/a"), None).await.unwrap();
    }
    assert_eq!(logs.count("still using the previous token"), 1, "{}", logs.text());
    // Another fault, after the file was good again, is another warning.
    kubeconfig.file("token", "second");
    for text in [None, Some("")] {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(61)).await;
        tokio::time::resume();
        client.get(&pods(), &key("default/a"), None).await.unwrap();
        if text.is_none() {
            kubeconfig.file("token", "");
        }
    }
    assert_eq!(logs.count("still using the previous token"), 2, "{}", logs.text());
}

#[tokio::test]
async fn what_is_not_supported_is_said() {
    let proxy = Kubeconfig::new("https://h", &["proxy-url: ftp://me:s3cret@proxy:3128"], &[]);
    has(&refused(&proxy).await, &["proxy-url of cluster \"home\"", "another scheme", "socks5://"]);
    has(
        &refused(&Kubeconfig::new("10.0.0.1:6443", &[], &[])).await,
        &["cluster \"home\"", "https://HOST:PORT"],
    );
    has(
        &refused(&Kubeconfig::new("https://h", &["tls-server-name: 'a b'"], &[])).await,
        &["tls-server-name"],
    );
    has(&refused(&Kubeconfig::new("https://h", &[], &["tokenFile: gone"])).await, &["token file", "gone"]);
    has(&refused(&Kubeconfig::new("https://h", &[], &["token: \"s3cret\\x01\""])).await, &["not a token"]);
}

#[tokio::test]
async fn a_secret_in_the_wrong_place_is_not_quoted() {
    for server in [
        "admin:s3cret@10.0.0.1:6443",
        "ftp://me:s3cret@h",
        "https://me:s3cret@h",
        "https://me:1/s3cret@h",
        "s3cret",
        "s3cret://h",
        "https://h/?s3cret",
        "'https://h s3cret'",
        "'https://'",
    ] {
        has(&refused(&Kubeconfig::new(server, &[], &[])).await, &["cluster \"home\"", "https://HOST:PORT"]);
        let options = ClientOptions { server: Some(server.to_owned()), ..ClientOptions::default() };
        let message = Client::new(options).await.unwrap_err().to_string();
        assert!(!message.contains("s3cret"), "{message}");
    }
    let exec = "apiVersion: client.authentication.k8s.io/v1";
    for (cluster, user, part) in [
        ("tls-server-name: 's3cret x'", "{}".to_owned(), "tls-server-name"),
        ("", "exec: {apiVersion: s3cret, command: x}".to_owned(), "exec.apiVersion"),
        ("", format!("exec: {{{exec}, command: x, interactiveMode: s3cret}}"), "interactiveMode"),
        ("", format!("exec: {{{exec}, command: ./x --token s3cret, interactiveMode: Never}}"), "/x …\""),
        ("", format!("exec: {{{exec}, command: ./x --token s3cret}}"), "/x …\""),
        ("", "auth-provider: {name: s3cret}".to_owned(), "auth-provider"),
    ] {
        has(&refused(&Kubeconfig::new("https://h", &[cluster], &[&user])).await, &[part]);
    }
    has(&refused(&Kubeconfig::of_text("kind: s3cret")).await, &["expected kind: Config"]);
    has(&refused(&Kubeconfig::of_text("apiVersion: s3cret")).await, &["expected apiVersion: v1"]);
}

#[tokio::test]
async fn what_a_parser_quotes_is_hidden() {
    for text in [
        "users: 918273",
        "users: [{name: a, user: {token: !s3cret x}}]",
        "users: [{name: a, user: {token: !<s3cret> x}}]",
        "users: [{name: a, user: {exec: 918273}}]",
        "users: [{name: a, user: {exec: -918273.5}}]",
        "users: [{name: a, user: {auth-provider: {config: {s3cret: x, s3cret: y}}}}]",
        "users: [{name: a, user: {s3cret: x, s3cret: y}}]",
        "users: [{name: a, user: *s3cret}]",
        "users: [{name: a, user: 'a\"s3cret`s3cret]s3cret'}]",
        "users: [{name: a, user: \"a\\\"s3cret\\nb`s3cret\"}]",
        "clusters: [{name: a, cluster: {insecure-skip-tls-verify: s3cret}}]",
        "clusters: [{name: a, cluster: {insecure-skip-tls-verify: 918273}}]",
        "users: [{name: a, user: {token: \"\\s3cret\"}}]",
        "users: [{name: a, user: {token: s3cret: s3cret}}]",
        "s3cret",
        "918273",
        "users: [{name: a, user: {token: !!binary s3cret}}]",
        "users: [{name: a, user: {token: !!int s3cret}}]",
        "%s3cret\nusers: []",
        "users: [s3cret]\n...\ns3cret\n---\n%s3cret",
    ] {
        let kubeconfig = Kubeconfig::of_text(text);
        let message = kubeconfig.client().await.unwrap_err().to_string();
        assert!(!message.contains("s3cret") && !message.contains("918273"), "{text}: {message}");
    }
}

#[tokio::test]
async fn a_token_file_whose_mount_hangs_does_not_hold_up_requests() {
    let (logs, _guard) = Logs::capture(tracing::Level::WARN);
    let server = server().await;
    let kubeconfig = Kubeconfig::new(&server.url, &[], &["tokenFile: token"]);
    kubeconfig.file("token", "first");
    let client = kubeconfig.client().await.unwrap();
    let get = async || {
        soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
        server.seen().pop().unwrap().header("authorization").unwrap().to_owned()
    };
    let advance = async || {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(60)).await;
        tokio::time::resume();
    };
    let hanging = kubeconfig.hangs("token");
    for _ in 0..3 {
        advance().await;
        let (one, two) = tokio::join!(get(), get());
        assert_eq!((one.as_str(), two.as_str()), ("Bearer first", "Bearer first"));
    }
    assert_eq!(logs.count("is not read within"), 1, "{}", logs.text());
    let second = kubeconfig.file("token.new", "second");
    std::fs::rename(second, kubeconfig.dir.path().join("token")).unwrap();
    drop(hanging);
    soon(async { while get().await != "Bearer second" {} }).await;
}

#[tokio::test]
async fn no_token_reaches_an_error_or_a_debug_print() {
    // A proxy that prints the request back, as text and as JSON.
    let server = Server::start(|seen| {
        let authorization = seen.header("authorization").unwrap().to_owned();
        match seen.path().ends_with("/a") {
            true => Reply::new(403, format!("<pre>Authorization: {authorization}</pre>")),
            false => Reply::new(200, format!("{{\"you sent\":\"{authorization}\"}}")),
        }
    })
    .await;
    let kubeconfig = Kubeconfig::new(&server.url, &[], &["token: s3cret"]);
    let client = kubeconfig.client().await.unwrap();
    let mut prints = vec![format!("{client:?}"), format!("{:?}", kubeconfig.options())];
    for name in ["default/a", "default/b"] {
        let error = client.get(&pods(), &key(name), None).await.unwrap_err();
        prints.extend([error.to_string(), format!("{error:?}")]);
    }
    drop(server);
    let error = client.get(&pods(), &key("default/a"), None).await.unwrap_err();
    prints.extend([error.to_string(), format!("{error:?}")]);
    for print in prints {
        assert!(!print.contains("s3cret"), "{print}");
    }
}
