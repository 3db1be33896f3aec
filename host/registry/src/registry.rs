//! [`Registry`]: requests to one repository of a registry, with a login where the registry asks for one.

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, HeaderValue, LOCATION, WWW_AUTHENTICATE};
use http::{Request, StatusCode, Uri};
use pilothouse_engine::{HostClient, HostResponse};
use pilothouse_plugin::{ComponentHosts, ComponentUrl, OciRepository};
use url::Url;

use crate::challenge::{Challenge, token};
use crate::{Login, RegistryError};

/// What the registry may send for a manifest; storage and servers of tokens do not look at it.
const TYPES: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json, \
                     application/vnd.oci.image.index.v1+json, */*";
/// Maximum number of redirects of a request. A registry redirects to its storage, which may redirect again.
const MOST_REDIRECTS: usize = 3;
/// Maximum size in bytes of the answer with a token.
const MAX_TOKEN: usize = 64 << 10;

/// One repository of a registry.
#[derive(Debug)]
pub struct Registry {
    client: HostClient,
    repository: OciRepository,
    /// Scheme, host and port of the registry.
    base: ComponentUrl,
    /// The hosts that may be asked: the registry, its server of tokens, and those of its storage.
    hosts: ComponentHosts,
    login: Option<Login>,
    login_from: &'static str,
    /// What the registry asked for last. It goes to no other host.
    authorization: Option<HeaderValue>,
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
        base.ok_or_else(|| not_allowed(registry))
    }

    /// A repository, of which these hosts are asked by this client; nothing is sent yet. Messages say where a login is named.
    ///
    /// # Errors
    /// When the hosts do not have the registry.
    pub fn new(
        client: HostClient,
        repository: OciRepository,
        hosts: ComponentHosts,
        login: Option<Login>,
        login_from: &'static str,
    ) -> Result<Self, RegistryError> {
        let base = Self::base(&repository, &hosts)?;
        Ok(Self { client, repository, base, hosts, login, login_from, authorization: None })
    }

    /// The URL of something in the repository, as `manifests/v1`.
    pub(crate) fn url(&self, path: &str) -> Result<ComponentUrl, RegistryError> {
        parse(&format!("{}/v2/{}/{path}", self.base, self.repository.name()))
    }

    /// Where a URL of a response of `from` leads, which may be relative to `from`.
    pub(crate) fn resolve(
        &self,
        from: &ComponentUrl,
        reference: &str,
    ) -> Result<ComponentUrl, RegistryError> {
        let url = Url::parse(&from.to_string()).and_then(|from| from.join(reference));
        let url = parse(url.map_err(|error| unusable(&error.to_string()))?.as_str())?;
        if self.base.is_https() && !url.is_https() {
            let host = url.authority();
            return Err(RegistryError::Content(format!(
                "the registry leads from HTTPS to plain HTTP on {host}"
            )));
        }
        Ok(url)
    }

    /// The response for something in the repository. Redirects are followed, without the login.
    pub(crate) async fn get(&mut self, path: &str) -> Result<HostResponse, RegistryError> {
        let mut url = self.url(path)?;
        for _ in 0..=MOST_REDIRECTS {
            let response = self.ask(&url).await?;
            let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            let Some(location) = location.filter(|_| response.status().is_redirection()) else {
                return Ok(response);
            };
            url = self.resolve(&url, location)?;
        }
        let reason = format!("the registry redirects a request more than {MOST_REDIRECTS} times");
        Err(RegistryError::Content(reason))
    }

    /// The response of a URL. The registry itself is asked once more, with a login, if it asks for one. A redirect is the response.
    pub(crate) async fn ask(&mut self, url: &ComponentUrl) -> Result<HostResponse, RegistryError> {
        if !url.has_origin_of(&self.base) {
            return self.exchange(url, None).await;
        }
        let response = self.exchange(url, self.authorization.as_ref()).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        let values = response.headers().get_all(WWW_AUTHENTICATE).iter();
        let challenge = Challenge::of(values.filter_map(|value| value.to_str().ok()), self.login.is_some());
        drop(response);
        self.authorization = Some(self.authorize(challenge).await?);
        self.exchange(url, self.authorization.as_ref()).await
    }

    /// Sends a request to one host, which has to be one of the list.
    async fn exchange(
        &self,
        url: &ComponentUrl,
        authorization: Option<&HeaderValue>,
    ) -> Result<HostResponse, RegistryError> {
        let host = url.authority();
        let hosts = self.hosts.of(url).ok_or_else(|| not_allowed(host))?;
        let failed = |reason: String| RegistryError::Request(format!("{host}: {reason}"));
        let mut request = Request::new(Bytes::new());
        // The text of the URL is not part of the reason.
        *request.uri_mut() =
            url.to_string().parse::<Uri>().map_err(|error| failed(format!("it is no URL: {error}")))?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(TYPES));
        if let Some(authorization) = authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        self.client.send(request, hosts.clone()).await.map_err(failed)
    }

    /// The header that the registry asks for.
    async fn authorize(&self, challenge: Option<Challenge>) -> Result<HeaderValue, RegistryError> {
        let login = self.login.as_ref().map(Login::basic);
        match challenge {
            Some(Challenge::Basic) => credential(&login.ok_or_else(|| {
                let from = self.login_from;
                RegistryError::Request(format!("the registry asks for a login; name one in {from}"))
            })?),
            Some(Challenge::Bearer { url }) => {
                let url = self.resolve(&self.base, &url)?;
                let login = login.as_deref().map(credential).transpose()?;
                let response = self.exchange(&url, login.as_ref()).await?;
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
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        Err(RegistryError::Request(match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => format!(
                "the registry refuses {what} ({status}); name a login that may have it in {}",
                self.login_from
            ),
            _ => format!("the registry answered {status} for {what}"),
        }))
    }
}

fn not_allowed(host: &str) -> RegistryError {
    RegistryError::Request(format!(
        "{host} is not among the hosts that may be asked; the operator can add it to --component-hosts"
    ))
}

/// The error of a URL that a registry has named. Its text is not part of it, since it may be a permission.
fn unusable(reason: &str) -> RegistryError {
    RegistryError::Content(format!("the registry named a URL that cannot be used: {reason}"))
}

fn parse(text: &str) -> Result<ComponentUrl, RegistryError> {
    ComponentUrl::parse_location(text).map_err(unusable)
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
    read.map_err(|reason| RegistryError::Request(format!("{what}: {reason}")))?;
    Ok(content)
}
