//! [`Absence`]: a resource that the server answers 404 for: not served yet, no longer, or hidden by a proxy.
//!
//! The reflector tries it again without noise, and often enough that it starts soon after it appears. A 404 never removes
//! objects by itself: a proxy says it too, for as long as it is misconfigured. After [`BELIEVED`] the reflector asks
//! discovery, and removes the objects only when discovery has the resource no longer (its definition was deleted).
//! (client-go keeps the last objects in any case.)

use std::time::Duration;

use tokio::time::Instant;

use super::{Reflector, Stop, gated};

/// Longest pause between two tries for a kind that is not served, as controller-runtime's.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How long a kind must have been away before discovery is asked. A server that has just begun serves no definitions yet.
const BELIEVED: Duration = Duration::from_secs(30);

/// Since when the server answers 404.
#[derive(Debug)]
pub(super) struct Absence {
    since: Instant,
    /// The objects were removed.
    emptied: bool,
    /// It was logged that the objects stay.
    doubted: bool,
}

impl Reflector {
    /// The server answered 404: how long to wait, given what the backoff says.
    pub(super) async fn not_served(&mut self, wait: Duration) -> Result<Duration, Stop> {
        let absence = self.absence.get_or_insert_with(|| Absence {
            since: Instant::now(),
            emptied: false,
            doubted: false,
        });
        // Nothing was ever listed: listeners still wait for the kind, not for an empty list.
        let has_listed = !self.version.is_empty();
        if has_listed && !absence.emptied && absence.since.elapsed() >= BELIEVED {
            match gated(&self.options.availability, self.source.is_served()).await {
                Ok(false) => {
                    absence.emptied = true;
                    tracing::info!(event = "kind_removed", cluster = self.shared.cluster(), resource = %self.resource,
                        "discovery no longer has the kind: its objects are gone");
                    self.fifo.replace(Vec::new(), self.version.clone()).await?;
                }
                answer if !absence.doubted => {
                    absence.doubted = true;
                    let discovery = match answer {
                        Ok(_) => "discovery still has the kind".to_owned(),
                        Err(error) => format!("discovery cannot be read: {error}"),
                    };
                    tracing::warn!(event = "kind_unconfirmed", cluster = self.shared.cluster(), resource = %self.resource,
                        discovery, "lists are answered 404, but discovery does not confirm that the kind is gone: \
                        its last known objects stay; is a proxy before the API server misconfigured?");
                }
                _ => {}
            }
        }
        // Reflectors of one group wait for the same moment; they need not ask in it together.
        Ok(wait.min(LONGEST_PAUSE.mul_f64(1.0 - 0.2 * rand::random::<f64>())))
    }
}
