//! [`LeaderCallbacks`]: what the user of an elector wants to be told.

use crate::leadership::Leadership;

/// What the user of an elector wants to be told, as client-go's struct of that name.
pub struct LeaderCallbacks<W> {
    pub(crate) on_started_leading: W,
    pub(crate) on_stopped_leading: Box<dyn FnOnce() + Send>,
    pub(crate) on_new_leader: Box<dyn Fn(&str) + Send>,
}

impl<W> LeaderCallbacks<W> {
    /// `on_started_leading` is run in a task of its own when this candidate leads. It must end when
    /// [`Leadership::cancelled`] completes; until it has, the lease is renewed and not released.
    #[must_use]
    pub fn new<F>(on_started_leading: W) -> Self
    where
        W: FnOnce(Leadership) -> F + Send,
        F: Future<Output = ()> + Send + 'static,
    {
        Self { on_started_leading, on_stopped_leading: Box::new(|| {}), on_new_leader: Box::new(|_| {}) }
    }

    /// Called once when the election ends, in whatever way, also when this candidate never led.
    #[must_use]
    pub fn on_stopped_leading(mut self, call: impl FnOnce() + Send + 'static) -> Self {
        self.on_stopped_leading = Box::new(call);
        self
    }

    /// Called with the identity of each new leader, once for each change, in a task of its own: it holds up nothing.
    #[must_use]
    pub fn on_new_leader(mut self, call: impl Fn(&str) + Send + 'static) -> Self {
        self.on_new_leader = Box::new(call);
        self
    }
}

impl<W> std::fmt::Debug for LeaderCallbacks<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LeaderCallbacks")
    }
}
