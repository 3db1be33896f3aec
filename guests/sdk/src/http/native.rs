//! One exchange in native builds: the host of the context answers.

use super::url::Url;
use super::{Error, ErrorKind, Request, Response};
use crate::Context;

pub(super) fn run(ctx: &Context, request: &Request) -> Result<Response, Error> {
    Url::parse(&request.url).map_err(|reason| Error::new(ErrorKind::Invalid, reason))?;
    ctx.host().send_http(request)
}
