//! What queries, options and events have in common: setters, which cannot fail, put them together, and what was wrong is said
//! when they are used.

use wasmtime::component::Resource;

use super::{Refused, cut};
use crate::handles::{Handled, Handles};
use crate::host::Refusal;
use crate::state::StoreState;

/// Maximum length in bytes of the message of a refusal.
pub(super) const MAX_MESSAGE: usize = 4 << 10;

/// Something that is put together. Its texts count as bytes behind its handle.
pub(super) trait Builder: Handled {
    /// Bytes of its texts.
    fn held(&self) -> usize;

    /// Drops its texts.
    fn clear(&mut self);

    /// Why it cannot be used.
    fn refusal(&mut self) -> &mut Option<Refusal>;
}

impl StoreState {
    /// Sets something of a builder. When that is refused, the builder cannot be used any more and holds nothing.
    pub(super) fn build<B: Builder>(
        &mut self,
        this: &Resource<B>,
        set: impl FnOnce(&mut B) -> Result<(), Refusal>,
    ) -> wasmtime::Result<()> {
        let builder = self.handles.get(this)?;
        if builder.refusal().is_some() {
            return Ok(());
        }
        let is_set = set(builder);
        let held = builder.held();
        if let Err(mut why) = is_set.and_then(|()| Ok(self.handles.hold(this, held)?)) {
            why.message = cut(why.message, MAX_MESSAGE);
            let builder = self.handles.get(this)?;
            *builder.refusal() = Some(why);
            builder.clear();
            self.handles.release(this);
        }
        Ok(())
    }
}

/// A builder that nothing is wrong with.
pub(super) fn built<'a, B: Builder>(
    handles: &'a mut Handles,
    this: &Resource<B>,
) -> Result<&'a mut B, Refused> {
    let builder = handles.get(this)?;
    match builder.refusal() {
        Some(refusal) => Err(refusal.clone().into()),
        None => Ok(builder),
    }
}

/// Takes a text over.
///
/// # Errors
/// When it is too long.
pub(super) fn set_text<T: From<String>>(
    slot: &mut T,
    what: &str,
    text: String,
    most: usize,
) -> Result<(), Refusal> {
    super::check_text(what, &text, most)?;
    *slot = text.into();
    Ok(())
}

/// Bytes of optional texts.
pub(super) fn bytes_of<const N: usize>(texts: [&Option<String>; N]) -> usize {
    texts.into_iter().flatten().map(String::len).sum()
}
