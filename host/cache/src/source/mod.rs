//! Where a reflector gets its lists and watches: an API server, or the informer of a wider scope.
//!
//! | file | holds |
//! |---|---|
//! | `lister_watcher` | the interface of a reflector's source |
//! | `client_lister_watcher` | the API server behind it |
//! | `filtered_lister_watcher` | another source, filtered |
//! | `informer_source` | the source of an informer of the factory: the server, or a wider informer of the same kind |
//! | `feed`, `tap` | how a narrow informer follows a wider one |

pub(crate) mod client_lister_watcher;
pub(crate) mod feed;
pub(crate) mod filtered_lister_watcher;
pub(crate) mod informer_source;
pub(crate) mod lister_watcher;
pub(crate) mod tap;
