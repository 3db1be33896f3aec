//! [`Lock`]: where the record is kept. The elector knows no more of a server than this.

use tokio::sync::mpsc::UnboundedSender;

use crate::record::LeaderElectionRecord;

/// Why a lock did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// There is no such object.
    #[error("{0}")]
    NotFound(String),
    /// Somebody else has written, or made the object, meanwhile: nothing was done.
    #[error("{0}")]
    Conflict(String),
    /// The server refused, or was not reached: nothing was done.
    #[error("{0}")]
    Refused(String),
    /// No answer: it is not known whether it was done.
    #[error("{0}")]
    NoAnswer(String),
}

/// A record as the lock has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stored {
    /// The record.
    pub record: LeaderElectionRecord,
    /// Tells an object from one of the same name that was made before.
    pub uid: String,
    /// The version, which an update is made from.
    pub resource_version: String,
    /// The whole object, for what an update must keep; empty where there is no more than the record.
    pub object: String,
}

/// A place where a record is kept that everybody can read, and of several writes from one version one alone goes
/// through.
pub trait Lock: Send + Sync + 'static {
    /// Reads the record.
    ///
    /// # Errors
    /// [`LockError::NotFound`] when there is none yet.
    fn get(&self) -> impl Future<Output = Result<Stored, LockError>> + Send;

    /// Makes the record.
    ///
    /// # Errors
    /// [`LockError::Conflict`] when there is one by now.
    fn create(&self, record: &LeaderElectionRecord)
    -> impl Future<Output = Result<Stored, LockError>> + Send;

    /// Replaces the record if nobody has written since `from` was read.
    ///
    /// # Errors
    /// [`LockError::Conflict`] when somebody has.
    fn update(
        &self,
        from: &Stored,
        record: &LeaderElectionRecord,
    ) -> impl Future<Output = Result<Stored, LockError>> + Send;

    /// Tells of changes as they come, `None` for a record that is deleted, for as long as it is polled; it does not
    /// complete. Saves waiting for the next try, no more: what it tells may be late, and it need not tell anything.
    fn watch(&self, seen: UnboundedSender<Option<Stored>>) -> impl Future<Output = ()> + Send {
        let _ = seen;
        std::future::pending()
    }

    /// What the lock is called in logs, as `NAMESPACE/NAME`.
    fn describe(&self) -> String;
}
