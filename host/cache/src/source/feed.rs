//! [`Feed`]: one watch of an [`InformerSource`], which may begin as a watch of the server and go on as a tap on an
//! informer of all namespaces.
//!
//! The invariants are those of the source; here is where they are kept: see [`Feed::switch`].

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use pilothouse_client::{Error, Result, Status, WatchEvent, WatchParams};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::source::informer_source::{InformerSource, Wanted, Wide};
use crate::source::lister_watcher::EventStream;
use crate::source::tap::{Tap, version_of};
use crate::version::{compare_resource_versions, is_older};

/// How long the own watch is kept for lack of a bookmark: servers send one each minute. Then the informer lists from the
/// wide one instead, which shows the outcome but not each step to it.
const JOIN_PATIENCE: Duration = Duration::from_secs(150);

/// One watch, wherever its events come from.
pub(crate) struct Feed {
    source: Arc<InformerSource>,
    origin: Origin,
    queue: VecDeque<WatchEvent>,
    /// Everything up to it has been told, once the initial events of a streaming list are over.
    version: Arc<str>,
    /// Of the projection that what is followed was listed with.
    pub(crate) generation: u64,
    stage: Stage,
    ends: Option<Instant>,
    wide: watch::Receiver<Option<Wide>>,
    wanted: watch::Receiver<Wanted>,
}

/// Where events come from now.
enum Origin {
    Over,
    Server {
        stream: EventStream,
        joining: Option<Joining>,
    },
    /// Of what the tap tells, what is not newer than `after` is known.
    Wide {
        tap: Tap,
        after: Arc<str>,
    },
}

/// The wide informer has been joined; the own watch goes on until it has shown what that had by then.
struct Joining {
    tap: Tap,
    until: Instant,
}

/// How far a streaming list has come.
#[derive(PartialEq, Eq)]
enum Stage {
    InitialEvents,
    /// Its end has been told; the reflector takes the list over before it asks on.
    Ended,
    Following,
}

/// What ended a wait.
enum Woken {
    Event(Option<Result<WatchEvent>>),
    Joinable(Wide),
    /// Something else changed: look at it.
    Changed,
    /// The wide informer has listed, or is another one.
    Unjoined,
    Late,
}

/// What was in the tap.
enum Drained {
    Some,
    Nothing,
    /// Events are missing.
    Void,
    /// It is not the tap to follow any more: its informer ends.
    Unfollowed,
}

impl Feed {
    pub(crate) fn new(source: Arc<InformerSource>, params: &WatchParams, generation: u64) -> Self {
        let (wide, wanted) = (source.wide.subscribe(), source.wanted.subscribe());
        let stage = if params.send_initial_events { Stage::InitialEvents } else { Stage::Following };
        let timeout = params.timeout_seconds.map(|seconds| Duration::from_secs(seconds.into()));
        Self {
            source,
            origin: Origin::Over,
            queue: VecDeque::new(),
            version: params.resource_version.as_deref().unwrap_or_default().into(),
            generation,
            stage,
            ends: timeout.map(|timeout| Instant::now() + timeout),
            wide,
            wanted,
        }
    }

    /// Follows the server.
    pub(crate) fn read(&mut self, stream: EventStream) {
        self.origin = Origin::Server { stream, joining: None };
    }

    /// Follows a tap whose events up to the feed's version are known.
    pub(crate) fn go_on_with(&mut self, tap: Tap) {
        self.origin = Origin::Wide { tap, after: self.version.clone() };
    }

    /// Begins with what a tap has, as a streaming list.
    pub(crate) fn begin_with(&mut self, tap: Tap) {
        self.queue.extend(tap.initial().into_iter().map(WatchEvent::Added));
        let end =
            WatchEvent::Bookmark { resource_version: tap.version.to_string(), initial_events_end: true };
        self.queue.push_back(end);
        self.origin = Origin::Wide { after: tap.version.clone(), tap };
    }

    pub(crate) fn stream(self) -> EventStream {
        unfold(self, async |mut feed| feed.next().await.map(|event| (event, feed))).boxed()
    }

    async fn next(&mut self) -> Option<Result<WatchEvent>> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Some(Ok(self.tell(event)));
            }
            if self.stage == Stage::Ended {
                self.stage = Stage::Following;
                self.source.listed.send_replace(self.generation);
            }
            if self.wanted.borrow_and_update().generation != self.generation {
                return self.expire();
            }
            let woken = match &mut self.origin {
                Origin::Over => return None,
                Origin::Server { .. } => self.wait_for_server().await,
                Origin::Wide { .. } => match self.drain() {
                    Drained::Some => continue,
                    Drained::Nothing => self.wait_for_wide().await,
                    Drained::Void => return self.expire(),
                    Drained::Unfollowed => match self.back_to_server().await {
                        Ok(stream) => {
                            self.read(stream);
                            continue;
                        }
                        Err(error) => {
                            self.origin = Origin::Over;
                            return Some(Err(error));
                        }
                    },
                },
            };
            match woken {
                Woken::Changed => {}
                Woken::Joinable(wide) => self.join(&wide),
                Woken::Unjoined => self.unjoin(),
                Woken::Late => return self.late(),
                Woken::Event(Some(Ok(event))) => {
                    let event = self.source.cut_event(event);
                    let event = self.tell(event);
                    self.switch();
                    return Some(Ok(event));
                }
                Woken::Event(end) => {
                    self.origin = Origin::Over;
                    return end;
                }
            }
        }
    }

    /// Notes what an event says about the versions.
    fn tell(&mut self, event: WatchEvent) -> WatchEvent {
        let ends = matches!(event, WatchEvent::Bookmark { initial_events_end: true, .. });
        if ends && self.stage == Stage::InitialEvents {
            self.stage = Stage::Ended;
        }
        let version = version_of(&event);
        // Initial events come in no order of versions.
        if self.stage != Stage::InitialEvents && !version.is_empty() && !is_older(version, &self.version) {
            self.version = version.into();
        }
        event
    }

    async fn wait_for_server(&mut self) -> Woken {
        // Without an order of versions nobody could say where one watch ends and the other begins.
        let ordered = !matches!(&*self.version, "" | "0")
            && compare_resource_versions(&self.version, &self.version).is_some();
        let may_join = self.stage == Stage::Following && ordered && self.source.namespace.is_some();
        let Self { origin: Origin::Server { stream, joining }, wide, wanted, .. } = self else {
            return Woken::Changed;
        };
        match joining {
            None => tokio::select! {
                biased;
                _ = wanted.changed() => Woken::Changed,
                wide = joinable(wide), if may_join => Woken::Joinable(wide),
                event = stream.next() => Woken::Event(event),
            },
            Some(joining) => tokio::select! {
                biased;
                _ = wanted.changed() => Woken::Changed,
                _ = wide.changed() => Woken::Unjoined,
                () = joining.tap.voided() => Woken::Unjoined,
                () = sleep_until(joining.until) => Woken::Late,
                event = stream.next() => Woken::Event(event),
            },
        }
    }

    fn join(&mut self, wide: &Wide) {
        let Some(namespace) = self.source.namespace.clone() else { return };
        // An error says that it has ended: it is not joinable any more.
        if let (Ok(tap), Origin::Server { joining, .. }) =
            (Tap::join(&wide.of.informer, &namespace), &mut self.origin)
        {
            *joining = Some(Joining { tap, until: Instant::now() + JOIN_PATIENCE });
            self.switch();
        }
    }

    fn unjoin(&mut self) {
        if let Origin::Server { joining, .. } = &mut self.origin {
            *joining = None;
        }
        // To be looked at again.
        self.wide.mark_changed();
    }

    /// Leaves the own watch when it has shown everything that the wide informer had when it was joined: what is newer is
    /// still to come from the tap, what is not has been told.
    fn switch(&mut self) {
        let reached = |joining: &Joining| {
            let order = compare_resource_versions(&self.version, &joining.tap.horizon);
            matches!(order, Some(Ordering::Equal | Ordering::Greater))
        };
        match std::mem::replace(&mut self.origin, Origin::Over) {
            Origin::Server { joining: Some(joining), .. } if reached(&joining) => {
                tracing::debug!(resource = %self.source.resource.gvr(), namespace = self.source.namespace,
                    version = %self.version, "following the informer of all namespaces");
                self.origin = Origin::Wide { tap: joining.tap, after: self.version.clone() };
            }
            other => self.origin = other,
        }
    }

    /// The server has everything behind the last version told.
    async fn back_to_server(&mut self) -> Result<EventStream> {
        let left = self.ends.map(|ends| ends.saturating_duration_since(Instant::now()).as_secs().max(1));
        let params = WatchParams {
            resource_version: Some(self.version.to_string()),
            timeout_seconds: left.map(|seconds| u32::try_from(seconds).unwrap_or(u32::MAX)),
            ..WatchParams::default()
        };
        self.source.watch_server(params).await
    }

    /// Takes what the tap has.
    fn drain(&mut self) -> Drained {
        let Self { origin: Origin::Wide { tap, after }, wide, queue, version, .. } = self else {
            return Drained::Nothing;
        };
        if !wide.borrow().as_ref().is_some_and(|wide| tap.is_on(&wide.of.informer)) {
            return Drained::Unfollowed;
        }
        let Some((events, complete)) = tap.drain() else { return Drained::Void };
        let news = |event: &WatchEvent| {
            compare_resource_versions(version_of(event), after) == Some(Ordering::Greater)
        };
        queue.extend(events.into_iter().filter(news));
        if is_older(version, &complete) {
            let resource_version = complete.to_string();
            queue.push_back(WatchEvent::Bookmark { resource_version, initial_events_end: false });
        }
        if queue.is_empty() { Drained::Nothing } else { Drained::Some }
    }

    async fn wait_for_wide(&mut self) -> Woken {
        let Self { origin: Origin::Wide { tap, .. }, wide, wanted, ends, .. } = self else {
            return Woken::Changed;
        };
        let end = async {
            match ends {
                Some(at) => sleep_until(*at).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = wanted.changed() => Woken::Changed,
            _ = wide.changed() => Woken::Changed,
            () = tap.changed() => Woken::Changed,
            () = end => Woken::Late,
        }
    }

    /// A join took too long, or the watch was as long as asked for: the next one goes on with the tap.
    fn late(&mut self) -> Option<Result<WatchEvent>> {
        match std::mem::replace(&mut self.origin, Origin::Over) {
            Origin::Wide { tap, .. } => {
                self.source.park(tap, self.version.clone());
                None
            }
            _ => self.expire(),
        }
    }

    /// Has the reflector list.
    fn expire(&mut self) -> Option<Result<WatchEvent>> {
        self.origin = Origin::Over;
        Some(Err(Error::Api(Box::new(Status {
            code: 410,
            reason: "Expired".to_owned(),
            message: "the objects are to be listed again".to_owned(),
            ..Status::default()
        }))))
    }
}

/// Waits for a wide informer that has synced.
async fn joinable(wide: &mut watch::Receiver<Option<Wide>>) -> Wide {
    loop {
        let held = wide.borrow_and_update().clone();
        let complete = async {
            match held {
                Some(held)
                    if held.of.wait_complete(held.generation).await && !held.of.informer.is_stopped() =>
                {
                    held
                }
                _ => pending().await,
            }
        };
        tokio::select! {
            biased;
            // It cannot fail: the sender lives in the source, which the feed holds.
            _ = wide.changed() => {}
            held = complete => return held,
        }
    }
}
