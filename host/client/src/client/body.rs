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
use crate::decompress::{Pieces, Stopped};
use crate::error::Result;
use crate::transport::ResponseBody;

/// Largest single object, discovery document or raw answer that is read. etcd refuses objects above about 1.5 MiB;
/// aggregated servers may store larger ones.
pub(crate) const OBJECT_LIMIT: usize = 16 << 20;
/// Largest error body that is read; what stands behind it is not needed.
const ERROR_LIMIT: usize = 1 << 20;

/// An answer that has been read whole.
pub(crate) struct FullResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Client {
    /// Sends a call whose answer is read as it comes; an answer that is an error is read and returned as such.
    pub(crate) async fn send(&self, call: &Call) -> Result<Response<ResponseBody>> {
        let limit = self.limit(call);
        let head = self.head(call, true, self.until(call));
        let response = timeout(limit, head).await.map_err(|_| self.late(call, limit))??;
        if response.status() == StatusCode::OK {
            self.check_encoding(call, response.headers())?;
            return Ok(response);
        }
        let read = self.read(call, response, ERROR_LIMIT);
        let answer = timeout(limit, read).await.map_err(|_| self.late(call, limit))??;
        Err(failure::of_response(self.doing(call), &answer))
    }

    /// Sends a call and reads its answer whole, whatever the status.
    pub(crate) async fn fetch(&self, call: &Call, limit: usize) -> Result<FullResponse> {
        let time = self.limit(call);
        let until = self.until(call);
        let exchange = async {
            let response = self.head(call, false, until).await?;
            let limit = if response.status().is_success() { limit } else { limit.min(ERROR_LIMIT) };
            self.read(call, response, limit).await
        };
        timeout(time, exchange).await.map_err(|_| self.late(call, time))?
    }

    /// Sends a call and hands on the body of a good answer in pieces, as they come; other tasks run in between. The
    /// request timeout counts to the answer's head, and again from each piece to the next.
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
            let answer = timeout(limit, self.read(call, response, ERROR_LIMIT)).await.map_err(late)??;
            return Err(failure::of_response(self.doing(call), &answer));
        }
        let mut pieces = self.pieces(call, response.headers())?;
        let stopped = |stopped| match stopped {
            Stopped::Corrupt(error) => protocol(self.doing(call), &format!("the body is not gzip: {error}")),
            Stopped::Taker(error) => error,
        };
        let mut body = response.into_body();
        while let Some(frame) = timeout(limit, body.frame()).await.map_err(late)? {
            let frame = frame.map_err(|e| failure::of_transport(self.doing(call), &*e))?;
            if let Ok(data) = frame.into_data() {
                pieces.push(&data, &mut *take).map_err(stopped)?;
                // When the next pieces are there already, nothing else would let others run.
                tokio::task::yield_now().await;
            }
        }
        pieces.finish(&mut *take).map_err(stopped)
    }

    /// Sends a call and gives the body of a good answer.
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
        let too_large = || protocol(self.doing(call), &format!("the answer is larger than {limit} bytes"));
        let announced =
            parts.headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<usize>().ok());
        if announced.is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        // An answer of one piece, as most objects are, is not copied.
        let mut first = Bytes::new();
        let mut rest = Vec::new();
        loop {
            let Some(frame) = body.frame().await else { break };
            let frame = frame.map_err(|e| failure::of_transport(self.doing(call), &*e))?;
            let Ok(data) = frame.into_data() else { continue };
            if first.len().max(rest.len()) + data.len() > limit {
                return Err(too_large());
            }
            if first.is_empty() && rest.is_empty() {
                first = data;
                continue;
            }
            if rest.is_empty() {
                let more = usize::try_from(body.size_hint().lower()).unwrap_or(0).min(limit);
                rest.reserve(first.len() + data.len() + more);
                rest.extend_from_slice(&first);
            }
            rest.extend_from_slice(&data);
        }
        let body = if rest.is_empty() { first } else { rest.into() };
        Ok(FullResponse { status: parts.status, headers: parts.headers, body })
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
