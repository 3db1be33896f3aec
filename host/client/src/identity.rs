//! [`RequestIdentity`]: the headers by which the server knows who is asking, made once per identity.

use std::sync::Arc;

use http::header::{HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use tokio::runtime::Handle;

use crate::error::{Error, Result};
use crate::options::{Identity, Impersonation};
use crate::rate_limiter::RateLimiter;

/// An [`Identity`] ready to be sent.
pub(crate) struct RequestIdentity {
    /// `User-Agent` and `Impersonate-*`.
    pub(crate) headers: HeaderMap,
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
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, value("user agent", &user_agent)?);
        if let Some(who) = &impersonate {
            impersonation(&mut headers, who)?;
        }
        let acting_as = impersonate.as_ref().map_or("", |who| &who.user);
        let flow = format!("{user_agent}\n{acting_as}").into();
        let rate_limiter = rate_limit.map(|limit| RateLimiter::new(limit, runtime.clone())).transpose()?;
        Ok(Self { headers, user_agent, field_manager, impersonate, flow, rate_limiter })
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
}

fn impersonation(headers: &mut HeaderMap, who: &Impersonation) -> Result<()> {
    if who.user.is_empty() {
        // The server would ignore the groups and let the request through as the host itself.
        return Err(Error::Config("impersonation without a user name: set the user to act as".to_owned()));
    }
    headers.insert(HeaderName::from_static("impersonate-user"), value("impersonated user", &who.user)?);
    for group in &who.groups {
        headers.append(HeaderName::from_static("impersonate-group"), value("impersonated group", group)?);
    }
    if let Some(uid) = &who.uid {
        headers.insert(HeaderName::from_static("impersonate-uid"), value("impersonated UID", uid)?);
    }
    for (key, values) in &who.extra {
        let name = extra_header(key)?;
        for extra in values {
            headers.append(name.clone(), value("impersonated extra", extra)?);
        }
    }
    Ok(())
}

fn value(what: &str, text: &str) -> Result<HeaderValue> {
    HeaderValue::from_str(text).map_err(|_| {
        Error::Config(format!("{what} {text:?} holds characters that an HTTP header cannot carry"))
    })
}

/// `Impersonate-Extra-KEY`; bytes that cannot stand in a header name, and `%`, are percent-encoded as the server
/// expects.
fn extra_header(key: &str) -> Result<HeaderName> {
    let mut name = String::from("impersonate-extra-");
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) {
            name.push(byte.to_ascii_lowercase().into());
        } else {
            name.push_str(&format!("%{byte:02x}"));
        }
    }
    HeaderName::try_from(name).map_err(|e| Error::Config(format!("impersonated extra {key:?}: {e}")))
}
