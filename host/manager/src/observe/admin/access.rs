//! [`AdminAccess`]: who may read the data of the host, and who may command it.
//!
//! | address | reads | commands |
//! |---|---|---|
//! | loopback, asked for by an IP address or as `localhost` | everybody on the machine | a token |
//! | loopback, by another name | a token | a token |
//! | any other | a token | a token |
//!
//! A web site that makes its own name lead to 127.0.0.1 (DNS rebinding) gets nothing: a browser sends that name, and no token.
//!
//! Anyone may read the health endpoints. Their reasons need the permission to `get` `/plugins`.
//!
//! A token is that of a file, or one that the API server knows: a TokenReview says whose it is, and a SubjectAccessReview
//! whether that user may `get` or `post` the path, as in secured metrics of controller-runtime. Allowed answers are
//! remembered for a short time; a bounded number is asked at a time. Trouble of the API server allows nothing.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::uri::Authority;
use http::{HeaderMap, StatusCode, header};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::access::{AskServer, Identified};
use crate::imports::token_bucket::TokenBucket;

/// How long an allowed answer is remembered: longer than between two scrapes, and not long after a revocation.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Answers that are remembered, with those whose time is over while there is room.
const MOST_REMEMBERED: usize = 256;
/// Tokens that are reviewed at a time.
const AT_ONCE: usize = 4;
/// Reviews of unknown tokens a second, and at once: whoever reaches the address does not choose what the API server has to
/// do.
const REVIEWS: (f64, f64) = (10.0, 20.0);
/// How long an answer about health waits for a review: a kubelet's probe has a second by default.
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// Most bytes of a token; that of a ServiceAccount has about 1,000.
const LONGEST_TOKEN: usize = 16 << 10;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Wish {
    Read,
    Command,
}

impl Wish {
    /// The verb of the SubjectAccessReview.
    fn verb(self) -> &'static str {
        match self {
            Self::Read => "get",
            Self::Command => "post",
        }
    }
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

/// Decides who may ask what.
pub(super) struct AdminAccess {
    is_loopback: bool,
    token_file: Option<PathBuf>,
    server: AskServer,
    allowed: Mutex<HashMap<(String, String, Wish), Allowed>>,
    at_once: Semaphore,
    reviews: Mutex<TokenBucket>,
}

/// An answer that is remembered. Once its time is over it lets its token be reviewed, and nothing else.
struct Allowed {
    user: String,
    until: Instant,
}

impl AdminAccess {
    pub(super) fn new(is_loopback: bool, token_file: Option<PathBuf>, server: AskServer) -> Self {
        Self {
            is_loopback,
            token_file,
            server,
            allowed: Mutex::default(),
            at_once: Semaphore::new(AT_ONCE),
            reviews: Mutex::new(TokenBucket::new(REVIEWS.0, REVIEWS.1)),
        }
    }

    /// Whether the caller may see the reasons of health, which name plugins. One without a token is not asked about, and asks
    /// for nothing. The path of health itself says nothing: clusters let everybody `get` it. An API server that does not
    /// answer delays the answer for a short time only.
    pub(super) async fn may_see_reasons(&self, headers: &HeaderMap) -> bool {
        let admitted = self.admit(headers, "/plugins", Wish::Read);
        tokio::time::timeout(LONGEST_WAIT, admitted).await.is_ok_and(|admitted| admitted.is_ok())
    }

    /// Who asks, if it is allowed.
    pub(super) async fn admit(&self, headers: &HeaderMap, path: &str, wish: Wish) -> Result<String, Refused> {
        let is_open = self.is_loopback && wish == Wish::Read;
        if is_open && !has_foreign_name(headers) {
            return Ok("this machine".to_owned());
        }
        let needed = match is_open {
            true => {
                "without a token the host is asked for as 127.0.0.1 or localhost, and not by another name"
            }
            false => "a token is needed",
        };
        let token = bearer(headers).ok_or_else(|| self.unauthorized(needed))?;
        match &self.token_file {
            Some(file) => self.check_file(file.clone(), token).await,
            None => self.review(token, path, wish).await,
        }
    }

    fn unauthorized(&self, why: &str) -> Refused {
        let remedy = match self.token_file {
            Some(_) => "send that of --admin-token-file",
            None => "send one of a user or ServiceAccount of the cluster",
        };
        let message = format!("{why}: {remedy}, as `Authorization: Bearer TOKEN`");
        Refused { status: StatusCode::UNAUTHORIZED, message }
    }

    async fn check_file(&self, file: PathBuf, token: &str) -> Result<String, Refused> {
        // Read each time: it may be a mounted Secret.
        let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(file)).await;
        let wanted = read.map_err(std::io::Error::from).and_then(|read| read).map_err(|error| {
            unavailable(format!("the file of --admin-token-file cannot be read: {error}"))
        })?;
        let wanted = wanted.trim();
        if wanted.is_empty() || !is_equal(wanted.as_bytes(), token.as_bytes()) {
            return Err(self.unauthorized("the token is not that of the host"));
        }
        Ok("the holder of the token file".to_owned())
    }

    async fn review(&self, token: &str, path: &str, wish: Wish) -> Result<String, Refused> {
        let key = (token.to_owned(), path.to_owned(), wish);
        if let Some(user) = self.remembered(&key) {
            return Ok(user);
        }
        // A client with made-up tokens cannot lock out tokens that were allowed before.
        let was_allowed = self.allowed.lock().contains_key(&key);
        if !was_allowed && !self.reviews.lock().take(std::time::Instant::now()) {
            let message = "too many tokens are sent; try again in a second".to_owned();
            return Err(Refused { status: StatusCode::TOO_MANY_REQUESTS, message });
        }
        // The semaphore is never closed.
        let _turn = self.at_once.acquire().await;
        if let Some(user) = self.remembered(&key) {
            return Ok(user);
        }
        let trouble = |error| unavailable(format!("the API server cannot be asked about the token: {error}"));
        let Some(identified) = self.server.identify(token).await.map_err(trouble)? else {
            self.allowed.lock().remove(&key);
            return Err(self.unauthorized("the API server does not know the token"));
        };
        let Identified { user, subject } = identified;
        let attributes = json!({"path": path, "verb": wish.verb()});
        let decision = self.server.review(subject, ("nonResourceAttributes", attributes)).await;
        if let Err(reason) = decision.map_err(trouble)? {
            self.allowed.lock().remove(&key);
            let reason = if reason.is_empty() { reason } else { format!(" ({reason})") };
            let message = format!(
                "user {user} may not {} {path}{reason}; grant it with nonResourceURLs in a ClusterRole",
                wish.verb()
            );
            return Err(Refused { status: StatusCode::FORBIDDEN, message });
        }
        let mut allowed = self.allowed.lock();
        let now = Instant::now();
        if allowed.len() >= MOST_REMEMBERED {
            allowed.retain(|_, allowed| allowed.until > now);
        }
        if allowed.len() < MOST_REMEMBERED || allowed.contains_key(&key) {
            allowed.insert(key, Allowed { user: user.clone(), until: now + REMEMBERED });
        }
        Ok(user)
    }

    fn remembered(&self, key: &(String, String, Wish)) -> Option<String> {
        let allowed = self.allowed.lock();
        allowed.get(key).filter(|allowed| allowed.until > Instant::now()).map(|allowed| allowed.user.clone())
    }
}

fn unavailable(message: String) -> Refused {
    Refused { status: StatusCode::SERVICE_UNAVAILABLE, message }
}

/// Whether the header `Host` has a name, other than `localhost`, in place of an IP address. Browsers always send the header.
fn has_foreign_name(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST) else { return false };
    let Ok(authority) = Authority::try_from(host.as_bytes()) else { return true };
    let name = authority.host();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    !name.eq_ignore_ascii_case("localhost") && address.parse::<IpAddr>().is_err()
}

/// The token of the header `Authorization`.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    let is_token = scheme.eq_ignore_ascii_case("bearer") && (1..=LONGEST_TOKEN).contains(&token.len());
    is_token.then_some(token)
}

/// Compares in a time that says nothing about where two texts differ.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}
