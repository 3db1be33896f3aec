//! [`MemoryLock`]: a lock in memory that is as late, as deaf and as forgetful as a test says.
//!
//! A request runs in a task of its own, so that one whose caller has given up is done all the same.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pilothouse_election::{LeaderElectionRecord, Lock, LockError, Stored};
use tokio::sync::broadcast;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep};

/// What is asked of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Create,
    Update,
}

/// How a request goes wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    #[default]
    None,
    /// Refused before anything is done.
    Refused,
    /// Refused as if somebody else had written.
    Conflict,
    /// Not done, and nobody says so.
    Lost,
    /// Done, and nobody says so.
    Unanswered,
}

/// How a request goes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Way {
    /// Until it is done.
    pub(crate) there: Duration,
    /// From then to the answer.
    pub(crate) back: Duration,
    pub(crate) fault: Fault,
}

/// A request as the lock saw it.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) at: Instant,
    pub(crate) verb: Verb,
}

type Hook = Box<dyn Fn(&str, &LeaderElectionRecord) + Send>;

#[derive(Default)]
struct State {
    stored: Option<Stored>,
    versions: u64,
    requests: Vec<Request>,
    ways: VecDeque<(Verb, Way)>,
    /// Called with who wrote, and what, when a record was taken.
    hook: Option<Hook>,
}

/// The server of a lock.
#[derive(Clone)]
pub(crate) struct Server {
    state: Arc<Mutex<State>>,
    changes: broadcast::Sender<Option<Stored>>,
}

impl Default for Server {
    fn default() -> Self {
        Self { state: Arc::default(), changes: broadcast::Sender::new(100) }
    }
}

impl Server {
    /// A candidate's handle.
    pub(crate) fn lock(&self, who: &'static str) -> MemoryLock {
        MemoryLock { server: self.clone(), who, ways: None, watched: false }
    }

    /// The next request of this kind goes this way.
    pub(crate) fn next(&self, verb: Verb, way: Way) {
        self.state.lock().unwrap().ways.push_back((verb, way));
    }

    pub(crate) fn fail(&self, verb: Verb, fault: Fault) {
        self.next(verb, Way { fault, ..Way::default() });
    }

    pub(crate) fn hook(&self, hook: impl Fn(&str, &LeaderElectionRecord) + Send + 'static) {
        self.state.lock().unwrap().hook = Some(Box::new(hook));
    }

    pub(crate) fn record(&self) -> LeaderElectionRecord {
        self.state.lock().unwrap().stored.clone().expect("a record").record
    }

    pub(crate) fn holder(&self) -> String {
        let state = self.state.lock().unwrap();
        state.stored.as_ref().map(|stored| stored.record.holder_identity.clone()).unwrap_or_default()
    }

    /// What somebody else writes.
    pub(crate) fn write(&self, change: impl FnOnce(&mut LeaderElectionRecord)) {
        let mut state = self.state.lock().unwrap();
        let mut record = state.stored.clone().unwrap_or_default().record;
        change(&mut record);
        let stored = state.keep(record);
        self.tell(Some(stored));
    }

    /// A new version of the same record.
    pub(crate) fn touch(&self) {
        self.write(|_| {});
    }

    pub(crate) fn delete(&self) {
        self.state.lock().unwrap().stored = None;
        self.tell(None);
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.state.lock().unwrap().requests.clone()
    }

    pub(crate) fn count(&self, verb: Verb) -> usize {
        self.requests().iter().filter(|request| request.verb == verb).count()
    }

    /// Tells those who watch.
    pub(crate) fn tell(&self, change: Option<Stored>) {
        // Unless nobody does.
        let _ = self.changes.send(change);
    }

    fn apply(&self, who: &'static str, request: Asked) -> Result<Stored, LockError> {
        let mut state = self.state.lock().unwrap();
        match (request, state.stored.clone()) {
            (Asked::Get, Some(stored)) => Ok(stored),
            (Asked::Get | Asked::Update(..), None) => Err(LockError::NotFound("no lock".to_owned())),
            (Asked::Create(_), Some(_)) => Err(LockError::Conflict("there is one".to_owned())),
            (Asked::Update(from, _), Some(stored))
                if (&from.uid, &from.resource_version) != (&stored.uid, &stored.resource_version) =>
            {
                Err(LockError::Conflict("it was changed".to_owned()))
            }
            (Asked::Create(record) | Asked::Update(_, record), _) => {
                if let Some(hook) = &state.hook {
                    hook(who, &record);
                }
                let stored = state.keep(record);
                self.tell(Some(stored.clone()));
                Ok(stored)
            }
        }
    }
}

impl State {
    fn keep(&mut self, record: LeaderElectionRecord) -> Stored {
        self.versions += 1;
        let uid = self
            .stored
            .as_ref()
            .map_or_else(|| format!("uid-{}", self.versions), |stored| stored.uid.clone());
        let stored =
            Stored { record, uid, resource_version: self.versions.to_string(), object: String::new() };
        self.stored = Some(stored.clone());
        stored
    }
}

enum Asked {
    Get,
    Create(LeaderElectionRecord),
    Update(Stored, LeaderElectionRecord),
}

/// Draws how the requests of one candidate go.
pub(crate) type Ways = Arc<dyn Fn() -> Way + Send + Sync>;

/// A candidate's handle of the lock.
pub(crate) struct MemoryLock {
    server: Server,
    who: &'static str,
    ways: Option<Ways>,
    watched: bool,
}

impl MemoryLock {
    /// All requests go as this says.
    pub(crate) fn with_ways(mut self, ways: Ways) -> Self {
        self.ways = Some(ways);
        self
    }

    /// It tells of changes.
    pub(crate) fn watched(mut self) -> Self {
        self.watched = true;
        self
    }

    async fn ask(&self, verb: Verb, asked: Asked) -> Result<Stored, LockError> {
        let (server, who) = (self.server.clone(), self.who);
        let way = {
            let mut state = server.state.lock().unwrap();
            state.requests.push(Request { at: Instant::now(), verb });
            match state.ways.front() {
                Some((next, _)) if *next == verb => state.ways.pop_front().unwrap().1,
                _ => self.ways.as_ref().map(|ways| ways()).unwrap_or_default(),
            }
        };
        let no_answer = || Err(LockError::NoAnswer("cut".to_owned()));
        let done = tokio::spawn(async move {
            pause(way.there).await;
            let outcome = match way.fault {
                Fault::Refused => Err(LockError::Refused("no".to_owned())),
                Fault::Conflict => Err(LockError::Conflict("no".to_owned())),
                Fault::Lost => no_answer(),
                Fault::None => server.apply(who, asked),
                Fault::Unanswered => server.apply(who, asked).and_then(|_| no_answer()),
            };
            pause(way.back).await;
            outcome
        });
        done.await.unwrap()
    }
}

/// Without a wait where there is none.
async fn pause(time: Duration) {
    if !time.is_zero() {
        sleep(time).await;
    }
}

impl Lock for MemoryLock {
    async fn get(&self) -> Result<Stored, LockError> {
        self.ask(Verb::Get, Asked::Get).await
    }

    async fn create(&self, record: &LeaderElectionRecord) -> Result<Stored, LockError> {
        self.ask(Verb::Create, Asked::Create(record.clone())).await
    }

    async fn update(&self, from: &Stored, record: &LeaderElectionRecord) -> Result<Stored, LockError> {
        self.ask(Verb::Update, Asked::Update(from.clone(), record.clone())).await
    }

    async fn watch(&self, seen: UnboundedSender<Option<Stored>>) {
        if !self.watched {
            return std::future::pending().await;
        }
        let mut changes = self.server.changes.subscribe();
        loop {
            // One that comes too late for the channel is one more that a watch does not show.
            if let Ok(change) = changes.recv().await {
                let _ = seen.send(change);
            }
        }
    }

    fn describe(&self) -> String {
        "ns/lock".to_owned()
    }
}
