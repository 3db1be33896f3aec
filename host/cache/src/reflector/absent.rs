//! [`Absence`]: a kind that the server does not serve, not yet or no longer.
//!
//! It is waited for without noise, and asked for often enough that it starts soon after it appears. When a kind goes that
//! was served (its definition was deleted), its objects are gone as well, but one answer is not believed: a proxy, or a
//! server that has just begun, says 404 too. So the store is emptied when lists have said so for [`BELIEVED`].
//! (client-go keeps the last objects.)

use std::time::Duration;

use tokio::time::Instant;

use super::{Reflector, Stop};

/// Longest pause between two tries for a kind that is not served, as controller-runtime's.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How long a kind must have been away before its objects go.
const BELIEVED: Duration = Duration::from_secs(30);

/// Since when a kind is not served, and whether its objects have gone.
#[derive(Debug)]
pub(super) struct Absence {
    since: Instant,
    emptied: bool,
}

impl Reflector {
    /// The kind is not served: how long to wait, given what the backoff says.
    pub(super) async fn not_served(&mut self, wait: Duration) -> Result<Duration, Stop> {
        let absence = self.absence.get_or_insert_with(|| Absence { since: Instant::now(), emptied: false });
        if !absence.emptied && absence.since.elapsed() >= BELIEVED {
            absence.emptied = true;
            // Nothing was ever listed: listeners still wait for the kind, not for an empty list.
            if !self.version.is_empty() {
                tracing::info!(event = "kind_removed", cluster = self.shared.cluster(), resource = %self.resource,
                    "the kind is served no longer: its objects are gone");
                self.fifo.replace(Vec::new(), self.version.clone()).await?;
            }
        }
        // Reflectors of one group wait for the same moment; they need not ask in it together.
        Ok(wait.min(LONGEST_PAUSE.mul_f64(1.0 - 0.2 * rand::random::<f64>())))
    }
}
