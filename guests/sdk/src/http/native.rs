//! One exchange in native builds: the host of the context answers.

use super::url::Url;
use super::{Error, ErrorKind, Request, Response};
use crate::Context;
use crate::testing::HttpRequest;

pub(super) fn run(ctx: &Context, request: &Request) -> Result<Response, Error> {
    Url::parse(&request.url).map_err(|reason| Error::new(ErrorKind::Invalid, reason))?;
    ctx.host().send_http(request)
}

impl Request {
    /// Host and port, as manifests name them.
    pub(crate) fn authority(&self) -> String {
        let Ok(Url { https, authority, .. }) = Url::parse(&self.url) else { return String::new() };
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let port = if https { 443 } else { 80 };
        if has_port { authority.to_owned() } else { format!("{authority}:{port}") }
    }

    /// The request as tests see it.
    pub(crate) fn parts(&self) -> HttpRequest {
        let Self { method, url, headers, body, .. } = self.clone();
        HttpRequest { method, url, headers, body }
    }
}

impl Error {
    /// The error of a test that has no server.
    pub(crate) fn unanswered(authority: &str) -> Self {
        let message = format!("nothing answers at {authority}: the test has no `World::on_http`");
        Self::new(ErrorKind::ConnectionRefused, message)
    }
}
