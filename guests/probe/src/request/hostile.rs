//! What no honest client does, over the raw interface: each way logs a line `http` with what the host said.

use std::cell::RefCell;

use pilothouse_sdk::prelude::*;
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{Fields, FutureIncomingResponse, OutgoingBody, OutgoingRequest, Scheme};

/// What is done.
#[derive(Clone, Copy, Deserialize)]
#[serde(crate = "pilothouse_sdk::serde", rename_all = "kebab-case")]
pub(crate) enum Way {
    /// Begins requests and keeps their answers, unread, until the host will have no more of it.
    Hoard,
    /// Begins requests and lets go of each at once.
    Abandon,
    /// Begins bodies and lets go of them half-way.
    HalfBody,
    /// A `Host` header of its own, a newline in a value, and others that a guest may not set.
    Headers,
    /// The URL's rest as authority, whatever it is.
    Authority,
    /// The URL as path.
    AbsolutePath,
    /// A scheme that is none of HTTP's.
    Scheme,
    /// `CONNECT`.
    Connect,
}

/// How many are begun.
const MANY: usize = 3000;

thread_local! {
    static KEPT: RefCell<Vec<FutureIncomingResponse>> = const { RefCell::new(Vec::new()) };
}

/// A request for `/`, over plain HTTP, without a host yet.
fn nowhere(headers: Fields) -> OutgoingRequest {
    let request = OutgoingRequest::new(headers);
    let _ = request.set_scheme(Some(&Scheme::Http));
    let _ = request.set_path_with_query(Some("/"));
    request
}

fn outgoing(authority: &str) -> OutgoingRequest {
    let request = nowhere(Fields::new());
    let _ = request.set_authority(Some(authority));
    request
}

fn said(what: &str, text: impl std::fmt::Display) {
    info!("http", what = what, said = text);
}

/// Hands a request over and logs what becomes of it.
fn send(what: &str, request: OutgoingRequest) {
    match handle(request, None) {
        Ok(answer) => {
            answer.subscribe().block();
            match answer.get() {
                Some(Ok(Ok(response))) => said(what, response.status()),
                Some(Ok(Err(code))) => said(what, code),
                other => said(what, format!("{other:?}")),
            }
        }
        Err(code) => said(what, code),
    }
}

pub(crate) fn run(way: Way, url: &str) {
    let authority = url.trim_start_matches("http://");
    match way {
        Way::Hoard => {
            for _ in 0..MANY {
                if let Ok(answer) = handle(outgoing(authority), None) {
                    KEPT.with_borrow_mut(|kept| kept.push(answer));
                }
            }
            said("hoard", KEPT.with_borrow(Vec::len));
        }
        Way::Abandon => {
            for _ in 0..MANY {
                drop(handle(outgoing(authority), None));
            }
            said("abandon", MANY);
        }
        Way::HalfBody => {
            for _ in 0..100 {
                let headers = Fields::new();
                let _ = headers.set("Content-Length", &[b"1000".to_vec()]);
                let request = nowhere(headers);
                let _ = request.set_authority(Some(authority));
                let body = request.body().expect("the first body");
                let answer = handle(request, None);
                let stream = body.write().expect("the first stream");
                let _ = stream.write(b"half");
                drop(stream);
                if OutgoingBody::finish(body, None).is_ok() {
                    said("half-body", "a body of half its length was finished");
                }
                drop(answer);
            }
            said("half-body", "over");
        }
        Way::Headers => {
            for (name, value) in [
                ("Host", "evil.example"),
                ("Connection", "close"),
                ("Transfer-Encoding", "chunked"),
                ("Upgrade", "h2c"),
                ("TE", "trailers"),
                ("Expect", "100-continue"),
                ("Keep-Alive", "x"),
                ("Proxy-Authorization", "x"),
                ("Proxy-Thing", "x"),
                ("X", "a\r\nHost: evil.example"),
                ("X\nY", "a"),
                ("X Y", "a"),
            ] {
                match Fields::new().append(name, value.as_bytes()) {
                    Ok(()) => said(name, "taken"),
                    Err(error) => said(name, format!("{error:?}")),
                }
            }
        }
        Way::Authority => {
            let request = nowhere(Fields::new());
            match request.set_authority(Some(authority)) {
                Ok(()) => send(authority, request),
                Err(()) => said(authority, "not taken"),
            }
        }
        Way::AbsolutePath => {
            let request = outgoing(authority);
            match request.set_path_with_query(Some(&format!("http://evil.example/{url}"))) {
                Ok(()) => send("absolute-path", request),
                Err(()) => said("absolute-path", "not taken"),
            }
        }
        Way::Scheme => {
            let request = outgoing(authority);
            let _ = request.set_scheme(Some(&Scheme::Other("ftp".to_owned())));
            send("scheme", request);
        }
        Way::Connect => {
            let request = outgoing(authority);
            let _ = request.set_method(&wasip2::http::types::Method::Connect);
            send("connect", request);
        }
    }
}
