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
            let health = health(request.uri().path(), &self.0, false);
            health.unwrap_or_else(|| {
                text(StatusCode::NOT_FOUND, "not found; the paths are /livez, /readyz and /healthz\n")
            })
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
        let with_data = matches!(path, "/livez" | "/readyz" | "/healthz")
            && self.access.may_see_reasons(&parts.headers).await;
        if let Some(health) = health(path, &self.manager, with_data) {
            return Ok(health);
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

/// The answer about health; none for other paths. Reasons are shown `with_data` only.
fn health(path: &str, manager: &Manager, with_data: bool) -> Option<Response<Full<Bytes>>> {
    let says = |status, word: &str, why: &str| {
        let why = if with_data && !why.is_empty() { format!("{why}\n") } else { "\n".to_owned() };
        let separator = if why == "\n" { "" } else { ": " };
        Some(text(status, &format!("{word}{separator}{why}")))
    };
    match path {
        "/livez" | "/healthz" if let Some(why) = manager.unhealthy() => {
            says(StatusCode::INTERNAL_SERVER_ERROR, "unhealthy", &why)
        }
        "/livez" => says(StatusCode::OK, "ok", ""),
        "/readyz" | "/healthz" => match manager.not_ready() {
            None => Some(match manager.election().filter(|_| with_data) {
                None => text(StatusCode::OK, "ok\n"),
                Some(election) => text(StatusCode::OK, &format!("ok, {election}\n")),
            }),
            // The host as a whole is healthy while it waits for a cluster.
            Some(why) if path == "/healthz" => says(StatusCode::OK, "ok, not ready", &why),
            Some(why) => says(StatusCode::SERVICE_UNAVAILABLE, "not ready", &why),
        },
        _ => None,
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
