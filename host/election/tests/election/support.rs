//! A candidate that runs in a task of its own, and short waits on the paused clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pilothouse_election::{
    ElectionStatus, Ended, LeaderCallbacks, LeaderElectionConfig, LeaderElector, Leadership,
};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::memory::{MemoryLock, Server};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// The usual times: 15 s, 10 s, 2 s.
pub(crate) fn config(identity: &str) -> LeaderElectionConfig {
    LeaderElectionConfig::new(identity)
}

/// A candidate that runs.
pub(crate) struct Running {
    pub(crate) status: ElectionStatus,
    pub(crate) cancel: CancellationToken,
    /// The terms that it had.
    pub(crate) terms: Arc<Mutex<Vec<Leadership>>>,
    /// New leaders that it was told of.
    pub(crate) leaders: Arc<Mutex<Vec<String>>>,
    /// Whether it was told that it stopped.
    pub(crate) stopped: Arc<Mutex<usize>>,
    pub(crate) task: JoinHandle<Ended>,
}

impl Running {
    pub(crate) fn start(server: &Server, who: &'static str) -> Running {
        Running::with(server.lock(who), config(who))
    }

    /// Its work ends as soon as it is told to.
    pub(crate) fn with(lock: MemoryLock, config: LeaderElectionConfig) -> Running {
        Running::working(lock, config, Duration::ZERO)
    }

    /// Its work goes on for a while after it was told to stop.
    pub(crate) fn working(lock: MemoryLock, config: LeaderElectionConfig, end: Duration) -> Running {
        let mut elector = LeaderElector::new(lock, config).unwrap();
        let (status, cancel) = (elector.status(), CancellationToken::new());
        let (terms, leaders, stopped) = <(Arc<Mutex<Vec<_>>>, Arc<Mutex<Vec<_>>>, Arc<Mutex<_>>)>::default();
        let callbacks = LeaderCallbacks::new({
            let terms = Arc::clone(&terms);
            move |term: Leadership| async move {
                terms.lock().unwrap().push(term.clone());
                term.cancelled().await;
                sleep(end).await;
            }
        });
        let (told, count) = (Arc::clone(&leaders), Arc::clone(&stopped));
        let callbacks = callbacks
            .on_new_leader(move |leader| told.lock().unwrap().push(leader.to_owned()))
            .on_stopped_leading(move || *count.lock().unwrap() += 1);
        let token = cancel.clone();
        let task = tokio::spawn(async move { elector.run(&token, callbacks).await });
        Running { status, cancel, terms, leaders, stopped, task }
    }

    /// Its present or last term.
    pub(crate) fn term(&self) -> Leadership {
        self.status.leadership().expect("a term")
    }

    /// Waits until it leads.
    pub(crate) async fn leads(&self) -> Leadership {
        until("it leads", || self.status.is_leader()).await;
        self.term()
    }

    pub(crate) async fn end(self) -> Ended {
        self.cancel.cancel();
        self.task.await.unwrap()
    }
}

/// Lets time pass until the condition holds; an hour at most.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(3600), "never: {what}");
        sleep(Duration::from_millis(1)).await;
    }
}

/// Lets everything run that can without time passing.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}
