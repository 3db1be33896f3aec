//! [`MemorySink`] and [`FnSink`]: sinks without an API server.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::event::Event;
use crate::sink::{EventSink, Recorded, SinkError};

/// One write to a sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// An event that was not there.
    Create(Event),
    /// An event that has changed, and how.
    Patch(Event, Vec<u8>),
}

impl Write {
    /// The event as it is now.
    #[must_use]
    pub fn event(&self) -> &Event {
        match self {
            Self::Create(event) | Self::Patch(event, _) => event,
        }
    }
}

/// Keeps the newest writes; for tests, and for a program that shows its own events.
#[derive(Debug)]
pub struct MemorySink {
    writes: Mutex<VecDeque<Write>>,
    capacity: usize,
}

impl MemorySink {
    /// A sink that forgets the oldest writes beyond this many.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { writes: Mutex::default(), capacity }
    }

    /// The writes, oldest first.
    #[must_use]
    pub fn writes(&self) -> Vec<Write> {
        self.writes.lock().iter().cloned().collect()
    }

    fn keep(&self, write: Write) -> Recorded {
        let recorded = Recorded::from(write.event());
        let mut writes = self.writes.lock();
        writes.push_back(write);
        while writes.len() > self.capacity {
            writes.pop_front();
        }
        recorded
    }
}

impl EventSink for MemorySink {
    async fn create(&self, event: &Event) -> Result<Recorded, SinkError> {
        Ok(self.keep(Write::Create(event.clone())))
    }

    async fn patch(&self, event: &Event, patch: &[u8]) -> Result<Recorded, SinkError> {
        Ok(self.keep(Write::Patch(event.clone(), patch.to_owned())))
    }
}

/// An async function as a sink. It gets each try of a write; its result is treated as an API server's answer.
#[derive(Debug, Clone)]
pub struct FnSink<F>(F);

impl<F, R> FnSink<F>
where
    F: Fn(Write) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), SinkError>> + Send,
{
    /// A sink that calls the function.
    pub fn new(write: F) -> Self {
        Self(write)
    }
}

impl<F, R> EventSink for FnSink<F>
where
    F: Fn(Write) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), SinkError>> + Send,
{
    async fn create(&self, event: &Event) -> Result<Recorded, SinkError> {
        (self.0)(Write::Create(event.clone())).await.map(|()| event.into())
    }

    async fn patch(&self, event: &Event, patch: &[u8]) -> Result<Recorded, SinkError> {
        (self.0)(Write::Patch(event.clone(), patch.to_owned())).await.map(|()| event.into())
    }
}
