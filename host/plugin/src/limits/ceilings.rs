//! [`Ceilings`]: the widest values that manifests may set on this host.

use super::asked::AskedLimits;
use super::{BOUNDS, Bound, PluginLimits};
use crate::manifest::ManifestError;

/// The ceilings of a host, from its limits file. Without one, the ranges of the bounds are the ceilings. A clone copies
/// some hundred bytes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ceilings {
    /// By name of the bound.
    values: Vec<(&'static str, f64)>,
    /// Path of the limits file, for errors.
    file: String,
}

impl Ceilings {
    pub(super) fn new(asked: &AskedLimits, section: &str, file: &str) -> Result<Self, ManifestError> {
        let values = asked.check(section)?.into_iter().map(|(asked, value)| (asked.bound.name, value));
        Ok(Self { values: values.collect(), file: file.to_owned() })
    }

    /// The ceiling of a bound; `None` where the limits file names none.
    #[must_use]
    pub fn of(&self, bound: &Bound) -> Option<f64> {
        self.values.iter().find(|(name, _)| *name == bound.name).map(|(_, value)| *value)
    }

    /// The limits of a plugin whose manifest sets none: the defaults, narrowed to the ceilings.
    #[must_use]
    pub fn defaults(&self) -> PluginLimits {
        let mut limits = PluginLimits::default();
        for bound in &BOUNDS {
            if let Some(ceiling) = self.of(bound)
                && bound.get(&limits).is_none_or(|default| bound.is_wider(default, ceiling))
            {
                bound.set(&mut limits, ceiling);
            }
        }
        let call = &mut limits.engine;
        call.cpu_per_call = call.cpu_per_call.min(call.call_timeout);
        limits
    }

    /// The limits of a plugin with the values of its manifest.
    ///
    /// # Errors
    /// When a value is malformed, out of range, or wider than its ceiling.
    pub(crate) fn apply(&self, asked: &AskedLimits) -> Result<PluginLimits, ManifestError> {
        const SECTION: &str = "spec.limits";
        let mut limits = self.defaults();
        let values = asked.check(SECTION)?;
        for (asked, value) in &values {
            let bound = asked.bound;
            if let Some(ceiling) = self.of(bound).filter(|ceiling| bound.is_wider(*value, *ceiling)) {
                let ceiling = bound.unit.write(ceiling);
                let (side, most) = if bound.is_floor { ("below", "least") } else { ("above", "most") };
                let reason = format!(
                    "{} is {side} the ceiling of this host, {ceiling} (plugins.{} in {})",
                    asked.shown(),
                    bound.name,
                    self.file
                );
                let remedy = format!("write at {most} {ceiling}, or have the ceiling raised");
                return Err(asked.refused(SECTION, reason, remedy));
            }
            bound.set(&mut limits, *value);
        }
        let call = &mut limits.engine;
        if call.cpu_per_call > call.call_timeout {
            match values.iter().find(|(asked, _)| asked.bound.name == "cpuPerCall") {
                Some((asked, _)) => {
                    let reason = format!("{} is longer than callTimeout", asked.shown());
                    let remedy = "write at most callTimeout (10s when absent), or raise that";
                    return Err(asked.refused(SECTION, reason, remedy.to_owned()));
                }
                // The default gives way to a shorter `callTimeout`.
                None => call.cpu_per_call = call.call_timeout,
            }
        }
        Ok(limits)
    }
}
