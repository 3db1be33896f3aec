//! Client certificates and authorities: used, followed as their files rotate, and refused with a remedy.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_client::{Client, WatchEvent, WatchParams};
use rcgen::date_time_ymd;
use tokio::sync::mpsc::UnboundedSender;

use crate::config::{has, refused};
use crate::support::{
    Authority, Kubeconfig, Logs, Pair, Reply, Seen, Server, event, key, pod, pods, soon, tls,
};

type Piece = std::io::Result<bytes::Bytes>;

/// An API server that takes certificates of its authority, and a kubeconfig with one.
struct Setup {
    authority: Authority,
    server: Server,
    kubeconfig: Kubeconfig,
    first: Pair,
    /// Streams of the watches.
    watches: Arc<Mutex<Vec<UnboundedSender<Piece>>>>,
}

const FILES: &[&str] = &["client-certificate: me.pem", "client-key: me.key"];

async fn setup() -> Setup {
    setup_with(|_| None).await
}

/// `answer` goes before the usual answers.
async fn setup_with(answer: impl Fn(&Seen) -> Option<Reply> + Send + Sync + 'static) -> Setup {
    let authority = Authority::new();
    let watches = Arc::new(Mutex::new(Vec::new()));
    let opened = Arc::clone(&watches);
    let server = Server::start_tls(authority.server().0, move |seen| {
        if let Some(reply) = answer(seen) {
            return reply;
        }
        if seen.query("watch").is_none() {
            return Reply::json(pod("a", 1));
        }
        let (sender, reply) = Reply::pieces();
        opened.lock().push(sender);
        reply
    })
    .await;
    let kubeconfig = Kubeconfig::new(&server.url, &["certificate-authority: ca.pem"], FILES);
    kubeconfig.file("ca.pem", &authority.pem);
    let first = authority.client();
    let setup = Setup { authority, server, kubeconfig, first: first.clone(), watches };
    setup.write(&first);
    setup
}

impl Setup {
    fn write(&self, pair: &Pair) {
        self.kubeconfig.file("me.pem", &pair.certificate);
        self.kubeconfig.file("me.key", &pair.key);
    }

    /// The certificate and the connection of a request.
    async fn get(&self, client: &Client) -> (Option<Vec<u8>>, usize) {
        let _ = soon(client.get(&pods(), &key("default/a"), None)).await;
        let seen = self.server.seen().pop().unwrap();
        (seen.peer, seen.connection)
    }

    /// Requests until one shows this certificate.
    async fn until(&self, client: &Client, pair: &Pair) {
        soon(async { while self.get(client).await.0 != Some(pair.der()) {} }).await;
    }
}

async fn advance(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_client_certificate_that_rotates_is_used_within_a_minute_and_streams_go_on() {
    let setup = setup().await;
    let client = setup.kubeconfig.client().await.unwrap();
    let mut watch = soon(client.watch(&pods(), None, &WatchParams::default())).await.unwrap();
    assert_eq!(setup.get(&client).await, (Some(setup.first.der()), 1));
    let second = setup.authority.client();
    setup.write(&second);
    // Not idle for so long that the connection would be given up anyway.
    advance(50).await;
    assert_eq!(setup.get(&client).await, (Some(setup.first.der()), 1));
    advance(11).await;
    // The first request has the files read, and does not wait for them.
    assert_eq!(setup.get(&client).await, (Some(setup.first.der()), 1));
    setup.until(&client, &second).await;
    assert_eq!(setup.get(&client).await, (Some(second.der()), 2));
    let sender = setup.watches.lock()[0].clone();
    sender.send(Ok(event("ADDED", &pod("a", 1)).into())).unwrap();
    assert!(matches!(soon(watch.next()).await, Some(Ok(WatchEvent::Added(_)))));
    let _watch = soon(client.watch(&pods(), None, &WatchParams::default())).await.unwrap();
    let seen = setup.server.seen().pop().unwrap();
    assert_eq!((seen.peer, seen.connection), (Some(second.der()), 3));
}

#[tokio::test]
async fn a_certificate_that_is_half_written_is_told_once_and_the_old_one_goes_on() {
    let (logs, _guard) = Logs::capture(tracing::Level::INFO);
    let setup = setup().await;
    let client = setup.kubeconfig.client().await.unwrap();
    setup.get(&client).await;
    let second = setup.authority.client();
    let old = Some(setup.first.der());
    // A request after a minute has the files read, a later one tells what was found.
    let told = async |complaints: usize| {
        advance(61).await;
        soon(async {
            while logs.count("certificate_unusable") < complaints {
                assert_eq!(setup.get(&client).await.0, old);
            }
        })
        .await;
        // Other lines warn of files that a busy machine does not read in time.
        assert_eq!(logs.count("certificate_unusable"), complaints, "{}", logs.text());
    };
    // The certificate is there before its key.
    setup.kubeconfig.file("me.pem", &second.certificate);
    told(1).await;
    has(&logs.text(), &["me.key cannot be used", "does it belong to client-certificate"]);
    for _ in 0..3 {
        advance(61).await;
        for _ in 0..3 {
            assert_eq!(setup.get(&client).await.0, old);
        }
    }
    setup.kubeconfig.file("me.pem", &second.certificate[..200]);
    told(2).await;
    std::fs::remove_file(setup.kubeconfig.dir.path().join("me.pem")).unwrap();
    told(3).await;
    setup.write(&second);
    advance(61).await;
    setup.until(&client, &second).await;
    assert_eq!(logs.count("have rotated"), 1, "{}", logs.text());
}

#[tokio::test]
async fn a_certificate_that_the_server_refuses_is_read_again_at_once() {
    let refused = Arc::new(Mutex::new(None));
    let of_server = Arc::clone(&refused);
    let setup =
        setup_with(move |seen| (*of_server.lock() == seen.peer).then(|| Reply::new(401, "revoked"))).await;
    let client = setup.kubeconfig.client().await.unwrap();
    assert_eq!(setup.get(&client).await, (Some(setup.first.der()), 0));
    *refused.lock() = Some(setup.first.der());
    let second = setup.authority.client();
    setup.kubeconfig.file("me.pem", &second.certificate);
    let key = setup.kubeconfig.hangs("me.key");
    assert_eq!(setup.get(&client).await, (Some(setup.first.der()), 0));
    // The next request waits for the files, which can be read only after it began.
    let (next, ()) = tokio::join!(setup.get(&client), async { key.end_with(&second.key) });
    assert_eq!(next, (Some(second.der()), 1));
    // While their mount hangs, a refused request delays the next by a second at most.
    *refused.lock() = Some(second.der());
    let _hanging = setup.kubeconfig.hangs("me.key");
    for _ in 0..3 {
        assert_eq!(setup.get(&client).await, (Some(second.der()), 1));
    }
}

#[tokio::test]
async fn files_that_are_read_at_the_start_hold_up_no_other_task() {
    let server = Server::start(|_| Reply::json(pod("a", 1))).await;
    for name in ["config", "token"] {
        let kubeconfig = Kubeconfig::new(&server.url, &[], &["tokenFile: token"]);
        kubeconfig.file("token", "good");
        let path = kubeconfig.dir.path().join(name);
        let text = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let (tell, told) = std::sync::mpsc::channel();
        // The file can be read once another task ran; or after a while, so that a test that fails ends.
        let writer = std::thread::spawn(move || {
            let in_time = told.recv_timeout(Duration::from_secs(10));
            std::fs::write(path, text).unwrap();
            in_time
        });
        let (client, ()) = tokio::join!(kubeconfig.client(), async { tell.send(()).unwrap() });
        client.unwrap();
        assert_eq!(writer.join().unwrap(), Ok(()), "{name}");
    }
}

#[tokio::test]
async fn certificates_whose_mount_hangs_hold_up_neither_requests_nor_handshakes() {
    let (logs, _guard) = Logs::capture(tracing::Level::WARN);
    let setup = setup().await;
    let client = setup.kubeconfig.client().await.unwrap();
    let first = Some(setup.first.der());
    assert_eq!(setup.get(&client).await, (first.clone(), 0));
    let hanging = setup.kubeconfig.hangs("me.key");
    advance(61).await;
    // It opens a connection of its own.
    let _watch = soon(client.watch(&pods(), None, &WatchParams::default())).await.unwrap();
    let seen = setup.server.seen().pop().unwrap();
    assert_eq!((seen.peer, seen.connection), (first.clone(), 1));
    for _ in 0..3 {
        advance(61).await;
        assert_eq!(setup.get(&client).await.0, first);
    }
    assert_eq!(logs.count("are not read within"), 1, "{}", logs.text());
    let second = setup.authority.client();
    std::fs::remove_file(setup.kubeconfig.dir.path().join("me.key")).unwrap();
    setup.write(&second);
    drop(hanging);
    setup.until(&client, &second).await;
}

#[tokio::test]
async fn a_certificate_and_a_key_that_are_swapped_in_between_are_read_again_at_once() {
    let setup = setup().await;
    let dir = setup.kubeconfig.dir.path().to_owned();
    let second = setup.authority.client();
    std::fs::remove_file(dir.join("me.pem")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(dir.join("me.pem")).status().unwrap().success());
    let (first, next) = (setup.first.clone(), second.clone());
    // The certificate is still being read when both are swapped.
    let swap = std::thread::spawn(move || {
        let mut pipe = std::fs::File::options().write(true).open(dir.join("me.pem")).unwrap();
        std::io::Write::write_all(&mut pipe, first.certificate.as_bytes()).unwrap();
        std::fs::remove_file(dir.join("me.pem")).unwrap();
        std::fs::write(dir.join("me.pem"), next.certificate).unwrap();
        std::fs::write(dir.join("me.key"), next.key).unwrap();
    });
    let client = setup.kubeconfig.client().await.unwrap();
    swap.join().unwrap();
    assert_eq!(setup.get(&client).await.0, Some(second.der()));
}

#[tokio::test]
async fn an_authority_that_rotates_is_known_at_the_next_handshake() {
    let (old, new) = (Authority::new(), Authority::new());
    let (mut tls, served_by) = old.server();
    // A session that is resumed shows no certificate.
    Arc::get_mut(&mut tls).unwrap().send_tls13_tickets = 0;
    let server = Server::start_tls(tls, |_| Reply::json(pod("a", 1))).await;
    let kubeconfig = Kubeconfig::new(&server.url, &["certificate-authority: ca.pem"], &[]);
    kubeconfig.file("ca.pem", &old.pem);
    let client = kubeconfig.client().await.unwrap();
    soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
    served_by.now(&new);
    // A watch opens a connection of its own.
    let error = soon(client.watch(&pods(), None, &WatchParams::default())).await.unwrap_err();
    assert!(error.to_string().contains("certificate-authority of the kubeconfig's cluster"), "{error}");
    kubeconfig.file("ca.pem", &new.pem);
    soon(client.watch(&pods(), None, &WatchParams::default())).await.unwrap();
    soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
    assert_eq!(server.seen().pop().unwrap().connection, 3);
}

#[tokio::test]
async fn connections_of_rotated_certificates_are_closed_after_five_minutes() {
    let setup = setup().await;
    let client = setup.kubeconfig.client().await.unwrap();
    let mut watch = soon(client.watch(&pods(), None, &WatchParams::default())).await.unwrap();
    let (second, events) = (setup.authority.client(), setup.watches.lock()[0].clone());
    setup.get(&client).await;
    setup.write(&second);
    advance(61).await;
    setup.until(&client, &second).await;
    events.send(Ok(event("ADDED", &pod("a", 1)).into())).unwrap();
    assert!(matches!(soon(watch.next()).await, Some(Ok(WatchEvent::Added(_)))), "it goes on for now");
    advance(301).await;
    assert!(soon(watch.next()).await.unwrap().is_err(), "a stream under the old certificate has ended");
}

#[tokio::test]
async fn certificates_in_the_kubeconfig_are_used_and_go_before_files() {
    use base64::Engine as _;
    let setup = setup().await;
    let base64 = |text: &str| base64::prelude::BASE64_STANDARD.encode(text);
    let pair = setup.authority.client();
    let kubeconfig = Kubeconfig::new(
        &setup.server.url,
        &[
            &format!("certificate-authority-data: {}", base64(&setup.authority.pem)),
            "certificate-authority: gone",
        ],
        &[
            &format!("client-certificate-data: {}", base64(&pair.certificate)),
            &format!("client-key-data: {}", base64(&pair.key)),
            "client-certificate: gone",
        ],
    );
    let client = kubeconfig.client().await.unwrap();
    assert_eq!(setup.get(&client).await.0, Some(pair.der()));
}

#[tokio::test]
async fn a_certificate_that_has_expired_is_refused_and_one_that_is_not_valid_yet_is_told() {
    let setup = setup().await;
    setup.write(&setup.authority.sign("old", |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 2, 3);
    }));
    let message = refused(&setup.kubeconfig).await;
    has(&message, &["client-certificate", "me.pem expired on 2021-02-03T00:00:00Z", "renew it"]);
    setup.write(&setup.authority.sign("new", |params| params.not_before = date_time_ymd(2999, 1, 1)));
    let (logs, _guard) = Logs::capture(tracing::Level::WARN);
    setup.kubeconfig.client().await.unwrap();
    has(&logs.text(), &["me.pem is not valid before 2999-01-01T00:00:00Z", "clock"]);
}

#[tokio::test]
async fn an_expired_certificate_beside_a_token_is_warned_of_and_the_token_works() {
    let authority = Authority::new();
    let tls = tls(&["h2"]);
    let server = Server::start_tls(tls.server.clone(), |_| Reply::json(pod("a", 1))).await;
    let user = ["client-certificate: me.pem", "client-key: me.key", "token: good"];
    let kubeconfig = Kubeconfig::new(&server.url, &["certificate-authority: ca.pem"], &user);
    kubeconfig.file("ca.pem", &tls.ca);
    let old = authority.sign("old", |params| params.not_after = date_time_ymd(2021, 2, 3));
    kubeconfig.file("me.pem", &old.certificate);
    kubeconfig.file("me.key", &old.key);
    let (logs, _guard) = Logs::capture(tracing::Level::WARN);
    let client = kubeconfig.client().await.unwrap();
    soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
    assert_eq!(server.only().header("authorization"), Some("Bearer good"));
    has(&logs.text(), &["me.pem expired on 2021-02-03"]);
}

#[tokio::test]
async fn certificates_of_a_bundle_that_cannot_be_read_are_skipped_with_one_warning() {
    let tls = tls(&["h2"]);
    let server = Server::start_tls(tls.server.clone(), |_| Reply::json(pod("a", 1))).await;
    let kubeconfig = Kubeconfig::new(&server.url, &["certificate-authority: ca.pem"], &[]);
    let odd = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let damaged = "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n";
    kubeconfig.file("ca.pem", &[odd, damaged, &tls.ca, "text\n", odd].concat());
    let (logs, _guard) = Logs::capture(tracing::Level::WARN);
    let client = kubeconfig.client().await.unwrap();
    for _ in 0..3 {
        advance(61).await;
        soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
    }
    assert_eq!(logs.count("3 of 4 certificates"), 1, "{}", logs.text());
}

#[tokio::test]
async fn an_expired_certificate_does_not_replace_a_good_one() {
    let (logs, _guard) = Logs::capture(tracing::Level::INFO);
    let setup = setup().await;
    let client = setup.kubeconfig.client().await.unwrap();
    setup.write(&setup.authority.sign("old", |params| params.not_after = date_time_ymd(2021, 2, 3)));
    advance(61).await;
    soon(async {
        while logs.count("me.pem expired on 2021-02-03") == 0 {
            assert_eq!(setup.get(&client).await.0, Some(setup.first.der()));
        }
    })
    .await;
}

/// Set for the process that [`without_an_authority_the_platform_s_certificates_count`] starts: the server to ask.
const SERVER: &str = "PILOTHOUSE_TEST_SERVER";

#[tokio::test]
async fn without_an_authority_the_platform_s_certificates_count() {
    // The platform's certificates are read from the environment, so the client runs in a process of its own.
    if let Ok(url) = std::env::var(SERVER) {
        let client = Kubeconfig::new(&url, &[], &[]).client().await.unwrap();
        soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
        return;
    }
    let authority = Authority::new();
    let server = Server::start_tls(authority.server().0, |_| Reply::json(pod("a", 1))).await;
    let dir = tempfile::tempdir().unwrap();
    for (pem, trusted) in [(&authority.pem, true), (&Authority::new().pem, false)] {
        let path = dir.path().join("platform.pem");
        std::fs::write(&path, pem).unwrap();
        let output = tokio::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tls::without_an_authority_the_platform_s_certificates_count"])
            .env(SERVER, &server.url)
            .env("SSL_CERT_FILE", &path)
            .env_remove("SSL_CERT_DIR")
            .output()
            .await
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.success(), trusted, "{said}");
        assert!(said.contains("1 passed") == trusted, "{said}");
    }
    assert_eq!(server.seen().len(), 1);
}
