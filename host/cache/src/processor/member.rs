//! [`Member`]: a listener that has joined, its resyncs, and what it gets before it gets changes as they come.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::change::Change;
use crate::listener::Listener;
use crate::snapshot::Cursor;

/// Asked-for resync periods below this are raised to it.
const MIN_RESYNC: Duration = Duration::from_secs(1);

/// A listener that is to be added.
pub(crate) struct NewMember {
    pub(crate) id: u64,
    pub(crate) listener: Arc<dyn Listener>,
    /// How often it wants resyncs; `None` and zero for never.
    pub(crate) resync: Option<Duration>,
    /// Turns true when it has got all initial objects.
    pub(crate) delivered: watch::Sender<bool>,
}

pub(super) struct Member {
    pub(super) id: u64,
    /// How many listeners had joined before.
    pub(super) joined_after: u64,
    /// The group of listeners with an equal interest.
    pub(super) group: u64,
    pub(super) listener: Arc<dyn Listener>,
    pub(super) resync: Option<Resync>,
    pub(super) delivered: watch::Sender<bool>,
    /// What the listener gets before it gets changes as they come.
    pub(super) replay: Option<Replay>,
}

/// The initial objects of a listener that joined late, and the changes since.
pub(super) struct Replay {
    pub(super) objects: Cursor,
    pub(super) backlog: VecDeque<Change>,
}

pub(super) struct Resync {
    pub(super) period: Duration,
    pub(super) next: Instant,
    /// The period is over; the next resync that is handled is for this listener as well.
    pub(super) due: bool,
}

impl Resync {
    /// None for a listener that wants none.
    pub(super) fn every(period: Option<Duration>) -> Option<Self> {
        let period = period.filter(|period| !period.is_zero())?.max(MIN_RESYNC);
        // A period beyond the reach of the clock means never.
        let next = Instant::now().checked_add(period)?;
        Some(Self { period, next, due: false })
    }
}

impl Member {
    /// Tells the listener that it has got all initial objects; whether it panicked.
    pub(super) fn end_initial_list(&self) -> bool {
        let panicked = catch_unwind(AssertUnwindSafe(|| self.listener.on_initial_list_end())).is_err();
        self.delivered.send_replace(true);
        panicked
    }
}
