//! CPU time of plugins: that of their guests, and that of the host for them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_executor::Group;
use prometheus_client::registry::Registry;

use super::labels::RunLabels;
use super::scraped::{Figure, Scraped, Value};

/// Time that the host worked for one plugin, in nanoseconds; a cheap clone. It is elapsed time of short steps, since reading
/// the clock of a thread costs more than most of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostTime(Arc<HostTimeCounters>);

#[derive(Debug, Default)]
struct HostTimeCounters {
    /// In imports: on the guest threads, where the group of the plugin is charged for it.
    imports: AtomicU64,
    /// On other threads: filters, mappings and index values of changes, outgoing HTTP.
    elsewhere: AtomicU64,
}

impl HostTime {
    /// Imports worked for so long.
    pub(crate) fn add_imports(&self, time: Duration) {
        self.0.imports.fetch_add(nanos(time), Relaxed);
    }

    /// Another thread than those of guests worked for so long.
    pub(crate) fn add_elsewhere(&self, time: Duration) {
        self.0.elsewhere.fetch_add(nanos(time), Relaxed);
    }

    /// How long other threads than those of guests worked.
    pub(crate) fn elsewhere(&self) -> Duration {
        Duration::from_nanos(self.0.elsewhere.load(Relaxed))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The account of one plugin.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    /// Its share of the guest threads.
    pub(crate) group: Group,
    pub(crate) host: HostTime,
    /// The most that was shown as time of the guest: an import is known at the end of its call, and what is shown must not
    /// become less then.
    pub(crate) shown: Arc<AtomicU64>,
}

/// The accounts by their plugins.
pub(crate) type Accounts = Arc<Mutex<BTreeMap<String, Account>>>;

static FIGURES: [Figure<Duration>; 1] = [Figure {
    name: "pilothouse_plugin_cpu_seconds",
    help: "CPU time of a plugin: part guest is its calls, part host what the host does for them and for its watches",
    value: Value::Seconds(Duration::as_secs_f64),
}];

/// CPU time of all plugins.
pub(crate) fn register(registry: &mut Registry, accounts: &Accounts) {
    let accounts = Arc::clone(accounts);
    registry.register_collector(Scraped::new(&FIGURES, move || {
        let parts = |(name, account): (&String, &Account)| {
            let imports = Duration::from_nanos(account.host.0.imports.load(Relaxed));
            let elsewhere = account.host.elsewhere();
            let guest = nanos(account.group.cpu_time().saturating_sub(imports));
            let guest = Duration::from_nanos(account.shown.fetch_max(guest, Relaxed).max(guest));
            [("guest", guest), ("host", imports + elsewhere)]
                .map(|(part, time)| ((RunLabels::new("plugin", name.as_str()), [("part", part)]), time))
        };
        accounts.lock().iter().flat_map(parts).collect()
    }));
}
