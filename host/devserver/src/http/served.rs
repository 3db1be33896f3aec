//! [`Log`]: what was asked of the server and what it answered, to be read back by tests.

use std::collections::VecDeque;

use parking_lot::Mutex;
use serde::Serialize;

/// How many requests are kept.
const KEPT: usize = 10_000;
/// How many bytes of text they may have together: a path alone may have 64 KiB.
const KEPT_BYTES: usize = 16 << 20;

/// One request that was answered, or ended by a fault. A watch is noted when it begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Served {
    /// Counts up from 1 since the start.
    pub sequence: u64,
    /// When the request came, as RFC 3339.
    pub time: String,
    /// The API's verb, or the lower-case HTTP method where the path names no objects.
    pub verb: String,
    /// Path and parameters.
    pub uri: String,
    /// The group of the resource.
    pub group: String,
    /// The resource; empty where the path names none.
    pub resource: String,
    /// The subresource, or empty.
    pub subresource: String,
    /// The namespace, or empty.
    pub namespace: String,
    /// The object's name, or empty.
    pub name: String,
    /// Who asked: `system:admin`, whatever the token.
    pub user: String,
    /// As whom, if anybody was impersonated.
    pub impersonated: Option<String>,
    /// The groups that were impersonated.
    pub impersonated_groups: Vec<String>,
    /// `User-Agent`.
    pub user_agent: String,
    /// The status code; 0 when a fault left none.
    pub code: u16,
    /// The rules that hit, by number.
    pub faults: Vec<u64>,
}

impl Served {
    /// The bytes of text that came from the request.
    fn size(&self) -> usize {
        let target = [&self.group, &self.resource, &self.subresource, &self.namespace, &self.name];
        let target: usize = target.iter().map(|text| text.len()).sum();
        let groups: usize =
            self.impersonated_groups.iter().map(|group| group.len() + size_of::<String>()).sum();
        target
            + groups
            + self.uri.len()
            + self.user_agent.len()
            + self.impersonated.as_ref().map_or(0, String::len)
    }
}

#[derive(Debug, Default)]
struct Entries {
    last: u64,
    kept: VecDeque<Served>,
    bytes: usize,
}

/// The last requests.
#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<Entries>);

impl Log {
    pub(crate) fn add(&self, mut served: Served) {
        let mut entries = self.0.lock();
        entries.last += 1;
        served.sequence = entries.last;
        entries.bytes += served.size();
        entries.kept.push_back(served);
        while entries.kept.len() > KEPT || entries.bytes > KEPT_BYTES {
            let Some(oldest) = entries.kept.pop_front() else { break };
            entries.bytes -= oldest.size();
        }
    }

    pub(crate) fn all(&self) -> Vec<Served> {
        self.0.lock().kept.iter().cloned().collect()
    }

    pub(crate) fn clear(&self) {
        let mut entries = self.0.lock();
        entries.kept.clear();
        entries.bytes = 0;
    }
}
