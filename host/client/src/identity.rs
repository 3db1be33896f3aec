//! [`Identity`]: as whom a client speaks; [`RequestIdentity`]: the headers that tell it to the server, made once.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::header::{HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::runtime::Handle;

use crate::error::{Error, Result};
use crate::rate_limiter::{RateLimit, RateLimiter};

/// As whom a client speaks. Empty texts leave the client's own values.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Identity {
    /// `User-Agent` of requests.
    pub user_agent: String,
    /// Field manager of writes that name none.
    pub field_manager: String,
    /// User to act as; `None` keeps what the kubeconfig says.
    pub impersonate: Option<Impersonation>,
    /// Limit for the requests of this identity, beside that of [`ClientOptions`](crate::ClientOptions). Watches are not counted.
    pub rate_limit: Option<RateLimit>,
}

/// A user to act as; the server checks that the client's own user may.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Impersonation {
    /// User name, as `system:serviceaccount:NAMESPACE:NAME`.
    pub user: String,
    /// Groups.
    pub groups: Vec<String>,
    /// UID.
    pub uid: Option<String>,
    /// Extra attributes.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// An [`Identity`] ready to be sent.
pub(crate) struct RequestIdentity {
    /// `User-Agent` and `Impersonate-*`. A map of headers has room for six at least, and a host has thousands of identities.
    headers: Box<[(HeaderName, HeaderValue)]>,
    pub(crate) user_agent: String,
    pub(crate) field_manager: String,
    impersonate: Option<Impersonation>,
    /// Who shares turns of the client's rate limit with whom: the user agent and the user acted as.
    pub(crate) flow: Arc<str>,
    /// The identity's own limit.
    pub(crate) rate_limiter: Option<RateLimiter>,
}

impl RequestIdentity {
    /// The identity that the configuration gives.
    pub(crate) fn own(identity: Identity, runtime: &Handle) -> Result<Self> {
        let Identity { user_agent, field_manager, impersonate, rate_limit } = identity;
        let mut headers = vec![(USER_AGENT, value("user agent", &user_agent)?)];
        if let Some(who) = &impersonate {
            impersonation(&mut headers, who)?;
        }
        let acting_as = impersonate.as_ref().map_or("", |who| &who.user);
        let flow = format!("{user_agent}\n{acting_as}").into();
        let rate_limiter = rate_limit.map(|limit| RateLimiter::new(limit, runtime.clone())).transpose()?;
        Ok(Self { headers: headers.into(), user_agent, field_manager, impersonate, flow, rate_limiter })
    }

    /// `identity`, with what it leaves open taken from `own`.
    pub(crate) fn new(own: &Self, identity: &Identity, runtime: &Handle) -> Result<Self> {
        let or = |text: &str, own: &str| if text.is_empty() { own.to_owned() } else { text.to_owned() };
        let identity = Identity {
            user_agent: or(&identity.user_agent, &own.user_agent),
            field_manager: or(&identity.field_manager, &own.field_manager),
            impersonate: identity.impersonate.clone().or_else(|| own.impersonate.clone()),
            rate_limit: identity.rate_limit,
        };
        Self::own(identity, runtime)
    }

    /// Adds the headers that tell the identity.
    pub(crate) fn add_to(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.headers {
            headers.append(name.clone(), value.clone());
        }
    }
}

fn impersonation(headers: &mut Vec<(HeaderName, HeaderValue)>, who: &Impersonation) -> Result<()> {
    if who.user.is_empty() {
        // The server would ignore the groups and let the request through as the host itself.
        return Err(Error::Config("impersonation without a user name: set the user to act as".to_owned()));
    }
    headers.push((HeaderName::from_static("impersonate-user"), value("impersonated user", &who.user)?));
    for group in &who.groups {
        headers.push((HeaderName::from_static("impersonate-group"), value("impersonated group", group)?));
    }
    if let Some(uid) = &who.uid {
        headers.push((HeaderName::from_static("impersonate-uid"), value("impersonated UID", uid)?));
    }
    for (key, values) in &who.extra {
        let name = extra_header(key)?;
        for extra in values {
            headers.push((name.clone(), value("impersonated extra", extra)?));
        }
    }
    Ok(())
}

fn value(what: &str, text: &str) -> Result<HeaderValue> {
    HeaderValue::from_str(text).map_err(|_| {
        Error::Config(format!("{what} {text:?} holds characters that an HTTP header cannot carry"))
    })
}

/// What cannot stand in a header name, and `%`.
const NO_TOKEN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// `Impersonate-Extra-KEY`, percent-encoded as the server expects. The name of a header is in small letters.
fn extra_header(key: &str) -> Result<HeaderName> {
    HeaderName::try_from(format!("impersonate-extra-{}", utf8_percent_encode(key, NO_TOKEN)))
        .map_err(|e| Error::Config(format!("impersonated extra {key:?}: {e}")))
}
