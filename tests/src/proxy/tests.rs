//! The proxy between a client and a server that responds to each byte with the next one.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Instant;

use super::*;
use crate::poll;

const SOON: Duration = Duration::from_secs(10);

fn server() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut byte = [0];
                while stream.read_exact(&mut byte).is_ok() && stream.write_all(&[byte[0] + 1]).is_ok() {}
            });
        }
    });
    address
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

fn answer(mut stream: &TcpStream, byte: u8) -> io::Result<u8> {
    stream.write_all(&[byte])?;
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    Ok(answer[0])
}

#[test]
fn bytes_and_connections_are_counted() {
    let proxy = Proxy::start(server()).unwrap();
    let first = connect(&proxy);
    let second = connect(&proxy);
    assert_eq!((answer(&first, 1).unwrap(), answer(&second, 5).unwrap()), (2, 6));
    let expected = Seen { connections: 2, open: 2, bytes_up: 2, bytes_down: 2 };
    // A byte is counted after it was written.
    poll::until("both bytes to be counted", SOON, || proxy.seen() == expected).unwrap();

    first.shutdown(Shutdown::Write).unwrap();
    assert_eq!((&first).read(&mut [0]).unwrap(), 0, "the server's end comes through");
    poll::until("one connection to be closed", SOON, || proxy.seen().open == 1).unwrap();
}

#[test]
fn each_chunk_is_delayed_both_ways() {
    let proxy = Proxy::start(server()).unwrap();
    let stream = connect(&proxy);
    proxy.delay(Duration::from_millis(60));
    let started = Instant::now();
    assert_eq!(answer(&stream, 1).unwrap(), 2);
    assert!(started.elapsed() >= Duration::from_millis(120), "{:?}", started.elapsed());
}

#[test]
fn a_stalled_connection_goes_on_when_healed() {
    let proxy = Proxy::start(server()).unwrap();
    let stream = connect(&proxy);
    assert_eq!(answer(&stream, 1).unwrap(), 2);
    proxy.stall();
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let error = answer(&stream, 2).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    proxy.heal();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let mut byte = [0];
    (&stream).read_exact(&mut byte).unwrap();
    assert_eq!(byte, [3]);
}

#[test]
fn cutting_resets_what_is_open_and_accepts_what_comes() {
    let proxy = Proxy::start(server()).unwrap();
    let stream = connect(&proxy);
    assert_eq!(answer(&stream, 1).unwrap(), 2);
    proxy.stall();
    proxy.cut();
    assert_eq!(proxy.seen().open, 0);
    assert_eq!((&stream).read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    proxy.heal();
    assert_eq!(answer(&connect(&proxy), 7).unwrap(), 8);
}

#[test]
fn refusing_keeps_the_port_and_what_is_open() {
    let proxy = Proxy::start(server()).unwrap();
    let stream = connect(&proxy);
    assert_eq!(answer(&stream, 1).unwrap(), 2);
    proxy.refuse();
    let refused = TcpStream::connect(proxy.address()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(answer(&stream, 2).unwrap(), 3);
    proxy.heal();
    assert_eq!(answer(&connect(&proxy), 7).unwrap(), 8);
}

#[test]
fn a_server_that_is_gone_resets_the_client() {
    let nowhere = {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.local_addr().unwrap()
    };
    let proxy = Proxy::start(nowhere).unwrap();
    let error = answer(&connect(&proxy), 1).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error}");
}
