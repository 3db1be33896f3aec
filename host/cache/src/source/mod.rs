//! Where a reflector gets its lists and watches: an API server, or another source.
//!
//! | file | holds |
//! |---|---|
//! | `lister_watcher` | the interface of a reflector's source |
//! | `client_lister_watcher` | the API server behind it |
//! | `projected_source` | the source of an informer of the factory: the server's objects, cut to some fields |

pub(crate) mod client_lister_watcher;
pub(crate) mod lister_watcher;
pub(crate) mod projected_source;
