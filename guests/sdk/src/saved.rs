//! [`State`]: what a new generation of a plugin takes over from the old one.

/// What a new generation of the plugin takes over from the old one, at a reload. Optional: implement it, and write
/// `#[pilothouse_sdk::reconciler(state)]`, or `(state)` at another world's attribute.
///
/// For plugins with one reconcile at a time only. What is saved may be lost, so it is a cache and never the truth.
///
/// ```
/// use pilothouse_sdk::prelude::*;
///
/// struct Counting {
///     calls: u64,
/// }
///
/// impl State for Counting {
///     fn save(&self) -> Option<Vec<u8>> {
///         Some(self.calls.to_le_bytes().to_vec())
///     }
///
///     fn restore(&mut self, saved: &[u8]) -> Result<(), String> {
///         self.calls = u64::from_le_bytes(saved.try_into().map_err(|_| "not eight bytes")?);
///         Ok(())
///     }
/// }
///
/// #[pilothouse_sdk::reconciler(state)]
/// impl Reconciler for Counting {
///     fn describe(_config: &Config) -> Result<Descriptor, String> {
///         Ok(Descriptor::new("counting").watch(Watch::new(Kind::core("v1", "Node"))))
///     }
///
///     fn new(_config: &Config) -> Result<Self, String> {
///         Ok(Self { calls: 0 })
///     }
///
///     fn reconcile(&mut self, _ctx: &Context, _request: &Request) -> Result<Outcome, Failure> {
///         self.calls += 1;
///         Ok(Outcome::Done)
///     }
/// }
/// # fn main() {}
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no state to hand over",
    note = "implement `State` for it, or leave `state` out of the attribute"
)]
pub trait State {
    /// Called after the last call of the old generation. More than 1 MiB is dropped with a warning.
    fn save(&self) -> Option<Vec<u8>>;

    /// Called before the first call of the new generation, right after `new`, if something was saved.
    ///
    /// # Errors
    /// An error is logged, and the plugin starts without what was saved: as `new` made it.
    fn restore(&mut self, saved: &[u8]) -> Result<(), String>;
}
