//! [`World`]: the world that a component targets.

/// The world that a component targets, derived from its exports before any of its code runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// `descriptor` and `reconcile`.
    Reconciler,
    /// `descriptor` and `reconcile-many`.
    BatchReconciler,
    /// `descriptor` and `handler`.
    EventHandler,
    /// `descriptor`, `handler` and `reconcile`.
    Controller,
}

impl World {
    /// Whether the component reconciles keys.
    #[must_use]
    pub fn reconciles(self) -> bool {
        self != Self::EventHandler
    }

    /// Whether the component handles events.
    #[must_use]
    pub fn handles(self) -> bool {
        matches!(self, Self::EventHandler | Self::Controller)
    }

    /// Whether the component reconciles many keys per call.
    #[must_use]
    pub fn batches(self) -> bool {
        self == Self::BatchReconciler
    }
}
