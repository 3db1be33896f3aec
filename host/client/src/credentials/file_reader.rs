//! [`FileReader`]: files that are read again as they age, without holding anybody up: a mount that is gone lets a read hang for
//! hours.
//!
//! Invariants:
//! * One read at a time, on a thread for blocking work. Whoever does not get its result in time goes on with the old.
//! * What a read gives is never lost: a caller that gives up leaves it to the next.
//!
//! `tls` reads certificates by it, `authorizer` a token.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::time::{Instant, timeout, timeout_at};

use crate::error::{Error, Result};

/// Kubelets and cert-manager rotate long before a certificate or a token expires.
const LIFE: Duration = Duration::from_secs(60);

/// Runs `read`, which may wait for files, on a thread for blocking work: other tasks go on while a file system hangs.
pub(crate) async fn blocking<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(read)
        .await
        .map_err(|e| Error::Config(format!("the files of the configuration were not read: {e}")))
}

/// How long somebody waits for files; local ones take less than a millisecond.
const PATIENCE: Duration = Duration::from_secs(1);

/// Files, read now and then.
pub(crate) struct FileReader<T> {
    /// Begins the warning of files that take too long, as `token file NAME is`.
    what: String,
    runtime: Handle,
    age: Mutex<Age>,
    slot: tokio::sync::Mutex<Option<PendingRead<T>>>,
}

struct Age {
    /// When the read began whose content is in use.
    read: Instant,
    /// When the server last refused that content.
    refused: Option<Instant>,
}

struct PendingRead<T> {
    began: Instant,
    result: oneshot::Receiver<T>,
    /// Has been waited for in vain, and told.
    late: bool,
}

impl<T: Send + 'static> FileReader<T> {
    /// Files that have just been read. Reads go to the threads of this runtime.
    pub(crate) fn new(what: String) -> Self {
        let age = Mutex::new(Age { read: Instant::now(), refused: None });
        Self { what, runtime: Handle::current(), age, slot: tokio::sync::Mutex::default() }
    }

    /// Whether the content is old, or was refused.
    pub(crate) fn is_due(&self) -> bool {
        self.is_refused() || self.age.lock().read.elapsed() >= LIFE
    }

    /// Whether the server has refused the content, and nothing was read since.
    pub(crate) fn is_refused(&self) -> bool {
        let age = self.age.lock();
        age.refused.is_some_and(|refused| age.read < refused)
    }

    /// The server has refused the content: it is due.
    pub(crate) fn refused(&self) {
        self.age.lock().refused = Some(Instant::now());
    }

    /// The content now; `None` when it cannot be had in time.
    pub(crate) async fn latest(&self, read: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let locking = {
            let _in_runtime = self.runtime.enter();
            timeout(PATIENCE, self.slot.lock())
        };
        self.wait(&mut *locking.await.ok()?, read).await
    }

    /// Like `latest`, and `None` at once while another waits for it.
    pub(crate) async fn try_latest(&self, read: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        self.wait(&mut *self.slot.try_lock().ok()?, read).await
    }

    /// What a read that was begun before gives, if it has ended.
    pub(crate) fn ended(&self) -> Option<T> {
        self.take(&mut *self.slot.try_lock().ok()?)
    }

    /// Begins a read that [`FileReader::ended`] gives; nobody waits for it.
    pub(crate) fn begin(&self, read: impl FnOnce() -> T + Send + 'static) {
        let Ok(mut slot) = self.slot.try_lock() else { return };
        let going = slot.get_or_insert_with(|| self.start(read));
        if going.began.elapsed() >= PATIENCE {
            self.tell_late(going);
        }
    }

    async fn wait(
        &self,
        slot: &mut Option<PendingRead<T>>,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        // It may have ended long ago, and is still better than nothing.
        let before = self.take(slot);
        let going = slot.get_or_insert_with(|| self.start(read));
        if going.late {
            return before;
        }
        let waiting = {
            let _in_runtime = self.runtime.enter();
            timeout_at(going.began + PATIENCE, &mut going.result)
        };
        match waiting.await {
            Ok(result) => {
                let began = going.began;
                *slot = None;
                let content = result.ok()?;
                self.age.lock().read = began;
                Some(content)
            }
            Err(_) => {
                self.tell_late(going);
                before
            }
        }
    }

    fn start(&self, read: impl FnOnce() -> T + Send + 'static) -> PendingRead<T> {
        let (sender, result) = oneshot::channel();
        let began = Instant::now();
        self.runtime.spawn_blocking(move || {
            let _ = sender.send(read());
        });
        PendingRead { began, result, late: false }
    }

    fn take(&self, slot: &mut Option<PendingRead<T>>) -> Option<T> {
        let going = slot.as_mut()?;
        let result = going.result.try_recv();
        if matches!(result, Err(TryRecvError::Empty)) {
            return None;
        }
        self.age.lock().read = going.began;
        *slot = None;
        result.ok()
    }

    fn tell_late(&self, going: &mut PendingRead<T>) {
        if !going.late {
            going.late = true;
            let what = &self.what;
            tracing::warn!(
                event = "file_read_timeout",
                "{what} not read within {PATIENCE:?}; still using the previous content; is the file system up?"
            );
        }
    }
}
