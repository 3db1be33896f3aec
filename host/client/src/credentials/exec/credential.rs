//! [`Credential`]: what an exec plugin printed, checked, with the time until which it is used.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::header::HeaderValue;
use jiff::Timestamp;
use serde::Deserialize;
use tokio::time::Instant;

use super::run::Command;
use crate::credentials::authorizer::bearer;
use crate::credentials::certificate::Certificate;
use crate::error::Result;

/// A new one is got this long before the old one expires, so that none expires on its way.
const AHEAD: Duration = Duration::from_secs(10);

/// Numbers credentials, so that a late refusal of an old one is not taken for one of the new.
static SERIAL: AtomicU64 = AtomicU64::new(1);

/// A token, a certificate or both.
pub(crate) struct Credential {
    /// Differs from those of all others.
    pub(crate) serial: u64,
    pub(crate) header: Option<HeaderValue>,
    pub(crate) certificate: Option<Arc<Certificate>>,
    expires: Option<Expiry>,
}

/// A point in time by two clocks: that of the wall may be set, the other stands still while the machine sleeps.
struct Expiry {
    wall: Timestamp,
    monotonic: Instant,
    /// How long before it a new credential is got. None for a credential that was got with little time left: the program
    /// has a cache of its own, and would give it again.
    ahead: Duration,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential {
    kind: Option<String>,
    api_version: Option<String>,
    status: Option<ExecCredentialStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredentialStatus {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<String>,
}

impl Credential {
    /// From the output of `command`, which no message quotes.
    pub(super) fn parse(command: &Command, output: &[u8]) -> Result<Self> {
        let error = |why: &str| Err(command.error(&format!("{why}; run its command by hand, or update it")));
        let Some(ExecCredential { kind, api_version, status }) = decode(output) else {
            return error("printed something else than an ExecCredential");
        };
        if kind.as_deref() != Some("ExecCredential") {
            return error("printed something else than an ExecCredential: its kind is another, or missing");
        }
        if api_version.as_deref() != Some(&command.api_version) {
            let expected = &command.api_version;
            return error(&format!(
                "printed an ExecCredential of another apiVersion than exec.apiVersion, which is {expected}"
            ));
        }
        let Some(status) = status else {
            return error("printed an ExecCredential without a status");
        };
        let set = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (token, certificate, key) =
            (set(status.token), set(status.client_certificate_data), set(status.client_key_data));
        if token.is_none() && certificate.is_none() && key.is_none() {
            return error("printed an ExecCredential with neither a token nor a certificate");
        }
        let header = match token.map(|token| bearer(&token)) {
            None => None,
            Some(Some(header)) => Some(header),
            Some(None) => return error("printed a token that a header cannot carry"),
        };
        let certificate = match (certificate, key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => {
                let names = ("clientCertificateData", "clientKeyData");
                match Certificate::from_pem(names, certificate.as_bytes(), key.as_bytes()) {
                    Ok(certificate) => Some(Arc::new(certificate)),
                    Err(why) => return error(&format!("printed a certificate that cannot be used: {why}")),
                }
            }
            _ => return error("printed only one of clientCertificateData and clientKeyData"),
        };
        let expires = match set(status.expiration_timestamp).map(|text| text.parse::<Timestamp>()) {
            None => None,
            Some(Ok(wall)) => Some(Expiry::new(wall)),
            Some(Err(_)) => return error("printed an expirationTimestamp that is no time of RFC 3339"),
        };
        Ok(Self { serial: SERIAL.fetch_add(1, Ordering::Relaxed), header, certificate, expires })
    }

    /// Whether it may be used without asking for another.
    pub(super) fn is_fresh(&self) -> bool {
        self.expires.as_ref().is_none_or(|expires| !expires.is_within(expires.ahead))
    }

    /// Whether it has not expired.
    pub(super) fn is_valid(&self) -> bool {
        self.expires.as_ref().is_none_or(|expires| !expires.is_within(Duration::ZERO))
    }
}

impl Expiry {
    fn new(wall: Timestamp) -> Self {
        let left = Duration::try_from(wall.duration_since(Timestamp::now())).unwrap_or_default();
        let now = Instant::now();
        // Beyond what the clock can hold is as good as a century.
        let century = Duration::from_secs(100 * 365 * 24 * 3600);
        let ahead = if left > 3 * AHEAD { AHEAD } else { Duration::ZERO };
        Self { wall, monotonic: now + left.min(century), ahead }
    }

    fn is_within(&self, ahead: Duration) -> bool {
        let wall = Timestamp::now().checked_add(ahead).unwrap_or(Timestamp::MAX);
        wall >= self.wall || Instant::now() + ahead >= self.monotonic
    }
}

/// JSON, as nearly all programs print, or YAML, which kubectl takes too.
fn decode(output: &[u8]) -> Option<ExecCredential> {
    if let Ok(credential) = serde_json::from_slice(output) {
        return Some(credential);
    }
    serde_saphyr::from_str(std::str::from_utf8(output).ok()?).ok()
}
