//! Exec plugins for credentials: when they run, what they are told, what becomes of what they print.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use pilothouse_client::{Client, ClientOptions, ExecPluginEvent, ObservedRequest, RequestObserver};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::config::{has, refused};
use crate::support::{Authority, Kubeconfig, Logs, Pair, Reply, Server, key, pod, pods, soon};

const EXEC: &str =
    "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, interactiveMode: IfAvailable}";

/// Writes the program of `EXEC`; it notes each run.
fn plugin(kubeconfig: &Kubeconfig, script: &str) {
    let path = kubeconfig.dir.path().join("plugin");
    let new = kubeconfig.dir.path().join("plugin.new");
    pilothouse_testkit::script::write(&new, &format!("cd $(dirname $0)\necho run >> runs\n{script}"))
        .unwrap();
    // A program that runs cannot be written to.
    std::fs::rename(new, path).unwrap();
}

/// A program that prints this status.
fn gives(kubeconfig: &Kubeconfig, status: Value) {
    let credential =
        json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status});
    kubeconfig.file("credential", &credential.to_string());
    plugin(kubeconfig, "cat credential");
}

fn runs(kubeconfig: &Kubeconfig) -> usize {
    std::fs::read_to_string(kubeconfig.dir.path().join("runs")).unwrap_or_default().lines().count()
}

fn within(seconds: i64) -> String {
    (Timestamp::now() + SignedDuration::from_secs(seconds)).to_string()
}

async fn advance(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

async fn token(client: &Client, server: &Server) -> String {
    let _ = soon(client.get(&pods(), &key("default/a"), None)).await;
    server.seen().pop().unwrap().header("authorization").unwrap().to_owned()
}

#[tokio::test]
async fn a_token_is_kept_until_shortly_before_it_expires() {
    let server = Server::always(200, &pod("a", 1)).await;
    let kubeconfig = Kubeconfig::new(&server.url, &[], &[EXEC]);
    gives(&kubeconfig, json!({"token": "one", "expirationTimestamp": within(600)}));
    let client = kubeconfig.client().await.unwrap();
    gives(&kubeconfig, json!({"token": "two"}));
    assert_eq!(token(&client, &server).await, "Bearer one");
    advance(580).await;
    assert_eq!((token(&client, &server).await, runs(&kubeconfig)), ("Bearer one".to_owned(), 1));
    advance(11).await;
    assert_eq!((token(&client, &server).await, runs(&kubeconfig)), ("Bearer two".to_owned(), 2));
    // One without an expiry is kept for good.
    advance(1_000_000).await;
    assert_eq!((token(&client, &server).await, runs(&kubeconfig)), ("Bearer two".to_owned(), 2));
}

#[tokio::test]
async fn a_token_that_comes_expired_is_used_once() {
    let server = Server::always(200, &pod("a", 1)).await;
    let kubeconfig = Kubeconfig::new(&server.url, &[], &[EXEC]);
    gives(&kubeconfig, json!({"token": "one", "expirationTimestamp": "2001-01-01T00:00:00Z"}));
    let client = kubeconfig.client().await.unwrap();
    gives(&kubeconfig, json!({"token": "two", "expirationTimestamp": "2999-01-01T00:00:00Z"}));
    for _ in 0..3 {
        assert_eq!(token(&client, &server).await, "Bearer two");
    }
    assert_eq!(runs(&kubeconfig), 2);
}

#[tokio::test]
async fn a_run_that_fails_leaves_a_good_token_in_use() {
    let (logs, _guard) = Logs::capture(tracing::Level::WARN);
    let server = Server::always(200, &pod("a", 1)).await;
    let kubeconfig = Kubeconfig::new(&server.url, &[], &[EXEC]);
    gives(&kubeconfig, json!({"token": "one", "expirationTimestamp": within(600)}));
    let client = kubeconfig.client().await.unwrap();
    plugin(&kubeconfig, "exit 1");
    advance(595).await;
    assert_eq!(token(&client, &server).await, "Bearer one");
    assert_eq!(
        (logs.count("exit status: 1; run its command by hand; still using"), runs(&kubeconfig)),
        (1, 2)
    );
    advance(6).await;
    // It has expired; one run answers for many requests.
    for _ in 0..5 {
        let error = client.get(&pods(), &key("default/a"), None).await.unwrap_err().to_string();
        has(&error, &["plugin", "exit status: 1"]);
    }
    assert_eq!(runs(&kubeconfig), 3);
    gives(&kubeconfig, json!({"token": "two"}));
    advance(5).await;
    assert_eq!(token(&client, &server).await, "Bearer two");
}

#[tokio::test]
async fn a_run_that_fails_is_warned_of_once_whatever_waits_for_it() {
    let (logs, _guard) = Logs::capture(tracing::Level::WARN);
    let server = Server::always(200, &pod("a", 1)).await;
    let kubeconfig = Kubeconfig::new(&server.url, &[], &[EXEC]);
    gives(&kubeconfig, json!({"token": "one", "expirationTimestamp": within(600)}));
    let client = kubeconfig.client().await.unwrap();
    plugin(&kubeconfig, "exit 3");
    advance(591).await;
    for _ in 0..2 {
        let mut calls = JoinSet::new();
        for _ in 0..10 {
            let client = client.clone();
            calls.spawn(async move { client.get(&pods(), &key("default/a"), None).await.unwrap() });
        }
        soon(calls.join_all()).await;
        // Another run fails alike.
        advance(5).await;
    }
    assert_eq!(runs(&kubeconfig), 3);
    assert_eq!(logs.count("still using the previous credential"), 1, "{}", logs.text());
}

#[tokio::test]
async fn many_callers_wait_for_one_run_and_one_that_gives_up_does_not_end_it() {
    let server = Server::always(200, &pod("a", 1)).await;
    let kubeconfig = Kubeconfig::new(&server.url, &[], &[EXEC]);
    gives(&kubeconfig, json!({"token": "one", "expirationTimestamp": "2001-01-01T00:00:00Z"}));
    let client = kubeconfig.client().await.unwrap();
    let dir = kubeconfig.dir.path();
    assert!(std::process::Command::new("mkfifo").arg(dir.join("gate")).status().unwrap().success());
    gives(&kubeconfig, json!({"token": "two"}));
    plugin(&kubeconfig, "read go < gate; cat credential");
    let mut calls = JoinSet::new();
    for _ in 0..20 {
        let client = client.clone();
        calls.spawn(async move { client.get(&pods(), &key("default/a"), None).await.map(drop) });
    }
    // The first of them starts the program, and goes before it has ended.
    let gate = dir.join("gate");
    let opened = tokio::task::spawn_blocking(move || std::fs::File::options().write(true).open(gate));
    let mut gate = tokio::fs::File::from_std(soon(opened).await.unwrap().unwrap());
    calls.abort_all();
    while soon(calls.join_next()).await.is_some() {}
    for _ in 0..20 {
        let client = client.clone();
        calls.spawn(async move { client.get(&pods(), &key("default/a"), None).await.map(drop) });
    }
    tokio::io::AsyncWriteExt::write_all(&mut gate, b"go\n").await.unwrap();
    tokio::io::AsyncWriteExt::flush(&mut gate).await.unwrap();
    for result in soon(calls.join_all()).await {
        result.unwrap();
    }
    assert!(server.seen().iter().all(|seen| seen.header("authorization") == Some("Bearer two")));
    assert_eq!(runs(&kubeconfig), 2);
}

/// A request that starts the program, and is gone before it ends with `last`.
async fn abandon(kubeconfig: &Kubeconfig, client: &Client, observer: &Observer, last: &str) {
    let gate = kubeconfig.dir.path().join("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    plugin(kubeconfig, &format!("read go < gate; {last}"));
    let before = observer.calls();
    let of_call = client.clone();
    let call = tokio::spawn(async move { of_call.get(&pods(), &key("default/a"), None).await.map(drop) });
    let opened = tokio::task::spawn_blocking(move || std::fs::File::options().write(true).open(gate));
    let gate = soon(opened).await.unwrap().unwrap();
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    std::io::Write::write_all(&mut &gate, b"go\n").unwrap();
    soon(async {
        while observer.calls() == before {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_run_that_nobody_waits_for_any_more_counts_from_its_end() {
    let server = Server::always(200, &pod("a", 1)).await;
    let new = async || {
        let kubeconfig = Kubeconfig::new(&server.url, &[], &[EXEC]);
        gives(&kubeconfig, json!({"token": "one", "expirationTimestamp": "2001-01-01T00:00:00Z"}));
        let observer = Arc::new(Observer::default());
        let options = ClientOptions { observer: Some(observer.clone()), ..kubeconfig.options() };
        let client = Client::new(options).await.unwrap();
        (kubeconfig, client, observer)
    };
    let (kubeconfig, client, observer) = new().await;
    gives(&kubeconfig, json!({"token": "two", "expirationTimestamp": within(600)}));
    abandon(&kubeconfig, &client, &observer, "cat credential").await;
    assert_eq!((token(&client, &server).await, runs(&kubeconfig)), ("Bearer two".to_owned(), 2));

    let (kubeconfig, client, observer) = new().await;
    gives(&kubeconfig, json!({"token": "two", "expirationTimestamp": within(600)}));
    abandon(&kubeconfig, &client, &observer, "cat credential").await;
    advance(700).await;
    gives(&kubeconfig, json!({"token": "three"}));
    assert_eq!((token(&client, &server).await, runs(&kubeconfig)), ("Bearer three".to_owned(), 3));

    let (kubeconfig, client, observer) = new().await;
    abandon(&kubeconfig, &client, &observer, "exit 1").await;
    advance(700).await;
    gives(&kubeconfig, json!({"token": "four"}));
    assert_eq!((token(&client, &server).await, runs(&kubeconfig)), ("Bearer four".to_owned(), 3));
}

#[tokio::test]
async fn a_refused_token_makes_it_run_again_but_not_for_each_request() {
    let server = Server::start(|seen| match seen.header("authorization") {
        Some("Bearer good") => Reply::json(pod("a", 1)),
        _ => Reply::new(401, ""),
    })
    .await;
    let kubeconfig = Kubeconfig::new(&server.url, &[], &[EXEC]);
    gives(&kubeconfig, json!({"token": "revoked"}));
    let client = kubeconfig.client().await.unwrap();
    gives(&kubeconfig, json!({"token": "other"}));
    assert_eq!(token(&client, &server).await, "Bearer revoked");
    for _ in 0..5 {
        assert_eq!(token(&client, &server).await, "Bearer other");
    }
    assert_eq!(runs(&kubeconfig), 2);
    gives(&kubeconfig, json!({"token": "good"}));
    advance(10).await;
    assert_eq!(token(&client, &server).await, "Bearer other");
    assert_eq!(token(&client, &server).await, "Bearer good");
}

#[derive(Default)]
struct Observer(Mutex<Vec<ExecPluginEvent>>);

impl Observer {
    /// How many runs have ended.
    fn calls(&self) -> usize {
        self.0.lock().iter().filter(|event| matches!(event, ExecPluginEvent::Called { .. })).count()
    }
}

impl RequestObserver for Observer {
    fn request(&self, _request: &ObservedRequest<'_>) {}

    fn exec_plugin(&self, event: &ExecPluginEvent) {
        self.0.lock().push(*event);
    }
}

#[tokio::test]
async fn a_certificate_of_a_plugin_is_shown_and_a_new_one_gets_a_new_connection() {
    let authority = Authority::new();
    let server = Server::start_tls(authority.server().0, |_| Reply::json(pod("a", 1))).await;
    let kubeconfig = Kubeconfig::new(&server.url, &["certificate-authority: ca.pem"], &[EXEC]);
    kubeconfig.file("ca.pem", &authority.pem);
    let status = |pair: &Pair| json!({"clientCertificateData": pair.certificate, "clientKeyData": pair.key, "expirationTimestamp": within(600)});
    let (first, second) = (authority.client(), authority.client());
    gives(&kubeconfig, status(&first));
    let observer = Arc::new(Observer::default());
    let options = ClientOptions { observer: Some(observer.clone()), ..kubeconfig.options() };
    let client = Client::new(options).await.unwrap();
    gives(&kubeconfig, status(&second));
    let get = async || {
        soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
        let seen = server.seen().pop().unwrap();
        (seen.peer, seen.connection)
    };
    assert_eq!(get().await, (Some(first.der()), 0));
    // Steps that leave the connection in use.
    for _ in 0..11 {
        advance(50).await;
        assert_eq!(get().await, (Some(first.der()), 0));
    }
    advance(45).await;
    assert_eq!(get().await, (Some(second.der()), 1));
    assert_eq!(runs(&kubeconfig), 2);
    let events = observer.0.lock().clone();
    let called = ExecPluginEvent::Called { code: 0, status: "no_error" };
    assert_eq!(events.iter().filter(|event| **event == called).count(), 2, "{events:?}");
    let expires = events
        .iter()
        .filter(|event| matches!(event, ExecPluginEvent::Certificate { expires: Some(_) }))
        .count();
    let rotated = events.iter().filter(|event| matches!(event, ExecPluginEvent::Rotated { .. })).count();
    assert_eq!((expires, rotated), (2, 1), "{events:?}");
}

#[tokio::test]
async fn outcomes_are_told_in_the_words_of_client_go() {
    let kubeconfig = Kubeconfig::new("https://127.0.0.1:1", &[], &[EXEC]);
    let observer = Arc::new(Observer::default());
    let run = async || {
        let options = ClientOptions { observer: Some(observer.clone()), ..kubeconfig.options() };
        Client::new(options).await.unwrap_err();
        observer.0.lock().pop().unwrap()
    };
    let called = |code, status| ExecPluginEvent::Called { code, status };
    assert_eq!(run().await, called(1, "plugin_not_found_error"));
    plugin(&kubeconfig, "exit 3");
    assert_eq!(run().await, called(3, "plugin_execution_error"));
    plugin(&kubeconfig, "kill -9 $$");
    assert_eq!(run().await, called(-1, "plugin_execution_error"));
    plugin(&kubeconfig, "echo rubbish");
    assert_eq!(run().await, called(0, "no_error"));
}

#[tokio::test]
async fn a_plugin_is_told_what_kubectl_tells_it() {
    let exec = "exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: ./plugin, args: [a b, c], \
                env: [{name: COLOUR, value: blue}], provideClusterInfo: true}";
    let cluster = [
        "certificate-authority: ca.pem",
        "tls-server-name: name",
        "proxy-url: http://me:word@proxy:1",
        "extensions: [{name: other, extension: 1}, {name: client.authentication.k8s.io/exec, extension: {audience: x}}]",
    ];
    let kubeconfig = Kubeconfig::new("https://server:6443", &cluster, &[exec]);
    let authority = Authority::new();
    kubeconfig.file("ca.pem", &authority.pem);
    let mut script =
        "echo \"$KUBERNETES_EXEC_INFO\" > info; echo \"$1|$2|$COLOUR|$PATH\" > args\n".to_owned();
    // YAML is taken too.
    let yaml = "apiVersion: client.authentication.k8s.io/v1beta1\nkind: ExecCredential\nstatus: {token: t}";
    write!(script, "cat <<END\n{yaml}\nEND").unwrap();
    plugin(&kubeconfig, &script);
    kubeconfig.client().await.unwrap();
    let text = |name: &str| std::fs::read_to_string(kubeconfig.dir.path().join(name)).unwrap();
    assert_eq!(text("args").trim(), format!("a b|c|blue|{}", std::env::var("PATH").unwrap()));
    use base64::Engine as _;
    let info: Value = serde_json::from_str(&text("info")).unwrap();
    let interactive = std::io::IsTerminal::is_terminal(&std::io::stdin());
    let expected = json!({
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "kind": "ExecCredential",
        "spec": {"interactive": interactive, "cluster": {
            "server": "https://server:6443",
            "tls-server-name": "name",
            "proxy-url": "http://me:word@proxy:1",
            "certificate-authority-data": base64::prelude::BASE64_STANDARD.encode(&authority.pem),
            "config": {"audience": "x"},
        }},
    });
    assert_eq!(info, expected);
}

#[tokio::test]
async fn a_plugin_that_fails_is_named_without_what_it_printed() {
    let exec = format!("{}, installHint: \"get it\\e[1m from s3\\nhere\"}}", EXEC.trim_end_matches('}'));
    let kubeconfig = Kubeconfig::new("https://127.0.0.1:1", &[], &[&exec]);
    has(&refused(&kubeconfig).await, &["cannot be started", "PATH", "/plugin\"", "from s3 here"]);
    assert!(!refused(&kubeconfig).await.contains('\u{1b}'));
    plugin(&kubeconfig, "echo s3cret; echo please log in >&2; exit 3");
    has(&refused(&kubeconfig).await, &["exit status: 3", "please log in", "by hand"]);
    plugin(&kubeconfig, "head -c 3000000 /dev/zero | tr '\\0' x; echo s3cret");
    has(&refused(&kubeconfig).await, &["printed more than 1048576 bytes"]);
    let of = async |output: &str| {
        kubeconfig.file("output", output);
        plugin(&kubeconfig, "cat output");
        refused(&kubeconfig).await
    };
    has(&of("s3cret: [").await, &["something else than an ExecCredential", "by hand"]);
    has(&of("").await, &["something else than an ExecCredential"]);
    has(&of(r#"{"kind": "s3cret"}"#).await, &["its kind is another"]);
    let credential = |version: &str, status: &str| {
        format!(
            r#"{{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/{version}", {status}}}"#
        )
    };
    let status = |status: &str| credential("v1", &format!(r#""status": {status}"#));
    has(
        &of(&credential("v1beta1", r#""status": {"token": "s3cret"}"#)).await,
        &["another apiVersion", "k8s.io/v1"],
    );
    has(&of(&credential("v1", r#""spec": {}"#)).await, &["without a status"]);
    has(&of(&status("{}")).await, &["neither a token nor a certificate"]);
    has(&of(&status(r#"{"token": "s3cret\u0001"}"#)).await, &["cannot carry"]);
    has(
        &of(&status(r#"{"clientKeyData": "s3cret"}"#)).await,
        &["only one of clientCertificateData and clientKeyData"],
    );
    has(
        &of(&status(r#"{"clientCertificateData": "s3cret", "clientKeyData": "s3cret"}"#)).await,
        &["certificate that cannot be used", "clientCertificateData holds no certificate"],
    );
    has(
        &of(&status(r#"{"token": "s3cret", "expirationTimestamp": "soon"}"#)).await,
        &["expirationTimestamp"],
    );
}

#[tokio::test]
async fn what_kubectl_refuses_in_exec_is_refused() {
    let of = async |exec: &str| refused(&Kubeconfig::new("https://h", &[], &[exec])).await;
    has(&of("exec: {apiVersion: client.authentication.k8s.io/v1}").await, &["set exec.command"]);
    let version = of("exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}").await;
    has(&version, &["\"x\"", "exec.apiVersion is not supported", "set client.authentication.k8s.io/v1"]);
    let v1 =
        |more: &str| format!("exec: {{apiVersion: client.authentication.k8s.io/v1, command: x, {more}}}");
    has(&of(&v1("args: []")).await, &["interactiveMode", "Never, IfAvailable or Always"]);
    has(&of(&v1("interactiveMode: Never, env: [{value: s3cret}]")).await, &["exec.env has no name"]);
    if !std::io::IsTerminal::is_terminal(&std::io::stdin()) {
        has(&of(&v1("interactiveMode: Always")).await, &["standard input is no terminal"]);
    }
    let both = Kubeconfig::new("https://h", &[], &[EXEC, "auth-provider: {name: oidc}"]);
    has(&refused(&both).await, &["exec and auth-provider"]);
}

#[tokio::test]
async fn a_plugin_that_hangs_is_stopped_with_all_it_has_started() {
    let kubeconfig = Kubeconfig::new("https://127.0.0.1:1", &[], &[EXEC]);
    let dir = kubeconfig.dir.path();
    assert!(std::process::Command::new("mkfifo").arg(dir.join("ready")).status().unwrap().success());
    plugin(&kubeconfig, "sleep 1000 & echo $! > ready; wait");
    let options = kubeconfig.options();
    let client = tokio::spawn(Client::new(options));
    let ready = dir.join("ready");
    let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(ready));
    let pid = soon(read).await.unwrap().unwrap();
    tokio::time::pause();
    let message = client.await.unwrap().unwrap_err().to_string();
    has(&message, &["/plugin\"", "nothing within 60s", "by hand"]);
    tokio::time::resume();
    // Whoever reaps orphans may take its time.
    let gone = || match std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())) {
        Ok(stat) => stat.contains(") Z "),
        Err(_) => true,
    };
    soon(async {
        while !gone() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn what_a_plugin_leaves_running_neither_holds_it_up_nor_is_ended() {
    let kubeconfig = Kubeconfig::new("https://127.0.0.1:1", &[], &[EXEC]);
    let agent = || {
        let pid = std::fs::read_to_string(kubeconfig.dir.path().join("agent")).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap();
        assert!(!stat.contains(") Z "), "{stat}");
        let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    };
    for held in ["> /dev/null", "2> /dev/null", ""] {
        gives(&kubeconfig, json!({"token": "t"}));
        plugin(&kubeconfig, &format!("sleep 300 {held} & echo $! > agent; cat credential"));
        soon(kubeconfig.client()).await.unwrap();
        agent();
    }
    plugin(&kubeconfig, "sleep 300 & echo $! > agent; echo please log in >&2; exit 3");
    has(&soon(refused(&kubeconfig)).await, &["exit status: 3: please log in"]);
    agent();
}

#[tokio::test]
async fn a_plugin_is_not_asked_by_those_who_have_something_else() {
    let server = Server::always(200, &pod("a", 1)).await;
    let kubeconfig = Kubeconfig::new(&server.url, &[], &[EXEC, "token: mine"]);
    let client = kubeconfig.client().await.unwrap();
    assert_eq!((token(&client, &server).await, runs(&kubeconfig)), ("Bearer mine".to_owned(), 0));
}
