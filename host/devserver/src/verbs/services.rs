//! Free addresses and ports for Services.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::Ipv4Addr;
use std::sync::Arc;

use parking_lot::Mutex;
use rand::RngExt as _;
use serde_json::Value;

use super::write::key;
use super::{Core, JsonMap, Write};
use crate::api::Metadata;
use crate::kinds::{Numbers, complete_service};
use crate::store::Stored;

/// `10.96.0.0/12`.
const FIRST_ADDRESS: u32 = 0x0a60_0000;
const ADDRESSES: u32 = 1 << 20;
/// Of the ports of nodes.
const FIRST_PORT: u16 = 30_000;
const PORTS: u16 = 2_768;
/// How many entries of Services that have gone are kept beside those of Services that are there.
const SPARE: usize = 1024;

/// Which Service has had a number last, by its key. Whether it has it still, the store says: so nothing has to be taken out
/// when a Service changes or goes, and no allocation reads all Services.
#[derive(Debug, Default)]
pub(crate) struct ServiceNumbers(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    addresses: HashMap<Ipv4Addr, Box<str>>,
    ports: HashMap<u16, Box<str>>,
}

impl Core {
    /// Puts in what a server allocates for an object of a write's kind; `old` is the state that it follows.
    ///
    /// Two Services that are made at the same moment may get the same number, with a chance of one to a million for addresses.
    pub(super) fn allocate(&self, write: &Write, object: &mut JsonMap, old: Option<&JsonMap>) {
        if !write.resource.strategy.allocates {
            return;
        }
        let table = &*write.resource.storage;
        let mut taken = self.service_numbers.0.lock();
        let mut free = Free { core: self, table, taken: &taken, owned: HashMap::new(), given: Vec::new() };
        complete_service(object, old, &mut free);
        let name = Metadata::of(object).map(|metadata| metadata.text("name").to_owned()).unwrap_or_default();
        taken.note(&key(write.namespace(), &name), object);
        if taken.addresses.len() > 2 * self.store.count(table) + SPARE {
            taken.addresses.retain(|address, key| {
                self.store.get(table, key).is_some_and(|service| has_address(&service, *address))
            });
        }
    }
}

impl Taken {
    /// Notes the numbers that a Service has.
    fn note(&mut self, key: &str, service: &JsonMap) {
        let spec = service.get("spec").unwrap_or(&Value::Null);
        if let Some(Ok(address)) = spec["clusterIP"].as_str().map(str::parse::<Ipv4Addr>)
            && (FIRST_ADDRESS..FIRST_ADDRESS + ADDRESSES).contains(&address.into())
        {
            self.addresses.insert(address, key.into());
        }
        for port in node_ports(spec) {
            self.ports.insert(port, key.into());
        }
    }
}

/// The ports of nodes that a Service has, as far as they are of the range that is allocated from.
fn node_ports(spec: &Value) -> impl Iterator<Item = u16> {
    let of_ports = spec["ports"].as_array().into_iter().flatten().map(|port| &port["nodePort"]);
    let all = of_ports.chain(std::iter::once(&spec["healthCheckNodePort"]));
    let numbers = all.filter_map(Value::as_u64).filter_map(|port| u16::try_from(port).ok());
    numbers.filter(|port| (FIRST_PORT..FIRST_PORT + PORTS).contains(port))
}

fn has_address(service: &Stored, address: Ipv4Addr) -> bool {
    let text = service.object.get_string("/spec/clusterIP");
    text.is_some_and(|text| text.parse() == Ok(address))
}

/// Numbers that are not taken, from a random one on.
struct Free<'a> {
    core: &'a Core,
    table: &'a str,
    taken: &'a Taken,
    /// The ports that Services have now, by their keys: each that is asked for is read once.
    owned: HashMap<&'a str, Vec<u16>>,
    /// What the same Service was given just now.
    given: Vec<u16>,
}

impl Free<'_> {
    /// The Service that had a number last, if it is there.
    fn service<N: Hash + Eq>(&self, numbers: &HashMap<N, Box<str>>, number: &N) -> Option<Arc<Stored>> {
        self.core.store.get(self.table, numbers.get(number)?)
    }

    fn is_taken(&mut self, port: u16) -> bool {
        if self.given.contains(&port) {
            return true;
        }
        let Some(key) = self.taken.ports.get(&port) else { return false };
        let owned = self.owned.entry(key).or_insert_with(|| {
            let spec = self.core.store.get(self.table, key).and_then(|service| {
                service.object.get("/spec").and_then(|spec| serde_json::from_str::<Value>(spec).ok())
            });
            spec.iter().flat_map(node_ports).collect()
        });
        owned.contains(&port)
    }
}

impl Numbers for Free<'_> {
    fn address(&mut self) -> Option<String> {
        // The first is the network's, the next ten are kept for the cluster's own Services, the last is for broadcasts.
        let (first, count) = (FIRST_ADDRESS + 11, ADDRESSES - 12);
        let start = rand::rng().random_range(0..count);
        (0..count)
            .map(|step| Ipv4Addr::from(first + (start + step) % count))
            .find(|address| {
                let owner = self.service(&self.taken.addresses, address);
                !owner.is_some_and(|service| has_address(&service, *address))
            })
            .map(|address| address.to_string())
    }

    fn node_port(&mut self) -> Option<u16> {
        let start = rand::rng().random_range(0..PORTS);
        let mut all = (0..PORTS).map(|step| FIRST_PORT + (start + step) % PORTS);
        let free = all.find(|port| !self.is_taken(*port))?;
        self.given.push(free);
        Some(free)
    }
}
