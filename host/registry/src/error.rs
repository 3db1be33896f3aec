//! [`RegistryError`].

use http::StatusCode;

/// Why something could not be pulled or pushed. No text has a login or a token.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// A host that is not among the component hosts.
    #[error("{0} is not among the hosts that may be asked; the operator can add it to --component-hosts")]
    NotAllowed(String),
    /// A request got no response.
    #[error("{host}: {reason}")]
    Exchange {
        /// Host and port.
        host: String,
        /// Reason.
        reason: String,
    },
    /// The registry wants a login, and there is none.
    #[error("the registry asks for a login; name one in {0}")]
    NoLogin(&'static str),
    /// The login, or the lack of one, does not suffice.
    #[error("the registry refuses {what} ({status}); name a login that may have it in {login_from}")]
    Refused {
        /// What was asked for.
        what: String,
        /// 401 or 403.
        status: StatusCode,
        /// Where logins are named.
        login_from: &'static str,
    },
    /// A status other than success.
    #[error("the registry answered {status} for {what}")]
    Status {
        /// What was asked for.
        what: String,
        /// The status.
        status: StatusCode,
    },
    /// A body that could not be read to its end, or that exceeds a bound.
    #[error("{what}: {reason}")]
    Body {
        /// What was read.
        what: String,
        /// Reason.
        reason: String,
    },
    /// What the registry has, or what is pushed, cannot be used.
    #[error("{0}")]
    Content(String),
    /// A file or Secret with logins that cannot be used.
    #[error("{0}")]
    Login(String),
    /// The artifact has no signature of one of the keys.
    #[error("{0}")]
    Unsigned(String),
}
