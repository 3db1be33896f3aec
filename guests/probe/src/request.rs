//! Makes HTTP requests and logs what becomes of them, one line `http` each: with `status`, `bytes` and the first of the body as `body`, or
//! with the error's `kind` and `message`.
//!
//! What an honest client library would never send goes over the raw interface ([`hostile`]).

use pilothouse_sdk::http;
use pilothouse_sdk::prelude::*;

use crate::modes::stay_busy;
use crate::settings::Settings;

mod hostile;

/// How much of a body is logged.
const SHOWN: usize = 200;

/// A request that the configuration describes.
#[derive(Deserialize, Default)]
#[serde(crate = "pilothouse_sdk::serde", rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RequestSettings {
    /// Where to; more than one are asked in turn.
    pub(crate) urls: Vec<String>,
    /// `GET` when absent.
    pub(crate) method: Option<String>,
    /// Headers to set.
    pub(crate) headers: Vec<(String, String)>,
    /// Size of the body, which is all `x`.
    pub(crate) body: usize,
    /// Bound of each exchange.
    pub(crate) timeout_milliseconds: Option<u64>,
    /// How long it is busy after the last one.
    pub(crate) busy_milliseconds: u64,
    /// What is not to be had from the SDK's client.
    pub(crate) hostile: Option<hostile::Way>,
}

pub(crate) fn run(settings: &Settings) -> Result<Outcome, Failure> {
    let request = &settings.request;
    for _ in 0..settings.count.unwrap_or(1) {
        for url in &request.urls {
            match request.hostile {
                Some(way) => hostile::run(way, url),
                None => report(url, once(request, url)),
            }
        }
    }
    stay_busy(Duration::from_millis(request.busy_milliseconds));
    Ok(Outcome::Done)
}

fn once(settings: &RequestSettings, url: &str) -> Result<http::Response, http::Error> {
    let method = settings.method.as_deref().unwrap_or("GET");
    let mut request = http::Request::new(method, url).body(vec![b'x'; settings.body]);
    for (name, value) in &settings.headers {
        request = request.header(name, value.as_bytes());
    }
    if let Some(limit) = settings.timeout_milliseconds {
        request = request.timeout(Duration::from_millis(limit));
    }
    request.send()
}

fn report(url: &str, result: Result<http::Response, http::Error>) {
    match result {
        Ok(response) => {
            let text = response.text();
            let body = &text[..text.floor_char_boundary(SHOWN)];
            info!("http", url = url, status = response.status, bytes = response.body.len(), body = body);
        }
        Err(error) => info!("http", url = url, kind = format!("{:?}", error.kind), message = error),
    }
}
