//! [`CorrelatorOptions`]: the rules of the correlator, with client-go's names and defaults.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::event::Event;
use crate::keys::KeyBuilder;

/// Adds the parts of an event's aggregation key to the first builder, and to the second those that tell events of one such key apart.
pub type KeyFunc = Arc<dyn Fn(&Event, &mut KeyBuilder<'_>, &mut KeyBuilder<'_>) + Send + Sync>;
/// The message of the combined event, made from the newest event.
pub type MessageFunc = Arc<dyn Fn(&Event) -> String + Send + Sync>;
/// Adds the parts of the key that an event's token bucket is found by.
pub type SpamKeyFunc = Arc<dyn Fn(&Event, &mut KeyBuilder<'_>) + Send + Sync>;

/// Rules of an [`EventCorrelator`](crate::EventCorrelator). The defaults are client-go's.
#[derive(Clone)]
pub struct CorrelatorOptions {
    /// Entries in each of the three caches, at least one.
    pub lru_cache_size: usize,
    /// Events that a source may record about an object at once, at least one.
    pub burst_size: u32,
    /// Events a second that it may record in the long run; 0 or less means none.
    pub qps: f64,
    /// Which events are similar; `None`: those of one source, object, type, reason and reporting controller and instance, told
    /// apart by their messages.
    pub key_func: Option<KeyFunc>,
    /// The message of the combined event; `None`: `(combined from similar events): ` and the newest message.
    pub message_func: Option<MessageFunc>,
    /// How many different ones make them one event, at least one. Above 1024 events are never combined.
    pub max_events: usize,
    /// Seconds without a similar event after which they are counted anew.
    pub max_interval_in_seconds: u32,
    /// Where [`EventBroadcaster`](crate::EventBroadcaster) takes the time from that it hands to the correlator.
    pub clock: Clock,
    /// Which events share a token bucket; `None`: those of one source, object and type.
    pub spam_key_func: Option<SpamKeyFunc>,
}

impl CorrelatorOptions {
    /// How long a similar event counts.
    pub(crate) fn max_interval(&self) -> Duration {
        Duration::from_secs(self.max_interval_in_seconds.into())
    }
}

impl Default for CorrelatorOptions {
    fn default() -> Self {
        Self {
            lru_cache_size: 4096,
            burst_size: 25,
            // One in five minutes.
            qps: 1.0 / 300.0,
            key_func: None,
            message_func: None,
            max_events: 10,
            max_interval_in_seconds: 600,
            clock: Clock::default(),
            spam_key_func: None,
        }
    }
}

impl fmt::Debug for CorrelatorOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CorrelatorOptions")
            .field("lru_cache_size", &self.lru_cache_size)
            .field("burst_size", &self.burst_size)
            .field("qps", &self.qps)
            .field("key_func", &self.key_func.is_some())
            .field("message_func", &self.message_func.is_some())
            .field("max_events", &self.max_events)
            .field("max_interval_in_seconds", &self.max_interval_in_seconds)
            .field("spam_key_func", &self.spam_key_func.is_some())
            .finish_non_exhaustive()
    }
}
