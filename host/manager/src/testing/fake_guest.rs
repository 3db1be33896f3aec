//! A component whose guests are scripted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use pilothouse_engine::{
    CallStart, Event, Failure, Fault, FaultKind, HostImports, LoadError, Outcome, ReasonSet, Request,
};
use pilothouse_plugin::{Limits, World};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use super::settle;
use crate::dispatch::guest::{Answer, Component, Guest};

/// One call, as the guest sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GuestCall {
    /// Digest of the component.
    pub(crate) digest: &'static str,
    /// `reconcile`, `reconcile-many`, `on-events` or `on-synced`.
    pub(crate) function: &'static str,
    /// The name of the watch, for a handler.
    pub(crate) watch: String,
    pub(crate) keys: Vec<String>,
    pub(crate) attempts: Vec<u32>,
    pub(crate) reasons: Vec<Vec<&'static str>>,
}

/// The answers to a call: one for each key of a reconcile.
pub(crate) type Answers = Result<Vec<Answer>, Fault>;

type Script = Arc<dyn Fn(GuestCall) -> BoxFuture<'static, Answers> + Send + Sync>;

/// The answer of a scripted `describe`.
pub(super) type Described = Result<Result<Vec<u8>, String>, Fault>;

/// A component whose guests answer by a script; each call is reported to the test before it is answered.
pub(crate) struct FakeComponent {
    pub(super) digest: &'static str,
    world: World,
    /// Whether an instance is worn out after its first call that reconciles or handles.
    wears_out: bool,
    pub(super) described: Described,
    /// From this instance on `describe` answers so.
    later: Option<(usize, Described)>,
    script: Script,
    calls: mpsc::UnboundedSender<GuestCall>,
    instances: AtomicUsize,
    is_mapped: Arc<AtomicBool>,
    /// Instances that are refused first, and how.
    refusals: Mutex<(usize, Option<Fault>)>,
    /// How long it takes to make an instance.
    making: Duration,
    /// Whether a test has taken the machine code away.
    is_lost: AtomicBool,
}

/// The calls of a component, in order.
pub(crate) struct Calls(mpsc::UnboundedReceiver<GuestCall>);

impl FakeComponent {
    /// A component that is done with each key at once.
    pub(crate) fn new(digest: &'static str, world: World, description: Value) -> (Self, Calls) {
        let (calls, receiver) = mpsc::unbounded_channel();
        let described = Ok(Ok(description_text(description)));
        let script: Script = Arc::new(|call| Box::pin(async move { done(&call) }));
        let (instances, is_mapped) = (AtomicUsize::new(0), Arc::default());
        let component = Self {
            digest,
            world,
            wears_out: false,
            described,
            later: None,
            script,
            calls,
            instances,
            is_mapped,
            refusals: Mutex::default(),
            making: Duration::ZERO,
            is_lost: AtomicBool::new(false),
        };
        (component, Calls(receiver))
    }

    /// A reconciler without watches.
    pub(crate) fn reconciler() -> (Self, Calls) {
        Self::new("sha256:a", World::Reconciler, json!({}))
    }

    /// Has instances that are worn out after a call.
    pub(crate) fn wears_out(mut self) -> Self {
        self.wears_out = true;
        self
    }

    /// Answers calls with what the script returns.
    pub(crate) fn script<F, A>(mut self, script: F) -> Self
    where
        F: Fn(GuestCall) -> A + Send + Sync + 'static,
        A: Future<Output = Answers> + Send + 'static,
    {
        self.script = Arc::new(move |call| Box::pin(script(call)));
        self
    }

    /// Answers each call well once it has taken a permit, and at once that the first list is over.
    pub(crate) fn held(self, permits: &Arc<Semaphore>) -> Self {
        let permits = Arc::clone(permits);
        self.script(move |call| {
            let permits = Arc::clone(&permits);
            async move {
                if call.function != "on-synced" {
                    permits.acquire().await.unwrap().forget();
                }
                done(&call)
            }
        })
    }

    /// Refuses the first instances with this fault.
    pub(crate) fn refuse(self, times: usize, fault: Fault) -> Self {
        *self.refusals.lock() = (times, Some(fault));
        self
    }

    /// Has instances that take so long to make.
    pub(crate) fn made_within(mut self, time: Duration) -> Self {
        self.making = time;
        self
    }

    /// Answers `describe` so.
    pub(crate) fn described(mut self, described: Described) -> Self {
        self.described = described;
        self
    }

    /// Answers `describe` so from the instance with this number on.
    pub(crate) fn described_later(mut self, instance: usize, described: Described) -> Self {
        self.later = Some((instance, described));
        self
    }

    /// Takes the machine code away.
    pub(crate) fn lose_code(&self) {
        self.is_lost.store(true, Relaxed);
    }

    /// Instances made so far.
    pub(crate) fn instances(&self) -> usize {
        self.instances.load(Relaxed)
    }

    /// Whether the code is mapped.
    pub(crate) fn is_mapped(&self) -> bool {
        self.is_mapped.load(Relaxed)
    }
}

impl Calls {
    /// Waits for the next call; on the paused clock this runs timers.
    pub(crate) async fn next(&mut self) -> GuestCall {
        self.0.recv().await.expect("a call")
    }

    /// Waits for the next call and returns its keys.
    pub(crate) async fn next_keys(&mut self) -> Vec<String> {
        self.next().await.keys
    }

    /// What the guest was told so far, when no task can run any more: as [`begun`](Self::begun).
    pub(crate) async fn so_far(&mut self) -> Vec<String> {
        settle().await;
        self.begun()
    }

    /// What the calls tell that have begun: function and keys of each, and for each event what happened and its key. That a
    /// first list is over is left out.
    pub(crate) fn begun(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        while let Ok(call) = self.0.try_recv() {
            match call.function {
                "on-synced" => {}
                "on-events" => {
                    let events = call.reasons.iter().zip(&call.keys);
                    told.extend(events.map(|(what, key)| format!("{} {key}", what.join("+"))));
                }
                function => told.push(format!("{function} {}", call.keys.join(","))),
            }
        }
        told
    }

    /// The calls made so far, when no task can run any more: function and keys of each.
    pub(crate) async fn calls_so_far(&mut self) -> Vec<String> {
        settle().await;
        let mut calls = Vec::new();
        while let Ok(call) = self.0.try_recv() {
            calls.push(format!("{} {}", call.function, call.keys.join(",")));
        }
        calls
    }
}

/// A description with the fields that it must have.
pub(crate) fn description_text(mut description: Value) -> Vec<u8> {
    description["apiVersion"] = json!("pilothouse.dev/describe/v1alpha1");
    description["name"] = json!("p");
    description.to_string().into_bytes()
}

/// `done` for each key.
pub(crate) fn done(call: &GuestCall) -> Answers {
    Ok(call.keys.iter().map(|_| Ok(Outcome::Done)).collect())
}

/// A fault of this kind.
pub(crate) fn fault(kind: FaultKind) -> Fault {
    Fault { kind, message: "scripted".to_owned() }
}

impl Component for FakeComponent {
    fn digest(&self) -> &str {
        self.digest
    }

    fn world(&self) -> Result<World, LoadError> {
        if self.is_lost.load(Relaxed) {
            return Err(LoadError::CodeLost("scripted".to_owned()));
        }
        Ok(self.world)
    }

    fn unload(&self) {
        self.is_mapped.store(false, Relaxed);
    }

    fn instantiate(
        &self,
        _: Arc<dyn HostImports>,
        _: Limits,
    ) -> BoxFuture<'_, Result<Box<dyn Guest>, Fault>> {
        if self.is_lost.load(Relaxed) {
            return Box::pin(async { Err(fault(FaultKind::CodeUnavailable)) });
        }
        let (left, fault) = &mut *self.refusals.lock();
        if let (1.., Some(fault)) = (*left, fault.as_ref()) {
            *left -= 1;
            let fault = fault.clone();
            return Box::pin(async move { Err(fault) });
        }
        let made = self.instances.fetch_add(1, Relaxed);
        self.is_mapped.store(true, Relaxed);
        let guest = FakeGuest {
            digest: self.digest,
            described: match &self.later {
                Some((instance, described)) if made >= *instance => described.clone(),
                _ => self.described.clone(),
            },
            script: Arc::clone(&self.script),
            calls: self.calls.clone(),
            is_usable: true,
            wears_out: self.wears_out,
            is_worn_out: false,
        };
        let making = self.making;
        Box::pin(async move {
            if !making.is_zero() {
                tokio::time::sleep(making).await;
            }
            Ok(Box::new(guest) as Box<dyn Guest>)
        })
    }
}

struct FakeGuest {
    digest: &'static str,
    described: Described,
    script: Script,
    calls: mpsc::UnboundedSender<GuestCall>,
    is_usable: bool,
    wears_out: bool,
    is_worn_out: bool,
}

impl FakeGuest {
    fn call(&mut self, function: &'static str, requests: &[Request<'_>]) -> BoxFuture<'_, Answers> {
        self.call_of("", function, requests)
    }

    fn call_of(
        &mut self,
        watch: &str,
        function: &'static str,
        requests: &[Request<'_>],
    ) -> BoxFuture<'_, Answers> {
        let call = GuestCall {
            digest: self.digest,
            function,
            watch: watch.to_owned(),
            keys: requests.iter().map(|request| request.key.to_string()).collect(),
            attempts: requests.iter().map(|request| request.attempt).collect(),
            reasons: requests.iter().map(|request| request.reasons.names().collect()).collect(),
        };
        // The test may have stopped listening.
        let _ = self.calls.send(call.clone());
        assert!(self.is_usable, "{function}: a call of this instance faulted or did not end");
        self.is_usable = false;
        self.is_worn_out = self.wears_out && !call.keys.is_empty();
        let answers = (self.script)(call);
        Box::pin(async move {
            let answers = answers.await;
            self.is_usable = answers.is_ok();
            answers
        })
    }
}

impl Guest for FakeGuest {
    fn is_usable(&self) -> bool {
        self.is_usable
    }

    fn is_worn_out(&self) -> bool {
        self.is_worn_out
    }

    fn memory(&self) -> usize {
        1 << 20
    }

    fn describe<'a>(&'a mut self, _: &'a [u8]) -> BoxFuture<'a, Described> {
        let described = self.described.clone();
        Box::pin(async move { described })
    }

    fn reconcile<'a>(
        &'a mut self,
        request: &'a Request<'a>,
        _: CallStart,
    ) -> BoxFuture<'a, Result<Answer, Fault>> {
        let answers = self.call("reconcile", std::slice::from_ref(request));
        Box::pin(async move { Ok(answers.await?.remove(0)) })
    }

    fn reconcile_many<'a>(&'a mut self, requests: &'a [Request<'a>], _: CallStart) -> BoxFuture<'a, Answers> {
        self.call("reconcile-many", requests)
    }

    fn handle<'a>(
        &'a mut self,
        watch: &'a str,
        events: &'a [Event<'a>],
        _: CallStart,
    ) -> BoxFuture<'a, Result<Vec<Result<(), Failure>>, Fault>> {
        let keys: Vec<_> = events.iter().map(request).collect();
        let answers = self.call_of(watch, "on-events", &keys);
        Box::pin(async move { Ok(answers.await?.into_iter().map(|answer| answer.map(drop)).collect()) })
    }

    fn synced<'a>(&'a mut self, watch: &'a str, _: CallStart) -> BoxFuture<'a, Result<(), Fault>> {
        let answers = self.call_of(watch, "on-synced", &[]);
        Box::pin(async move { answers.await.map(drop) })
    }
}

/// An event as a call shows it: what happened stands for the reason.
fn request<'a>(event: &'a Event<'_>) -> Request<'a> {
    let bits = match event {
        Event::Added { .. } => 1,
        Event::Updated { .. } => 2,
        Event::Deleted { .. } => 4,
    };
    Request { key: event.key(), attempt: 0, reasons: ReasonSet::of_bits(bits), priority: 0 }
}
