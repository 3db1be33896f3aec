//! Tests of the harness for the host, with a shell script instead of the host.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use super::*;

const SOON: Duration = Duration::from_secs(10);

/// An admin port with a fixed response per path.
fn admin(pages: &'static [(&'static str, &'static str)]) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 1024];
            let read = stream.read(&mut request).unwrap();
            let request = String::from_utf8_lossy(&request[..read]).into_owned();
            let path = request.split(' ').nth(1).unwrap_or_default();
            let page = pages.iter().find(|(its_path, _)| *its_path == path);
            let (status, body) = page.map_or(("404 Not Found", "none"), |(_, body)| ("200 OK", *body));
            write!(stream, "HTTP/1.0 {status}\r\n\r\n{body}").unwrap();
        }
    });
    format!("http://{address}")
}

/// A script as host: prints its arguments on standard error and the admin address on standard output, then runs `then`.
fn start(admin: &str, then: &str) -> anyhow::Result<Host> {
    let env = [("FAKE_ADMIN", admin), ("FAKE_THEN", then)];
    Host::start(HostOptions {
        program: Some(paths::repository().join("tests/src/host/fake-host.sh")),
        args: vec!["--extra".into()],
        env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        ..HostOptions::new("/some/kubeconfig")
    })
}

#[test]
fn the_host_is_started_on_its_folders() {
    let host = start("http://127.0.0.1:1", "exec sleep 600").unwrap();
    assert_eq!(host.admin(), "http://127.0.0.1:1");
    let args = host.wait_for("the arguments", SOON, || host.log().matching("args: ").pop()).unwrap();
    let (plugins, cache) = (host.dir().join("plugins"), paths::target().join("compile-cache"));
    let expected = format!(
        "args: run --plugins {} --kubeconfig /some/kubeconfig --cache-dir {} --log-format json --extra --listen 127.0.0.1:0",
        plugins.display(),
        cache.display()
    );
    assert_eq!(args, expected);
    assert!(host.cpu_time().unwrap() < SOON);
    assert!(host.process().resident_bytes().unwrap() > 4096);

    let dir = host.dir().to_owned();
    drop(host);
    assert!(!dir.exists());
}

#[test]
fn the_admin_port_is_read() {
    let address = admin(&[("/plugins", r#"{"a": {"state": "ready"}}"#), ("/metrics", "up{x=\"y\"} 2\n")]);
    let host = start(&address, "exec sleep 600").unwrap();
    assert_eq!(host.plugins().unwrap()["a"]["state"], "ready");
    assert_eq!(host.metrics().unwrap().sum("up", &[]), Some(2.0));
    assert_eq!(host.get("/nowhere").unwrap().status, 404);
}

#[test]
fn plugins_are_installed_replaced_and_removed() {
    let elsewhere = tempfile::tempdir().unwrap();
    let host = start("http://127.0.0.1:1", "exec sleep 600").unwrap();
    let wasm = elsewhere.path().join("component");
    let installed = || {
        let files = fs::read_dir(host.plugins_dir()).unwrap();
        let mut names: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    fs::write(&wasm, "first").unwrap();
    host.install("a", &wasm, Some("kind: Plugin")).unwrap();
    host.install("b", &wasm, None).unwrap();
    assert_eq!(installed(), ["a.wasm", "a.yaml", "b.wasm"]);

    fs::write(&wasm, "second").unwrap();
    host.install("a", &wasm, None).unwrap();
    assert_eq!(fs::read_to_string(host.plugins_dir().join("a.wasm")).unwrap(), "second");
    assert_eq!(fs::read_to_string(host.plugins_dir().join("a.yaml")).unwrap(), "kind: Plugin");

    host.remove("a").unwrap();
    host.remove("b").unwrap();
    assert_eq!(installed(), Vec::<String>::new());
    assert!(host.remove("a").is_err());
}

#[test]
fn a_failed_wait_shows_the_log() {
    // The script writes to both streams, which two threads read: when both lines have arrived, one of them is the last.
    let host =
        start("http://127.0.0.1:1", "echo the cache is cold >&2; echo the cache is cold; exec sleep 600")
            .unwrap();
    host.wait_for("the log", SOON, || host.log().matching("cold").len() == 2).unwrap();
    let error = host.wait_for("a warm cache", Duration::ZERO, || false).unwrap_err().to_string();
    assert!(error.starts_with("a warm cache: not within 0ns"), "{error}");
    assert!(error.ends_with("the cache is cold"), "{error}");
}

#[test]
fn a_wait_ends_with_the_host() {
    let host = start("http://127.0.0.1:1", "echo goodbye >&2; read line; exit 3").unwrap();
    host.signal(Signal::TERM).unwrap();
    let error = host.wait_for("a miracle", Duration::from_secs(600), || false).unwrap_err().to_string();
    assert!(error.starts_with("a miracle: the host ended (signal: 15"), "{error}");
    assert_eq!(host.wait_exit(SOON).unwrap().code(), None);
}

#[test]
fn a_host_that_does_not_start_is_an_error_with_its_log() {
    let error = start("", "echo no such kubeconfig >&2; exit 1").unwrap_err().to_string();
    assert!(error.contains("the host ended (exit status: 1)"), "{error}");
}

#[test]
fn a_test_fails_whose_host_found_a_streaming_list_that_is_wrong() {
    let line = r#"{"level":"ERROR","event":"watch_list_inconsistent","missing":1}"#;
    let host = start("http://127.0.0.1:1", &format!("echo '{line}' >&2; exec sleep 600")).unwrap();
    host.wait_for("the line", SOON, || host.log().matching("inconsistent").pop()).unwrap();
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(host)));
    let message = *dropped.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("missing"), "{message}");
}

#[test]
fn hosts_check_streaming_lists_unless_a_test_turns_that_off() {
    let shown = |env: &[(&str, &str)]| {
        let env = [("FAKE_ADMIN", "http://127.0.0.1:1"), ("FAKE_THEN", "env >&2; exec sleep 600")]
            .iter()
            .chain(env)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let program = Some(paths::repository().join("tests/src/host/fake-host.sh"));
        let host = Host::start(HostOptions { program, env, ..HostOptions::new("/some/kubeconfig") }).unwrap();
        host.wait_for("the variable", SOON, || host.log().matching(CHECK_WATCH_LISTS).pop()).unwrap()
    };
    assert_eq!(shown(&[]), format!("{CHECK_WATCH_LISTS}={}", cfg!(debug_assertions)));
    assert_eq!(shown(&[(CHECK_WATCH_LISTS, "false")]), format!("{CHECK_WATCH_LISTS}=false"));
}
