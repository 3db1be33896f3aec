//! [`ExecPlugin`]: credentials from a program, by `client.authentication.k8s.io`.
//!
//! Invariants:
//! * One run at a time, however many callers wait; a caller that gives up does not end it, the end of the client does. What
//!   it gives counts from its end, whether or not somebody still waits.
//! * A credential is kept until shortly before it expires, or until the server has refused it. A run that fails leaves a
//!   credential that is still good in use.
//! * Output of the program is never quoted: only what it says on its standard error reaches a message, cleaned.
//!
//! `authorizer` asks for the header, `tls` for the certificate; `run` starts the program, `credential` reads what it prints.

mod credential;
mod run;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use credential::Credential;
pub(crate) use run::{Command, displayed};

use crate::error::{Error, Result};
use crate::observer::{ExecPluginEvent, RequestObserver};

/// A server that refuses even a new credential must not make the program run for each request.
const BETWEEN_REJECTIONS: Duration = Duration::from_secs(10);

/// A program that fails is not started again for each of many requests.
const BETWEEN_FAILURES: Duration = Duration::from_secs(5);

/// A credential, shared by those who use it.
pub(crate) type SharedCredential = Arc<Credential>;

type PendingRun = Shared<BoxFuture<'static, Result<SharedCredential>>>;

/// A program that gives credentials.
pub(crate) struct ExecPlugin {
    command: Arc<Command>,
    runtime: Handle,
    kept: Arc<ExecShared>,
}

/// What a run leaves, whether or not somebody still waits for it.
struct ExecShared {
    observer: Option<Arc<dyn RequestObserver>>,
    state: Mutex<ExecState>,
}

#[derive(Default)]
struct ExecState {
    current: Option<SharedCredential>,
    /// The server has refused `current`.
    refused: bool,
    /// When a refusal last led to a run.
    refusal: Option<Instant>,
    /// When and why the last run gave none.
    failure: Option<(Instant, Error)>,
    run: Option<PendingRun>,
}

impl ExecPlugin {
    /// Programs are started on `runtime`, whichever runtime a call comes from.
    pub(crate) fn new(command: Command, runtime: Handle, observer: Option<Arc<dyn RequestObserver>>) -> Self {
        let kept = Arc::new(ExecShared { observer, state: Mutex::default() });
        Self { command: Arc::new(command), runtime, kept }
    }

    /// The credential that was got last, as it is.
    pub(crate) fn current(&self) -> Option<SharedCredential> {
        self.kept.state.lock().current.clone()
    }

    /// A credential to use now; runs the program when there is none. A failure stands for a moment.
    pub(crate) async fn credential(&self) -> Result<SharedCredential> {
        let (run, usable) = {
            let mut state = self.kept.state.lock();
            let current = state.current.clone().filter(|_| !state.refused);
            if let Some(current) = current.as_ref().filter(|current| current.is_fresh()) {
                return Ok(Arc::clone(current));
            }
            let usable = current.filter(|current| current.is_valid());
            if let Some((at, error)) = &state.failure
                && at.elapsed() < BETWEEN_FAILURES
            {
                return usable.ok_or_else(|| error.clone());
            }
            (state.run.get_or_insert_with(|| self.start()).clone(), usable)
        };
        match (run.await, usable) {
            (Err(_), Some(usable)) => Ok(usable),
            (result, _) => result,
        }
    }

    /// The server did not accept the credential of this number.
    pub(crate) fn rejected(&self, serial: u64) {
        let mut state = self.kept.state.lock();
        let again = state.refusal.is_none_or(|last| last.elapsed() >= BETWEEN_REJECTIONS);
        if again && state.current.as_ref().is_some_and(|current| current.serial == serial) {
            state.refused = true;
            state.refusal = Some(Instant::now());
        }
    }

    fn start(&self) -> PendingRun {
        // A run does not keep the plugin, whose end is to end it.
        let (command, kept) = (Arc::clone(&self.command), Arc::downgrade(&self.kept));
        let of_run = Weak::clone(&kept);
        let task = AbortOnDropHandle::new(self.runtime.spawn(async move {
            let (result, event) = command.run().await;
            let result = result.and_then(|output| Credential::parse(&command, &output)).map(Arc::new);
            if let Some(kept) = of_run.upgrade() {
                kept.finish(&result, Some(&event));
            }
            result
        }));
        async move {
            match task.await {
                Ok(result) => result,
                Err(_) => {
                    let result = Err(Error::Config("the runtime of the client is gone".to_owned()));
                    if let Some(kept) = kept.upgrade() {
                        kept.finish(&result, None);
                    }
                    result
                }
            }
        }
        .boxed()
        .shared()
    }
}

impl ExecShared {
    /// Takes over what the run gave.
    fn finish(&self, result: &Result<SharedCredential>, event: Option<&ExecPluginEvent>) {
        if let (Some(observer), Some(event)) = (&self.observer, event) {
            observer.exec_plugin(event);
        }
        // Dropped without the lock: when nobody waits for it any more, the task that calls this is aborted, at its end.
        let _run;
        let mut state = self.state.lock();
        _run = state.run.take();
        let new = match result {
            Ok(new) => new,
            Err(error) => {
                let usable =
                    !state.refused && state.current.as_ref().is_some_and(|current| current.is_valid());
                let last = state.failure.replace((Instant::now(), error.clone()));
                // Once, however many calls waited for this run, and not again by each run that fails alike.
                let text = error.to_string();
                if usable && last.is_none_or(|(_, last)| last.to_string() != text) {
                    tracing::warn!(event = "credential_kept", "{text}; still using the previous credential");
                }
                return;
            }
        };
        state.failure = None;
        state.refused = false;
        let old = state.current.replace(Arc::clone(new));
        drop(state);
        let Some(observer) = &self.observer else { return };
        let old = old.and_then(|old| old.certificate.clone());
        if let Some(old) = old.filter(|old| new.certificate.as_ref() != Some(old)) {
            let since = SystemTime::from(old.validity.not_before);
            let age = SystemTime::now().duration_since(since).unwrap_or_default();
            observer.exec_plugin(&ExecPluginEvent::Rotated { age });
        }
        let expires = new.certificate.as_ref().map(|certificate| certificate.validity.not_after.into());
        observer.exec_plugin(&ExecPluginEvent::Certificate { expires });
    }
}

/// `exec plugin "COMMAND"`.
impl fmt::Display for ExecPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.command.fmt(f)
    }
}
