//! Clients that stop in the middle. The clock is paused: it jumps to the next timer whenever everybody waits, so that a
//! connection without a time limit lasts until the test's own limit.

use std::time::Duration;

use pilothouse_devserver::{DevServer, DevServerOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// Longer than every time limit of a connection, shorter than a watch.
const LIMIT: Duration = Duration::from_secs(600);

/// What comes on a connection on which this was sent, until the server ends it; and when that was.
async fn answer_to(tls: bool, sent: &[u8]) -> (Vec<u8>, Duration) {
    let server = DevServer::start(DevServerOptions { tls, ..DevServerOptions::default() }).await.unwrap();
    let start = Instant::now();
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(sent).await.unwrap();
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match timeout(LIMIT, stream.read(&mut buffer)).await.expect("the server ends the connection") {
            Ok(0) | Err(_) => return (answer, start.elapsed()),
            Ok(count) => answer.extend_from_slice(&buffer[..count]),
        }
        // Until the end is there, a limit of the whole.
        assert!(start.elapsed() < LIMIT, "{:?} {:?}", start.elapsed(), String::from_utf8_lossy(&answer));
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_request_is_closed() {
    let first_request = Duration::from_secs(30);
    // The first record of a TLS handshake, cut off; the preface of HTTP/2, cut off and whole, with empty settings.
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let http2 = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &settings].concat();
    for (tls, sent) in [
        (false, b"".as_slice()),
        (true, b""),
        (true, b"\x16\x03\x01\x02\x00\x01"),
        (false, b"GET /version HT"),
        (false, b"GET /version HTTP/1.1\r\nHost: localhost\r\nX: "),
        (false, b"PRI * HT"),
        (false, &http2),
    ] {
        let (_, after) = answer_to(tls, sent).await;
        assert!(after >= first_request && after < first_request * 2, "{after:?} {sent:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_later() {
    let (answer, after) = answer_to(false, b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(answer.starts_with(b"HTTP/1.1 200"));
    assert!(after >= Duration::from_secs(90), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_given_up() {
    let head = "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{";
    let (answer, after) = answer_to(false, head.as_bytes()).await;
    let text = String::from_utf8_lossy(&answer);
    assert!(text.starts_with("HTTP/1.1 408") && text.contains("within 60s"), "{text}");
    assert!(after >= Duration::from_secs(60), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_client_of_http_2_that_answers_no_ping_is_given_up_with_its_watches() {
    let path = b"/api/v1/configmaps?watch=1";
    // :method GET, :scheme http, :path and :authority as literals.
    let mut fields = vec![0x82, 0x86, 0x04, path.len() as u8];
    fields.extend_from_slice(path);
    fields.extend_from_slice(b"\x01\x09localhost");
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    // END_STREAM and END_HEADERS on stream 1.
    let headers = [0, 0, fields.len() as u8, 1, 5, 0, 0, 0, 1];
    let sent = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &settings, &headers, &fields].concat();
    let (answer, after) = answer_to(false, &sent).await;
    let ping = [0, 0, 8, 6, 0, 0, 0, 0, 0];
    assert!(answer.windows(ping.len()).any(|frame| frame == ping), "{answer:?}");
    assert!(after >= Duration::from_secs(50), "{after:?}");
}
