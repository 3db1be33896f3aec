//! [`Endpoints`]: the paths of the admin address, and [`Health`], those without data.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use serde::Serialize;

use super::access::{AdminAccess, Refused, Wish};
use super::connections::Answering;
use super::web_page;
use crate::manager::Manager;
use crate::observe::command::{Command, CommandError};
use crate::observe::metrics::Metrics;
use crate::observe::pages::Pages;
use crate::observe::recent_log::RecentLog;

/// Most bytes of a path with its query, which go into the log, and into reviews that are remembered. The longest command has
/// some 800.
const LONGEST_PATH: usize = 2048;

/// All endpoints.
pub(super) struct Endpoints {
    manager: Manager,
    pages: Pages,
    access: AdminAccess,
    log: Option<RecentLog>,
}

/// The endpoints of health, without data.
pub(super) struct Health(pub(super) Manager);

impl Answering for Health {
    fn answer(self: Arc<Self>, request: Request<Incoming>) -> BoxFuture<'static, Response<Full<Bytes>>> {
        Box::pin(async move {
            if !is_read(request.method()) {
                return text(StatusCode::METHOD_NOT_ALLOWED, "use GET\n");
            }
            match Condition::of(request.uri().path(), &self.0) {
                Some(condition) => condition.response(false),
                None => {
                    text(StatusCode::NOT_FOUND, "not found; the paths are /livez, /readyz and /healthz\n")
                }
            }
        })
    }
}

impl Answering for Endpoints {
    fn answer(self: Arc<Self>, request: Request<Incoming>) -> BoxFuture<'static, Response<Full<Bytes>>> {
        Box::pin(async move {
            let (parts, _) = request.into_parts();
            let answer = if parts.uri.path_and_query().is_some_and(|path| path.as_str().len() > LONGEST_PATH)
            {
                Ok(text(StatusCode::URI_TOO_LONG, &format!("paths have {LONGEST_PATH} bytes at most\n")))
            } else if is_read(&parts.method) {
                self.read(&parts).await
            } else if parts.method == Method::POST {
                self.command(&parts).await
            } else {
                Ok(text(StatusCode::METHOD_NOT_ALLOWED, "use GET, or POST for a command\n"))
            };
            answer.unwrap_or_else(refusal)
        })
    }
}

impl Endpoints {
    pub(super) fn new(
        manager: Manager,
        metrics: Metrics,
        access: AdminAccess,
        log: Option<RecentLog>,
    ) -> Self {
        let pages = Pages::new(manager.clone(), metrics);
        Self { manager, pages, access, log }
    }

    async fn read(&self, parts: &Parts) -> Result<Response<Full<Bytes>>, Refused> {
        let path = parts.uri.path();
        if let Some(condition) = Condition::of(path, &self.manager) {
            // The API server is asked when there is something to tell: a probe must not hang on it.
            let with_details =
                !condition.details.is_empty() && self.access.may_see_reasons(&parts.headers).await;
            return Ok(condition.response(with_details));
        }
        // The same for everybody: data has paths of its own.
        if let Some(file) = web_page::file(path) {
            return Ok(file);
        }
        let plugin = path.strip_prefix("/plugins/");
        if !matches!(path, "/metrics" | "/plugins" | "/caches" | "/log") && plugin.is_none() {
            let paths = "/, /livez, /readyz, /healthz, /metrics, /plugins, /plugins/NAME, /caches and /log";
            return Ok(text(StatusCode::NOT_FOUND, &format!("not found; the paths are {paths}\n")));
        }
        self.access.admit(&parts.headers, path, Wish::Read).await?;
        if let Some(name) = plugin {
            return Ok(match self.manager.detail(name) {
                Some(detail) => json(&detail),
                None => text(StatusCode::NOT_FOUND, &format!("there is no plugin {name:?}\n")),
            });
        }
        let query = parts.uri.query().unwrap_or_default();
        let made = match path {
            "/plugins" if query == "usage=true" => self.pages.usage().await,
            "/plugins" => self.pages.plugins().await,
            "/caches" => self.pages.caches().await,
            "/log" => {
                let Some(log) = &self.log else {
                    return Ok(text(StatusCode::NOT_FOUND, "this host keeps no lines of its log\n"));
                };
                let after = query.strip_prefix("after=").and_then(|number| number.parse().ok());
                self.pages.log(log.clone(), after.unwrap_or(0)).await
            }
            _ => {
                let metrics = self.pages.metrics().await;
                return Ok(page(metrics, "application/openmetrics-text; version=1.0.0; charset=utf-8"));
            }
        };
        Ok(page(made, "application/json"))
    }

    async fn command(&self, parts: &Parts) -> Result<Response<Full<Bytes>>, Refused> {
        let path = parts.uri.path();
        let named = path.strip_prefix("/plugins/").and_then(|rest| rest.rsplit_once('/'));
        let Some((name, Some(command))) =
            named.map(|(name, command)| (name, Command::parse(command, parts.uri.query())))
        else {
            let paths = Command::NAMES.map(|name| format!("/plugins/NAME/{name}")).join(", ");
            let message = format!("not found; commands are POST {paths}; reconcile needs ?key=KEY\n");
            return Ok(text(StatusCode::NOT_FOUND, &message));
        };
        let by = self.access.admit(&parts.headers, path, Wish::Command).await?;
        let outcome = self.manager.command(name, &command);
        let (word, key) = (command.name(), command.key().map(tracing::field::display));
        match &outcome {
            Ok(_) => {
                tracing::info!(event = "admin_command", plugin = name, command = word, key, by, "done");
            }
            Err(error) => {
                tracing::warn!(
                    event = "admin_command_refused",
                    plugin = name,
                    command = word,
                    key,
                    by,
                    "refused: {error}"
                );
            }
        }
        Ok(match outcome {
            Ok(done) => text(StatusCode::OK, &format!("{done}\n")),
            Err(error @ CommandError::NoPlugin) => text(StatusCode::NOT_FOUND, &format!("{error}\n")),
            Err(error) => text(StatusCode::CONFLICT, &format!("{error}\n")),
        })
    }
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// What is said about the health of the host.
struct Condition {
    status: StatusCode,
    word: &'static str,
    /// The details for callers with permission, with their separator in front; empty if the condition has none.
    details: String,
}

impl Condition {
    /// The condition that a path asks for; none of other paths.
    fn of(path: &str, manager: &Manager) -> Option<Self> {
        let says = |status, word, details| Some(Self { status, word, details });
        match path {
            "/livez" | "/healthz" if let Some(why) = manager.unhealthy() => {
                says(StatusCode::INTERNAL_SERVER_ERROR, "unhealthy", format!(": {why}"))
            }
            "/livez" => says(StatusCode::OK, "ok", String::new()),
            "/readyz" | "/healthz" => match manager.not_ready() {
                None => {
                    let role =
                        manager.election().map_or_else(String::new, |election| format!(", {election}"));
                    says(StatusCode::OK, "ok", role)
                }
                // The host as a whole is healthy while it waits for a cluster.
                Some(why) if path == "/healthz" => says(StatusCode::OK, "ok, not ready", format!(": {why}")),
                Some(why) => says(StatusCode::SERVICE_UNAVAILABLE, "not ready", format!(": {why}")),
            },
            _ => None,
        }
    }

    fn response(&self, with_details: bool) -> Response<Full<Bytes>> {
        let details = if with_details { self.details.as_str() } else { "" };
        text(self.status, &format!("{}{details}\n", self.word))
    }
}

fn refusal(refused: Refused) -> Response<Full<Bytes>> {
    let mut response = text(refused.status, &format!("{}\n", refused.message));
    if refused.status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

fn page(body: Result<Bytes, String>, content_type: &'static str) -> Response<Full<Bytes>> {
    match body {
        Ok(body) => typed(StatusCode::OK, content_type, body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
    }
}

fn json(value: &impl Serialize) -> Response<Full<Bytes>> {
    match serde_json::to_vec(value) {
        Ok(body) => typed(StatusCode::OK, "application/json", body.into()),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
    }
}

fn text(status: StatusCode, body: &str) -> Response<Full<Bytes>> {
    typed(status, "text/plain; charset=utf-8", Bytes::copy_from_slice(body.as_bytes()))
}

pub(super) fn typed(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    // Texts of plugins are never taken for a page or a script.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
