//! What a component may call: the cache, live API calls, events, log; each checked against the grants.

pub(crate) mod api_calls;
pub(crate) mod guest_events;
pub(crate) mod http_client;
pub(crate) mod kind_views;
pub(crate) mod log_limit;
pub(crate) mod plugin_imports;
pub(crate) mod remote_clusters;
pub(crate) mod token_bucket;
pub(crate) mod visible_objects;
