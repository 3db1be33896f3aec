//! Leader election on `coordination.k8s.io/v1` Leases: of several candidates one works, and the others take over. And shards:
//! all hosts work, each on some of the plugins ([`Shards`]).
//!
//! The algorithm is that of client-go's `tools/leaderelection`, so that both can compete for one Lease. What is
//! different on purpose:
//! - a term ends, by local time and without anything having to run, no later than the renew deadline after the last
//!   good renewal was *sent* ([`Leadership::is_leading`]); client-go counts from the next round on;
//! - a leader that finds another holder in the Lease, or none, has lost at once; client-go goes on trying, and may lead
//!   again without having told anybody;
//! - a Lease is released after the work has ended, and only if the Lease itself, read again, still names the one that
//!   releases;
//! - each renewal writes another time than the one before, also by a clock that stands still: others would not see it;
//! - candidates watch the Lease, so one that is released or runs out changes hands at once and not at the next try;
//!   client-go's tries are up to 2.2 retry periods apart;
//! - a term has a [`FencingToken`] that other systems can tell an old leader by.
//!
//! Only the own monotonic clock counts, with the time for which the machine was suspended: the times in a Lease are for
//! people, and clocks of different machines need not agree. They must run at about the same rate.
//!
//! ```text
//!   Lock ◄── LeaseLock     the record on the server: get, create, update from a version
//!     ▲
//!   LeaderElector ──► Candidate      rules: acquire, renew, release; what was seen when
//!     │   └──► Leadership, FencingToken   given to the work while a term lasts
//!     └──► ElectionStatus ──► figures, health     for everybody else
//! ```
//!
//! # Example
//! ```no_run
//! use pilothouse_client::{Client, ClientOptions};
//! use pilothouse_election::{Ended, LeaderCallbacks, LeaderElectionConfig, LeaderElector, LeaseLock, default_identity};
//! use tokio_util::sync::CancellationToken;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new(ClientOptions::default()).await?;
//! let lock = LeaseLock::new(client, "default", "my-controller")?;
//! let mut elector = LeaderElector::new(lock, LeaderElectionConfig::new(default_identity()))?;
//! let stop = CancellationToken::new();
//! let callbacks = LeaderCallbacks::new(|leadership| async move {
//!     while leadership.is_leading() && !leadership.is_cancelled() {
//!         // One piece of work; what it writes elsewhere carries `leadership.token()`.
//! #       break;
//!     }
//! });
//! let callbacks = callbacks.on_new_leader(|identity| println!("{identity} leads"));
//! match elector.run(&stop, callbacks).await {
//!     Ended::Cancelled => println!("released"),
//!     Ended::Lost(why) => return Err(format!("leader election lost: {why}").into()),
//! }
//! # Ok(())
//! # }
//! ```

mod callbacks;
mod candidate;
mod clock;
mod config;
mod elector;
mod health;
mod identity;
mod leadership;
mod lease_lock;
mod lock;
mod record;
mod shards;
mod status;

pub use callbacks::LeaderCallbacks;
pub use config::{ConfigError, LeaderElectionConfig};
pub use elector::{Ended, LeaderElector};
pub use health::LeaderHealthzAdaptor;
pub use identity::{default_identity, hostname};
pub use leadership::{FencingToken, Leadership};
pub use lease_lock::LeaseLock;
pub use lock::{Lock, LockError, Stored};
pub use record::LeaderElectionRecord;
pub use shards::{ShardTerms, Shards, ShardsConfig, ShardsTask, shards_of_holder};
pub use status::{ElectionFigures, ElectionStatus};
