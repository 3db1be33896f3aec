//! What the ServiceAccount of a plugin may do, asked of the API server.
//!
//! The host reads and watches with its own identity, for all plugins together. For a plugin with a `serviceAccount` it asks
//! the API server whether that account may read the same, with a SubjectAccessReview, before anything is shown to the plugin
//! and again every minute. So the permissions of the manifest narrow what the account may do, and never widen it.
//!
//! | module | holds |
//! |---|---|
//! | `reviews` | the questions of all plugins, each asked once, and their last answers |
//! | `asker` | one question to the API server; also about users of the admin address |
//! | `rights` | the answers about one kind, for the objects of its informers |

mod asker;
mod reviews;
mod rights;

pub(crate) use self::asker::{AskServer, Asker, Decision, Identified};
pub(crate) use self::reviews::{AccessReviews, Answer, Question, Review};
pub(crate) use self::rights::{KindRights, Rights, ScopeRight};
