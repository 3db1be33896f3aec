//! Reads the responses of calls, under a size and a time limit: [`Client::fetch`] whole bodies, [`Client::fetch_pieces`]
//! lists, [`Client::send`] streams.

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap};
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::time::timeout;

use super::failure::{self, protocol};
use super::{Call, Client};
use crate::decompress::{Pieces, Stopped, gunzip_part};
use crate::error::Result;
use crate::transport::ResponseBody;

/// Largest single object, discovery document or raw response that is read. etcd refuses objects above about 1.5 MiB;
/// aggregated servers may store larger ones.
pub(crate) const OBJECT_LIMIT: usize = 16 << 20;
/// Largest error body that is read; the rest of it is not needed.
const ERROR_LIMIT: usize = 1 << 20;

/// Most bytes of a response that are read before the call is sent again. On HTTP/1.1 a body that is not read costs the
/// connection, and a TLS handshake, when the server is busy.
const RETRY_DRAIN: usize = 64 << 10;

/// A response that has been read whole.
pub(crate) struct FullResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Client {
    /// Sends a call whose response is streamed; an error response is read and returned as an error.
    pub(crate) async fn send(&self, call: &Call) -> Result<Response<ResponseBody>> {
        let limit = self.limit(call);
        let head = self.head(call, true, self.until(call));
        let response = timeout(limit, head).await.map_err(|_| self.late(call, limit))??;
        if response.status() == StatusCode::OK {
            self.check_encoding(call, response.headers())?;
            return Ok(response);
        }
        let failure = timeout(limit, read_failure(response)).await.map_err(|_| self.late(call, limit))?;
        Err(failure::of_response(self.doing(call), &failure))
    }

    /// Sends a call and reads its response whole, whatever the status.
    pub(crate) async fn fetch(&self, call: &Call, limit: usize) -> Result<FullResponse> {
        let time = self.limit(call);
        let until = self.until(call);
        let exchange = async {
            let response = self.head(call, false, until).await?;
            match response.status().is_success() {
                true => self.read(call, response, limit).await,
                false => Ok(read_failure(response).await),
            }
        };
        timeout(time, exchange).await.map_err(|_| self.late(call, time))?
    }

    /// Sends a call and hands on the body of a successful response in pieces; other tasks run in between. The request timeout
    /// counts to the head of the response, and again from each piece to the next.
    pub(crate) async fn fetch_pieces(
        &self,
        call: &Call,
        take: &mut (dyn FnMut(&[u8]) -> Result<()> + Send),
    ) -> Result<()> {
        let limit = self.limit(call);
        let late = |_| self.late(call, limit);
        let head = self.head(call, false, self.until(call));
        let response = timeout(limit, head).await.map_err(late)??;
        if !response.status().is_success() {
            let failure = timeout(limit, read_failure(response)).await.map_err(late)?;
            return Err(failure::of_response(self.doing(call), &failure));
        }
        let mut pieces = self.pieces(call, response.headers())?;
        let stopped = |stopped| match stopped {
            Stopped::Corrupt(error) => protocol(self.doing(call), &format!("the body is not gzip: {error}")),
            Stopped::Taker(error) => error,
        };
        let mut body = response.into_body();
        while let Some(frame) = timeout(limit, body.frame()).await.map_err(late)? {
            let frame = frame.map_err(|e| failure::of_transport(self.doing(call), &e))?;
            if let Ok(data) = frame.into_data() {
                pieces.push(&data, &mut *take).map_err(stopped)?;
                // Without this, other tasks would wait while pieces arrive faster than they are decoded.
                tokio::task::yield_now().await;
            }
        }
        pieces.finish(&mut *take).map_err(stopped)
    }

    /// Sends a call and gives the body of a successful response.
    pub(crate) async fn fetch_ok(&self, call: &Call, limit: usize) -> Result<Bytes> {
        let answer = self.fetch(call, limit).await?;
        if answer.status.is_success() {
            return Ok(answer.body);
        }
        Err(failure::of_response(self.doing(call), &answer))
    }

    async fn read(
        &self,
        call: &Call,
        response: Response<ResponseBody>,
        limit: usize,
    ) -> Result<FullResponse> {
        let (parts, mut body) = response.into_parts();
        self.check_encoding(call, &parts.headers)?;
        let too_large = || protocol(self.doing(call), &format!("the response is larger than {limit} bytes"));
        let announced =
            parts.headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<usize>().ok());
        if announced.is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        let mut collected = Collected::default();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|e| failure::of_transport(self.doing(call), &e))?;
            let Ok(data) = frame.into_data() else { continue };
            if collected.len() + data.len() > limit {
                return Err(too_large());
            }
            let more = usize::try_from(body.size_hint().lower()).unwrap_or(0).min(limit);
            collected.push(data, more);
        }
        Ok(FullResponse { status: parts.status, headers: parts.headers, body: collected.into_bytes() })
    }

    /// How the body of a list is to be read.
    fn pieces(&self, call: &Call, headers: &HeaderMap) -> Result<Pieces> {
        let asked = call.is_list && self.core.compress_lists;
        if asked && headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding == "gzip") {
            return Ok(Pieces::gzip());
        }
        self.check_encoding(call, headers)?;
        Ok(Pieces::Identity)
    }

    fn check_encoding(&self, call: &Call, headers: &HeaderMap) -> Result<()> {
        match headers.get(CONTENT_ENCODING) {
            Some(encoding) if encoding != "identity" => {
                let message = format!("the body is encoded as {encoding:?}, which was not asked for");
                Err(protocol(self.doing(call), &message))
            }
            _ => Ok(()),
        }
    }
}

/// Reads a response that is an error, as far as it can be read: whatever is wrong with its body, its status counts.
async fn read_failure(response: Response<ResponseBody>) -> FullResponse {
    let (parts, body) = response.into_parts();
    let body = read_part(body, ERROR_LIMIT).await.into_bytes();
    let body = match parts.headers.get(CONTENT_ENCODING) {
        Some(encoding) if encoding == "gzip" => gunzip_part(&body, ERROR_LIMIT).into(),
        Some(encoding) if encoding != "identity" => Bytes::new(),
        _ => body,
    };
    FullResponse { status: parts.status, headers: parts.headers, body }
}

/// Reads what is left of a response before the call is sent again.
pub(super) async fn drain(response: Response<ResponseBody>) {
    read_part(response.into_body(), RETRY_DRAIN).await;
}

/// The beginning of a body: up to a limit, or to where it breaks.
async fn read_part(mut body: ResponseBody, limit: usize) -> Collected {
    let mut collected = Collected::default();
    while collected.len() < limit
        && let Some(Ok(frame)) = body.frame().await
    {
        if let Ok(mut data) = frame.into_data() {
            data.truncate(limit - collected.len());
            collected.push(data, 0);
        }
    }
    collected
}

/// The pieces of a body as one. A body of one piece, as most objects are, is not copied.
#[derive(Default)]
struct Collected {
    first: Bytes,
    all: Vec<u8>,
}

impl Collected {
    fn len(&self) -> usize {
        self.first.len().max(self.all.len())
    }

    /// `more` is how many bytes are known to follow.
    fn push(&mut self, data: Bytes, more: usize) {
        if self.len() == 0 {
            self.first = data;
            return;
        }
        if self.all.is_empty() {
            self.all.reserve(self.first.len() + data.len() + more);
            self.all.extend_from_slice(&self.first);
        }
        self.all.extend_from_slice(&data);
    }

    fn into_bytes(self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.into() }
    }
}
