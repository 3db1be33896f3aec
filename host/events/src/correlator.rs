//! [`EventCorrelator`]: combines, counts and filters repeated events, to spare the API server.
//!
//! ```text
//!   event ──► aggregate ──► observe ──► spam filter ──► Create, Patch or Skip
//!             many similar   counts      per source
//!             become one                 and object
//! ```
//!
//! Invariants:
//! - each event is counted, whether it is then skipped or not: the next that passes carries the whole count;
//! - an event is patched only if a sink has said that it was written ([`EventCorrelator::update_state`]);
//! - each of the three caches has at most [`CorrelatorOptions::lru_cache_size`] entries;
//! - no text is put together and nothing is written as JSON, unless a message is combined; each text is hashed once for either half of a key.

use std::sync::Arc;

use jiff::Timestamp;

use crate::aggregator::EventAggregator;
use crate::event::Event;
use crate::keys::{Key, Keyer};
use crate::limits::{MESSAGE_LIMIT, bounded};
use crate::logger::EventLogger;
use crate::options::CorrelatorOptions;
use crate::sink::Recorded;
use crate::spam_filter::EventSourceObjectSpamFilter;
use crate::wire;

/// Aggregates, counts and filters events; for one sink, and one thread at a time.
#[derive(Debug)]
pub struct EventCorrelator {
    options: CorrelatorOptions,
    keyer: Keyer,
    aggregator: EventAggregator,
    logger: EventLogger,
    spam_filter: EventSourceObjectSpamFilter,
}

/// The write that an event needs.
#[derive(Debug, Clone, PartialEq)]
pub enum Correlated {
    /// Nothing: its source has recorded too many about this object.
    Skip,
    /// It is to be created.
    Create(Correlation),
    /// The one of this name is to get this count, last timestamp and message; created if it is gone.
    Patch(Correlation),
}

/// An event as it is to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Correlation {
    /// The event, with its name and count.
    pub event: Event,
    /// Whether it combines several different events.
    pub aggregated: bool,
    key: Key,
}

impl Correlation {
    /// The strategic merge patch that brings the event of that name up to date in core/v1: count, last timestamp and message.
    ///
    /// # Errors
    /// When it cannot be written as JSON, which no event has been seen to bring about.
    pub fn patch(&self) -> serde_json::Result<Vec<u8>> {
        wire::count_patch(&self.event)
    }
}

struct Keys {
    aggregate: Key,
    local: Key,
    full: Key,
    spam: Key,
}

impl EventCorrelator {
    /// A correlator that has seen nothing yet.
    #[must_use]
    pub fn new(options: CorrelatorOptions) -> Self {
        let size = options.lru_cache_size;
        Self {
            keyer: Keyer::new(),
            aggregator: EventAggregator::new(size, options.max_events, options.max_interval()),
            logger: EventLogger::new(size),
            spam_filter: EventSourceObjectSpamFilter::new(size, options.burst_size, options.qps),
            options,
        }
    }

    /// The time by [`CorrelatorOptions::clock`].
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.options.clock.now()
    }

    /// Decides how to write an event that came now.
    #[must_use]
    pub fn correlate(&mut self, mut event: Event, now: Timestamp) -> Correlated {
        let nanoseconds = now.as_nanosecond();
        let keys = self.keys(&event);
        let aggregated = self.aggregator.is_aggregated(keys.aggregate, keys.local, nanoseconds);
        let key = if aggregated {
            self.combine(&mut event, now);
            keys.aggregate
        } else {
            keys.full
        };
        let written = self.logger.observe(key, &mut event);
        if self.spam_filter.filter(keys.spam, nanoseconds) {
            return Correlated::Skip;
        }
        let correlation = Correlation { event, aggregated, key };
        if written { Correlated::Patch(correlation) } else { Correlated::Create(correlation) }
    }

    /// Takes the event as a sink stored it: the next occurrence is counted from there.
    pub fn update_state(&mut self, correlation: &Correlation, recorded: Recorded) {
        self.logger.update_state(correlation.key, recorded);
    }

    /// Makes the event the combined one, under its own unique name.
    fn combine(&self, event: &mut Event, now: Timestamp) {
        event.message = match &self.options.message_func {
            Some(message) => bounded(format_args!("{}", message(event)), MESSAGE_LIMIT),
            None => bounded(format_args!("(combined from similar events): {}", event.message), MESSAGE_LIMIT),
        }
        .into();
        (event.count, event.first_timestamp, event.last_timestamp) = (1, now, now);
        if !event.body.annotations.is_empty() {
            // They were those of one occurrence.
            Arc::make_mut(&mut event.body).annotations.clear();
        }
    }

    fn keys(&self, event: &Event) -> Keys {
        let body = &*event.body;
        let object = self.keyer.source_and_object(event);
        let mut spam = object.clone();
        spam.part(body.event_type.as_str());
        let mut similar = spam.clone();
        similar.part(&body.reason).part(&body.source.component).part(&body.source.reporting_instance);
        let mut local = self.keyer.builder();
        local.part(&event.message);
        let local_by_message = local.finish();
        // The hash of the message replaces it.
        let mut full = similar.clone();
        full.part(&body.regarding.field_path).key(local_by_message);
        let (aggregate, local) = match &self.options.key_func {
            None => (similar.finish(), local_by_message),
            Some(parts) => {
                // Never the key of an event that stands for itself.
                let (mut aggregate, mut local) = (self.keyer.builder(), self.keyer.builder());
                aggregate.part("aggregate");
                parts(event, &mut aggregate, &mut local);
                (aggregate.finish(), local.finish())
            }
        };
        if let Some(parts) = &self.options.spam_key_func {
            spam = self.keyer.builder();
            parts(event, &mut spam);
        }
        Keys { aggregate, local, full: full.finish(), spam: spam.finish() }
    }
}
