//! [`Registry`]: requests to one repository of a registry, with a login where the registry asks for one.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, WWW_AUTHENTICATE};
use http::{Method, Request, StatusCode, Uri};
use pilothouse_engine::{HostClient, HostResponse};
use pilothouse_plugin::{ComponentHosts, ComponentUrl, OciRepository};
use tokio::runtime::Handle;

use crate::challenge::{Challenge, token};
use crate::reference::resolved;
use crate::{Login, RegistryError};

/// Maximum number of redirects of a request. A registry redirects to its storage, which may redirect again.
const MOST_REDIRECTS: usize = 3;
/// Maximum size in bytes of the answer with a token.
const MAX_TOKEN: usize = 64 << 10;

/// How a repository is reached.
#[derive(Debug)]
pub struct RegistryOptions {
    /// The repository.
    pub repository: OciRepository,
    /// The hosts that may be asked: the registry, its server of tokens, and those of its storage.
    pub hosts: ComponentHosts,
    /// A login, for a registry that asks for one.
    pub login: Option<Login>,
    /// What messages say about where a login is named.
    pub login_from: &'static str,
    /// The User-Agent of the requests.
    pub user_agent: String,
    /// The time of all requests together, from now on.
    pub time: Duration,
    /// The runtime of the connections.
    pub runtime: Handle,
}

/// One repository of a registry.
#[derive(Debug)]
pub struct Registry {
    client: HostClient,
    repository: OciRepository,
    /// Scheme, host and port of the registry.
    base: ComponentUrl,
    hosts: ComponentHosts,
    login: Option<Login>,
    login_from: &'static str,
    /// What the registry asked for last. It goes to no other host.
    authorization: Option<HeaderValue>,
}

/// One request.
#[derive(Debug)]
pub(crate) struct Call {
    method: Method,
    url: ComponentUrl,
    headers: HeaderMap,
    body: Bytes,
    /// Whether a redirect to another server is the answer.
    stays: bool,
}

impl Call {
    pub(crate) fn new(method: Method, url: ComponentUrl) -> Self {
        Self { method, url, headers: HeaderMap::new(), body: Bytes::new(), stays: false }
    }

    pub(crate) fn accept(mut self, types: &'static str) -> Self {
        self.headers.insert(ACCEPT, HeaderValue::from_static(types));
        self
    }

    pub(crate) fn body(mut self, content_type: &'static str, body: Bytes) -> Self {
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        self.body = body;
        self
    }

    /// Follows no redirect to another server than the registry: it is the answer.
    pub(crate) fn stays(mut self) -> Self {
        self.stays = true;
        self
    }
}

impl Registry {
    /// Where the registry of a repository is asked; nothing is sent. The scheme is HTTPS, or plain HTTP where the hosts allow
    /// that alone.
    ///
    /// # Errors
    /// When the hosts do not have the registry.
    pub fn base(repository: &OciRepository, hosts: &ComponentHosts) -> Result<ComponentUrl, RegistryError> {
        let registry = repository.registry();
        let bases = ["https", "http"].map(|scheme| parse(&format!("{scheme}://{registry}")));
        let base = bases.into_iter().flatten().find(|base| hosts.of(base).is_some());
        base.ok_or_else(|| RegistryError::NotAllowed(registry.to_owned()))
    }

    /// A repository; nothing is sent yet.
    ///
    /// # Errors
    /// When the hosts do not have the registry.
    pub fn new(options: RegistryOptions) -> Result<Self, RegistryError> {
        let RegistryOptions { repository, hosts, login, login_from, user_agent, time, runtime } = options;
        let base = Self::base(&repository, &hosts)?;
        let client = HostClient::new(user_agent, time, runtime);
        Ok(Self { client, repository, base, hosts, login, login_from, authorization: None })
    }

    /// The URL of something in the repository, as `manifests/v1`.
    pub(crate) fn url(&self, path: &str) -> Result<ComponentUrl, RegistryError> {
        parse(&format!("{}/v2/{}/{path}", self.base, self.repository.name()))
    }

    /// Whether a URL is one of the registry itself, which may have the login.
    pub(crate) fn is_own(&self, url: &ComponentUrl) -> bool {
        url.has_origin_of(&self.base)
    }

    /// Where a URL of a response of `from` leads, which may be relative to `from`.
    pub(crate) fn resolve(
        &self,
        from: &ComponentUrl,
        reference: &str,
    ) -> Result<ComponentUrl, RegistryError> {
        let url = parse(&resolved(from, reference))?;
        if self.base.is_https() && !url.is_https() {
            let host = url.authority();
            return Err(RegistryError::Content(format!(
                "the registry leads from HTTPS to plain HTTP on {host}"
            )));
        }
        Ok(url)
    }

    /// Sends a request, once more with a login if the registry asks for one. Redirects of a GET are followed, without the login.
    pub(crate) async fn send(&mut self, call: &Call) -> Result<HostResponse, RegistryError> {
        self.answer(call).await.map(|(_, response)| response)
    }

    /// Does as [`send`](Self::send); also the URL that answered.
    pub(crate) async fn answer(
        &mut self,
        call: &Call,
    ) -> Result<(ComponentUrl, HostResponse), RegistryError> {
        let (mut url, mut redirects, mut is_login_tried) = (call.url.clone(), 0, false);
        loop {
            let is_registry = self.is_own(&url);
            let authorization = self.authorization.as_ref().filter(|_| is_registry);
            let response = self.exchange(call, &url, authorization).await?;
            let status = response.status();
            if status == StatusCode::UNAUTHORIZED && is_registry && !is_login_tried {
                is_login_tried = true;
                let values = response.headers().get_all(WWW_AUTHENTICATE).iter();
                let values = values.filter_map(|value| value.to_str().ok());
                let challenge = Challenge::of(values, self.login.is_some());
                drop(response);
                self.authorization = Some(self.authorize(challenge).await?);
                continue;
            }
            let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            let location = location.filter(|_| status.is_redirection() && call.method == Method::GET);
            let Some(location) = location else { return Ok((url, response)) };
            let next = self.resolve(&url, location)?;
            if call.stays && !self.is_own(&next) {
                return Ok((url, response));
            }
            if redirects == MOST_REDIRECTS {
                let reason = format!("the registry redirects a request more than {MOST_REDIRECTS} times");
                return Err(RegistryError::Content(reason));
            }
            (url, redirects) = (next, redirects + 1);
        }
    }

    /// Sends a request to one host, which has to be one of the list. No redirect is followed.
    async fn exchange(
        &self,
        call: &Call,
        url: &ComponentUrl,
        authorization: Option<&HeaderValue>,
    ) -> Result<HostResponse, RegistryError> {
        let host = url.authority().to_owned();
        let Some(hosts) = self.hosts.of(url) else { return Err(RegistryError::NotAllowed(host)) };
        let mut request = Request::new(call.body.clone());
        *request.method_mut() = call.method.clone();
        request.headers_mut().clone_from(&call.headers);
        if let Some(authorization) = authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        match url.to_string().parse::<Uri>() {
            Ok(uri) => *request.uri_mut() = uri,
            // The text of the URL is not part of the reason.
            Err(error) => {
                return Err(RegistryError::Exchange { host, reason: format!("it is no URL: {error}") });
            }
        }
        let sent = self.client.send(request, hosts.clone()).await;
        sent.map_err(|reason| RegistryError::Exchange { host, reason })
    }

    /// The header that the registry asks for.
    async fn authorize(&self, challenge: Option<Challenge>) -> Result<HeaderValue, RegistryError> {
        let login = self.login.as_ref().map(Login::basic);
        match challenge {
            Some(Challenge::Basic) => credential(&login.ok_or(RegistryError::NoLogin(self.login_from))?),
            Some(Challenge::Bearer { realm, parameters }) => {
                let url = self.resolve(&self.base, &Challenge::token_url(&realm, &parameters))?;
                let login = login.as_deref().map(credential).transpose()?;
                let call = Call::new(Method::GET, url.clone());
                let response = self.exchange(&call, &url, login.as_ref()).await?;
                let answer = whole(self.succeeded(response, "a token")?, MAX_TOKEN, "a token").await?;
                credential(&format!("Bearer {}", token(&answer)?))
            }
            None => {
                let reason = "the registry asks for a login of a kind other than Basic and Bearer";
                Err(RegistryError::Content(reason.to_owned()))
            }
        }
    }

    /// A response with success; else an error that says what was asked for.
    pub(crate) fn succeeded(
        &self,
        response: HostResponse,
        what: &str,
    ) -> Result<HostResponse, RegistryError> {
        let (what, login_from) = (what.to_owned(), self.login_from);
        match response.status() {
            status if status.is_success() => Ok(response),
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                Err(RegistryError::Refused { what, status, login_from })
            }
            status => Err(RegistryError::Status { what, status }),
        }
    }
}

/// A URL that a registry has named. Its text is not part of the error, since it may be a permission.
fn parse(text: &str) -> Result<ComponentUrl, RegistryError> {
    let refused =
        |reason| RegistryError::Content(format!("the registry named a URL that cannot be used: {reason}"));
    ComponentUrl::parse_location(text).map_err(refused)
}

/// A header with a credential, which logs do not show.
fn credential(value: &str) -> Result<HeaderValue, RegistryError> {
    let value = HeaderValue::from_str(value);
    let mut value =
        value.map_err(|_| RegistryError::Content("the token has control characters".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// A whole body of this size at most.
pub(crate) async fn whole(response: HostResponse, most: usize, what: &str) -> Result<Vec<u8>, RegistryError> {
    let mut content = Vec::new();
    let take = |bytes: &[u8]| {
        if content.len() + bytes.len() > most {
            return Err(format!("it has more than {most} bytes"));
        }
        content.extend_from_slice(bytes);
        Ok(())
    };
    let read = response.read(take).await;
    read.map_err(|reason| RegistryError::Body { what: what.to_owned(), reason })?;
    Ok(content)
}

/// What a text of a registry says. A long one is read in milliseconds, on a thread for blocking work.
pub(crate) async fn parsed<T: Send + 'static>(
    text: Vec<u8>,
    parse: fn(&[u8]) -> Result<T, RegistryError>,
) -> Result<T, RegistryError> {
    let parsed = tokio::task::spawn_blocking(move || parse(&text)).await;
    parsed.map_err(|error| {
        RegistryError::Content(format!("an answer of the registry could not be read: {error}; try again"))
    })?
}
