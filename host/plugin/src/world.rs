//! [`World`]: what a component exports.

/// Which world a component targets, found from its type before any of its code runs.
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

    /// Whether it takes many keys at once.
    #[must_use]
    pub fn batches(self) -> bool {
        self == Self::BatchReconciler
    }
}
