//! From a change of an object to a call of the plugin: filters, key mapping, the leadership gate, workers, pumps of handlers.

pub(crate) mod backfill;
pub(crate) mod call_id;
pub(crate) mod charged;
pub(crate) mod guest;
pub(crate) mod instance_pool;
pub(crate) mod leadership_gate;
pub(crate) mod limiter;
pub(crate) mod mapper;
pub(crate) mod mapping;
pub(crate) mod pump;
pub(crate) mod reasons;
pub(crate) mod recording;
pub(crate) mod selection;
pub(crate) mod tombstones;
pub(crate) mod worker;
pub(crate) mod writes;
