//! [`HttpFailure`]: why a request failed, as text and back.

use wasmtime_wasi_http::Error;

/// Why a request failed: a name of `wasi:http/types.error-code` and what it says beyond that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpFailure {
    /// The name of the error, as `connection-refused`.
    pub code: String,
    /// A number or a text that belongs to it.
    pub detail: Option<String>,
}

macro_rules! plain {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        /// The name of an error without a detail.
        fn plain_name(error: &Error) -> Option<&'static str> {
            match error {
                $(Error::$variant => Some($name),)+
                _ => None,
            }
        }

        /// The error without a detail of this name.
        fn plain_error(name: &str) -> Option<Error> {
            match name {
                $($name => Some(Error::$variant),)+
                _ => None,
            }
        }

        #[cfg(test)]
        const PLAIN: &[&str] = &[$($name),+];
    };
}

plain! {
    DnsTimeout = "dns-timeout",
    DestinationNotFound = "destination-not-found",
    DestinationUnavailable = "destination-unavailable",
    DestinationIpProhibited = "destination-ip-prohibited",
    DestinationIpUnroutable = "destination-ip-unroutable",
    ConnectionRefused = "connection-refused",
    ConnectionTerminated = "connection-terminated",
    ConnectionTimeout = "connection-timeout",
    ConnectionReadTimeout = "connection-read-timeout",
    ConnectionWriteTimeout = "connection-write-timeout",
    ConnectionLimitReached = "connection-limit-reached",
    TlsProtocolError = "tls-protocol-error",
    TlsCertificateError = "tls-certificate-error",
    HttpRequestDenied = "http-request-denied",
    HttpRequestLengthRequired = "http-request-length-required",
    HttpRequestMethodInvalid = "http-request-method-invalid",
    HttpRequestUriInvalid = "http-request-uri-invalid",
    HttpRequestUriTooLong = "http-request-uri-too-long",
    HttpResponseIncomplete = "http-response-incomplete",
    HttpResponseTimeout = "http-response-timeout",
    HttpUpgradeFailed = "http-upgrade-failed",
    HttpProtocolError = "http-protocol-error",
}

impl HttpFailure {
    pub(crate) fn of(error: &Error) -> Self {
        let sized = |code: &str, size: &Option<u64>| (code.to_owned(), size.map(|size| size.to_string()));
        let (code, detail) = match error {
            Error::HttpRequestBodySize(size) => sized("http-request-body-size", size),
            Error::HttpResponseBodySize(size) => sized("http-response-body-size", size),
            Error::DnsError { rcode, .. } => ("dns-error".to_owned(), rcode.clone()),
            Error::InternalError(text) => ("internal-error".to_owned(), text.clone()),
            other => match plain_name(other) {
                Some(name) => (name.to_owned(), None),
                None => ("internal-error".to_owned(), Some(other.to_string())),
            },
        };
        Self { code, detail }
    }

    pub(crate) fn error(self) -> Error {
        let size = || self.detail.as_ref().and_then(|size| size.parse().ok());
        match &*self.code {
            "http-request-body-size" => Error::HttpRequestBodySize(size()),
            "http-response-body-size" => Error::HttpResponseBodySize(size()),
            "dns-error" => Error::DnsError { rcode: self.detail, info_code: None },
            code => plain_error(code).unwrap_or(Error::InternalError(self.detail)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_becomes_the_error_that_it_was() {
        let same = |error: Error| {
            let failure = HttpFailure::of(&error);
            assert_eq!(format!("{:?}", failure.clone().error()), format!("{error:?}"));
            failure
        };
        for name in PLAIN {
            assert_eq!(same(plain_error(name).unwrap()).code, *name);
        }
        same(Error::HttpRequestBodySize(Some(7)));
        same(Error::HttpResponseBodySize(None));
        same(Error::DnsError { rcode: Some("NXDOMAIN".to_owned()), info_code: None });
        same(Error::InternalError(Some("no".to_owned())));
    }
}
