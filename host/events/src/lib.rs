//! Kubernetes Events as client-go's `tools/record` and `tools/events` record them. Recorders never wait, and the API server is never
//! flooded.
//!
//! ```text
//!   EventRecorder ──► EventBroadcaster ──┬─► EventCorrelator ──► CoreV1Sink     counts in `count`
//!                      (bounded queues)  ├─► series ───────────► EventsV1Sink   counts in `series`
//!                                        └─► logs, watchers
//! ```
//!
//! Deliberate differences:
//! - keys are made of parts and not of texts put together, so different events never share one;
//! - series have the bounds and the spam filter that client-go has for core/v1 only;
//! - an event that was never written is created and not patched, whatever its count;
//! - `Retry-After` is honoured, and a create whose answer was lost is not done twice;
//! - a shutdown writes recorded events, within a deadline;
//! - texts are cut to the limits of events.k8s.io/v1, and every event that is not written is counted.
//!
//! # Example
//! ```no_run
//! use std::time::Duration;
//!
//! use pilothouse_client::{Client, ClientOptions};
//! use pilothouse_events::{BroadcasterOptions, EventBroadcaster, EventSource, EventType, ObjectReference};
//! use pilothouse_object::Gvk;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new(ClientOptions::default()).await?;
//! let broadcaster = EventBroadcaster::new(BroadcasterOptions::default());
//! broadcaster.start_recording(&client).await?;
//! let recorder = broadcaster.new_recorder(EventSource::reporting("example.com/operator", "node-1"));
//! let pod = ObjectReference::of_key(&Gvk::new("", "v1", "Pod"), &"default/web".parse()?);
//! recorder.eventf(pod, EventType::Normal, "Pulled", format_args!("pulled {}", "nginx"));
//! broadcaster.shutdown(Duration::from_secs(5)).await;
//! # Ok(())
//! # }
//! ```

mod aggregator;
mod broadcast;
mod broadcaster;
mod client_sinks;
mod clock;
mod correlator;
mod delivery;
mod event;
mod keys;
mod limits;
mod local_sinks;
mod log_gate;
mod logger;
mod lru;
mod metrics;
mod options;
mod recorder;
mod recording;
mod reference;
mod series_cache;
mod series_recording;
mod sink;
mod spam_filter;
mod wire;

pub use broadcast::{BroadcastWatcher, Broadcaster, BroadcasterShutDown, FullChannelBehavior};
pub use broadcaster::{BroadcasterOptions, EventBroadcaster, EventWatch, StartError};
pub use client_sinks::{CoreV1Sink, EventsV1Sink};
pub use clock::Clock;
pub use correlator::{Correlated, Correlation, EventCorrelator};
pub use delivery::MAX_TRIES_PER_EVENT;
pub use event::{Event, EventBody, EventSeries, EventSource, EventType, UnsupportedEventType};
pub use keys::KeyBuilder;
pub use limits::{FIELD_LIMIT, MESSAGE_LIMIT};
pub use local_sinks::{FnSink, MemorySink, Write};
pub use metrics::{RecorderCounts, RecorderMetrics, SinkCounts, SinkMetrics};
pub use options::{CorrelatorOptions, KeyFunc, MessageFunc, SpamKeyFunc};
pub use recorder::{EventDetails, EventRecorder};
pub use reference::{ObjectReference, Regarding};
pub use sink::{EventSink, Recorded, SinkError};
