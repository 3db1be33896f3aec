//! [`Authorizer`]: the `Authorization` header of a request.
//!
//! Tokens, token files and passwords are made into headers here, and exec plugins are asked. No header is ever printed: all
//! are marked sensitive.

use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::HeaderValue;
use parking_lot::Mutex;

use crate::credentials::exec::ExecPlugin;
use crate::credentials::file_reader::{FileReader, blocking};
use crate::error::{Error, Result};

/// Where the credentials of requests come from.
pub(crate) enum Authorizer {
    /// None, or a client certificate.
    None,
    /// The same header for each request.
    Fixed(HeaderValue),
    /// A token in a file that is read again as it ages.
    File(Box<TokenFile>),
    /// A program gives it.
    Plugin(Arc<ExecPlugin>),
}

/// The credential in a request.
pub(crate) struct Presented {
    pub(crate) header: Option<HeaderValue>,
    /// Which of several credentials it is, for [`Authorizer::rejected`].
    pub(crate) serial: u64,
}

pub(crate) struct TokenFile {
    path: PathBuf,
    current: Mutex<HeaderValue>,
    /// The warning that was logged last, until the file can be read again.
    warned: Mutex<Option<String>>,
    reading: FileReader<Result<HeaderValue>>,
}

impl Authorizer {
    /// A bearer token; `source` is where it was found, for messages.
    pub(crate) fn token(token: &str, source: &str) -> Result<Self> {
        bearer(token).map(Self::Fixed).ok_or_else(|| bad_token(source))
    }

    /// A user name and a password.
    pub(crate) fn basic(user: &str, password: &str) -> Self {
        let encoded = BASE64_STANDARD.encode(format!("{user}:{password}"));
        // Base64 is plain ASCII.
        HeaderValue::try_from(format!("Basic {encoded}")).map_or(Self::None, |mut header| {
            header.set_sensitive(true);
            Self::Fixed(header)
        })
    }

    /// A bearer token in a file; `source` says who names it. `instead` is used as long as the file cannot be read.
    pub(crate) async fn token_file(path: PathBuf, instead: Option<&str>, source: &str) -> Result<Self> {
        let file = path.clone();
        let header = match (blocking(move || read(&file)).await?, instead) {
            (Ok(header), _) => header,
            (Err(error), Some(token)) => {
                tracing::warn!(
                    event = "token_file_unusable",
                    "{source}: {error}; still using the token of the user"
                );
                bearer(token).ok_or_else(|| bad_token(&format!("{source}: token of the user")))?
            }
            (Err(error), None) => return Err(Error::Config(format!("{source}: {error}"))),
        };
        let reading = FileReader::new(format!("token file {} is", path.display()));
        Ok(Self::File(Box::new(TokenFile {
            path,
            current: Mutex::new(header),
            warned: Mutex::default(),
            reading,
        })))
    }

    /// The credential for a request now.
    pub(crate) async fn present(&self) -> Result<Presented> {
        let header = match self {
            Self::None => None,
            Self::Fixed(header) => Some(header.clone()),
            Self::File(file) => Some(file.header().await),
            Self::Plugin(plugin) => {
                let credential = plugin.credential().await?;
                return Ok(Presented { header: credential.header.clone(), serial: credential.serial });
            }
        };
        Ok(Presented { header, serial: 0 })
    }

    /// The server did not know the user by the credential of this number: a token file is read again for the next
    /// request, a plugin is run again.
    pub(crate) fn rejected(&self, serial: u64) {
        match self {
            Self::File(file) => file.reading.refused(),
            Self::Plugin(plugin) => plugin.rejected(serial),
            Self::None | Self::Fixed(_) => {}
        }
    }
}

impl TokenFile {
    /// The first after a minute, or after a refusal, waits for the file; the others meanwhile go on with the old token.
    async fn header(&self) -> HeaderValue {
        if self.reading.is_due() {
            let path = self.path.clone();
            match self.reading.try_latest(move || read(&path)).await {
                Some(Ok(header)) => {
                    *self.current.lock() = header;
                    *self.warned.lock() = None;
                }
                // The old token may still be good: some set-ups remove the file after start.
                Some(Err(error)) => {
                    let warning = error.to_string();
                    if self.warned.lock().replace(warning.clone()).is_none_or(|last| last != warning) {
                        tracing::warn!(event = "token_kept", "{warning}; still using the previous token");
                    }
                }
                None => {}
            }
        }
        self.current.lock().clone()
    }
}

fn read(path: &std::path::Path) -> Result<HeaderValue> {
    let token = std::fs::read_to_string(path).map_err(|e| {
        Error::Config(format!("token file {}: {e}; check tokenFile of the user", path.display()))
    })?;
    bearer(&token).ok_or_else(|| bad_token(&format!("token file {}", path.display())))
}

/// The header of a token; `None` when a header cannot carry it.
pub(crate) fn bearer(token: &str) -> Option<HeaderValue> {
    let token = token.trim();
    if token.is_empty() {
        return None;
    }
    let mut header = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    header.set_sensitive(true);
    Some(header)
}

fn bad_token(source: &str) -> Error {
    Error::Config(format!("{source}: empty, or not a token: one line of ASCII is expected"))
}
