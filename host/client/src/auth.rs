//! [`Authorizer`]: the `Authorization` header of a request.
//!
//! Tokens and token files are ours, since files often end in a line break and must be read again as they rotate;
//! passwords, exec plugins and auth providers are kube-client's auth layer. No header is ever printed: all are marked
//! sensitive, and messages of plugins are cleaned of what they print on their output.

use std::future::poll_fn;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderValue};
use http::{Request, Response};
use http_body_util::Empty;
use kube_client::client::AuthError;
use kube_client::client::middleware::AuthLayer;
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Layer, Service, service_fn};

use crate::answer::short;
use crate::error::{Error, Result};

/// How long a token file's content is used; kubelets rotate tokens well before they expire.
const TOKEN_FILE_LIFE: Duration = Duration::from_secs(60);

/// A request that only carries headers past the layer.
type Blank = Request<Empty<Bytes>>;

/// Where the credentials of requests come from.
pub(crate) enum Authorizer {
    /// None, or a client certificate.
    None,
    /// The same header for each request.
    Fixed(HeaderValue),
    /// A token in a file that is read again as it ages.
    File(TokenFile),
    /// kube-client knows when to refresh it.
    Layer(BoxCloneSyncService<Blank, Response<()>, BoxError>),
}

pub(crate) struct TokenFile {
    path: PathBuf,
    current: Mutex<(HeaderValue, Option<Instant>)>,
}

impl Authorizer {
    /// A bearer token; `source` says where it stands.
    pub(crate) fn token(token: &str, source: &str) -> Result<Self> {
        bearer(token).map(Self::Fixed).ok_or_else(|| bad_token(source))
    }

    /// A bearer token in a file; `source` says who names it.
    pub(crate) fn token_file(path: PathBuf, source: &str) -> Result<Self> {
        let header = read(&path).map_err(|e| Error::Config(format!("{source}: {e}")))?;
        Ok(Self::File(TokenFile { path, current: Mutex::new((header, Some(Instant::now()))) }))
    }

    /// What kube-client makes of the configuration.
    pub(crate) fn layer(layer: &AuthLayer) -> Self {
        // The layer puts its header into a request on the way to a service; this service gives the headers back.
        let mirror = service_fn(|request: Blank| async move {
            let mut response = Response::new(());
            *response.headers_mut() = request.into_parts().0.headers;
            Ok::<_, BoxError>(response)
        });
        Self::Layer(BoxCloneSyncService::new(layer.layer(mirror)))
    }

    /// The header for a request now.
    pub(crate) async fn header(&self) -> Result<Option<HeaderValue>> {
        match self {
            Self::None => Ok(None),
            Self::Fixed(header) => Ok(Some(header.clone())),
            Self::File(file) => Ok(Some(file.header())),
            Self::Layer(service) => {
                let mut service = service.clone();
                let failed = |error: BoxError| Error::Config(explain(error.as_ref()));
                poll_fn(|cx| service.poll_ready(cx)).await.map_err(failed)?;
                let response = service.call(Request::new(Empty::new())).await.map_err(failed)?;
                Ok(response.headers().get(AUTHORIZATION).cloned())
            }
        }
    }

    /// The server did not know the user: a token file is read again for the next request.
    pub(crate) fn rejected(&self) {
        if let Self::File(file) = self {
            file.current.lock().1 = None;
        }
    }
}

impl TokenFile {
    fn header(&self) -> HeaderValue {
        let mut current = self.current.lock();
        if current.1.is_none_or(|read| read.elapsed() >= TOKEN_FILE_LIFE) {
            match read(&self.path) {
                Ok(header) => current.0 = header,
                // The old token may still be good: some set-ups remove the file after start.
                Err(error) => tracing::warn!("{error}; going on with the token read before"),
            }
            current.1 = Some(Instant::now());
        }
        current.0.clone()
    }
}

fn read(path: &std::path::Path) -> Result<HeaderValue> {
    let token = std::fs::read_to_string(path).map_err(|e| {
        Error::Config(format!("token file {}: {e}; check tokenFile of the user", path.display()))
    })?;
    bearer(&token).ok_or_else(|| bad_token(&format!("token file {}", path.display())))
}

fn bearer(token: &str) -> Option<HeaderValue> {
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

/// What went wrong with credentials, without their content: outputs and environments of plugins are left out.
pub(crate) fn explain(error: &(dyn std::error::Error + 'static)) -> String {
    let Some(error) = error.downcast_ref::<AuthError>() else {
        return format!("credentials: {error}");
    };
    match error {
        AuthError::AuthExecStart(e) => {
            format!(
                "exec plugin for credentials cannot be started: {e}; is its command installed and on PATH?"
            )
        }
        AuthError::AuthExecRun { out, .. } => {
            let said = short(&out.stderr);
            let said = if said.is_empty() { String::new() } else { format!(": {said}") };
            format!("exec plugin for credentials failed, {}{said}; run its command by hand", out.status)
        }
        AuthError::AuthExecParse(e) => {
            let place = e.location().map(|l| format!(" at line {}", l.line())).unwrap_or_default();
            format!("exec plugin for credentials printed something else than an ExecCredential{place}")
        }
        AuthError::ExecPluginFailed => {
            "exec plugin for credentials printed an ExecCredential without a status".to_owned()
        }
        AuthError::MissingCommand => {
            "exec plugin for credentials has no command; set exec.command".to_owned()
        }
        AuthError::InvalidBasicAuth(_) => {
            "user name or password holds characters that a header cannot carry".to_owned()
        }
        AuthError::InvalidBearerToken(_) => {
            "the token for credentials holds characters that a header cannot carry".to_owned()
        }
        AuthError::ReadTokenFile(e, path) => format!("token file {}: {e}", path.display()),
        other => format!("credentials: {}", short(other.to_string().as_bytes())),
    }
}
