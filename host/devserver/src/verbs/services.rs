//! Free addresses and ports for Services.

use std::collections::HashSet;

use super::{Core, JsonMap, Write};
use crate::kinds::{Numbers, complete_service};
use crate::store::Query;
use rand::RngExt as _;

/// `10.96.0.0/12`.
const FIRST_ADDRESS: u32 = 0x0a60_0000;
const ADDRESSES: u32 = 1 << 20;
/// Of the ports of nodes.
const FIRST_PORT: u16 = 30_000;
const PORTS: u16 = 2_768;

impl Core {
    /// Puts in what a server allocates for an object of a write's kind; `old` is the state that it follows.
    ///
    /// Two Services that are made at the same moment may get the same number, with a chance of one to a million for addresses.
    pub(super) fn allocate(&self, write: &Write, object: &mut JsonMap, old: Option<&JsonMap>) {
        if write.resource.strategy.allocates {
            let table = &write.resource.storage;
            complete_service(object, old, &mut Free { core: self, table, taken: None });
        }
    }

    fn taken(&self, table: &str) -> Taken {
        let query = Query { table, prefix: "", after: None, revision: None, limit: 0, wanted: &|_| true };
        let mut taken = Taken::default();
        for service in self.store.list(&query).map(|list| list.objects).unwrap_or_default() {
            let spec = service.value().get("spec").cloned().unwrap_or_default();
            taken.addresses.extend(spec["clusterIP"].as_str().map(str::to_owned));
            let ports = spec["ports"].as_array().into_iter().flatten();
            taken.ports.extend(ports.filter_map(|port| port["nodePort"].as_u64()));
        }
        taken
    }
}

#[derive(Default)]
struct Taken {
    addresses: HashSet<String>,
    ports: HashSet<u64>,
}

/// Numbers that are not taken, from a random one on.
struct Free<'a> {
    core: &'a Core,
    table: &'a str,
    /// Asked for only if a number is needed.
    taken: Option<Taken>,
}

impl Free<'_> {
    fn taken(&mut self) -> &mut Taken {
        self.taken.get_or_insert_with(|| self.core.taken(self.table))
    }
}

impl Numbers for Free<'_> {
    fn address(&mut self) -> Option<String> {
        // The first is the network's, the next ten are kept for the cluster's own Services, the last is for broadcasts.
        let (first, count) = (FIRST_ADDRESS + 11, ADDRESSES - 12);
        let start = rand::rng().random_range(0..count);
        let taken = &self.taken().addresses;
        (0..count)
            .map(|step| std::net::Ipv4Addr::from(first + (start + step) % count).to_string())
            .find(|address| !taken.contains(address))
    }

    fn node_port(&mut self) -> Option<u16> {
        let start = rand::rng().random_range(0..PORTS);
        let taken = &mut self.taken().ports;
        let free = (0..PORTS)
            .map(|step| FIRST_PORT + (start + step) % PORTS)
            .find(|port| !taken.contains(&u64::from(*port)))?;
        // The same Service may ask for another.
        taken.insert(free.into());
        Some(free)
    }
}
