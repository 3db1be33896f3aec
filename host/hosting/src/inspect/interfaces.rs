//! [`Interfaces`]: what a component exports and imports, read from its bytes, and what each means for permissions.
//!
//! Nothing is compiled for it, so it is known of components as well that no host takes.

use std::collections::BTreeSet;

use serde::Serialize;
use wasmparser::{Parser, Payload};

/// Prefix of the interfaces of the contract.
const CONTRACT: &str = "pilothouse:controller/";

/// The interfaces of a component.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Interfaces {
    /// The version of the contract in their names; none if it is not of the contract.
    pub contract: Option<String>,
    /// Names of its exports.
    pub exports: Vec<String>,
    /// Its imports.
    pub imports: Vec<Import>,
}

/// An imported interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Import {
    /// Its name.
    pub name: String,
    /// What the plugin can do with it, and what the manifest has to grant.
    pub meaning: &'static str,
}

impl Interfaces {
    /// The interfaces of a component, as far as it can be read.
    pub fn of(wasm: &[u8]) -> Self {
        let (mut exports, mut imports) = (Vec::new(), Vec::new());
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(wasm) {
            match payload {
                Ok(Payload::Version { .. }) => depth += 1,
                Ok(Payload::End(_)) => depth = depth.saturating_sub(1),
                // Those of nested components are nobody's business.
                Ok(Payload::ComponentImportSection(section)) if depth == 1 => {
                    imports.extend(section.into_iter().flatten().map(|import| import.name.name.to_owned()));
                }
                Ok(Payload::ComponentExportSection(section)) if depth == 1 => {
                    exports.extend(section.into_iter().flatten().map(|export| export.name.name.to_owned()));
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        exports.sort();
        let versions = exports.iter().chain(&imports).filter_map(|name| {
            name.strip_prefix(CONTRACT)?.split_once('@').map(|(_, version)| version.to_owned())
        });
        let contract: Option<String> = versions.collect::<BTreeSet<_>>().into_iter().next();
        let imports = imports.into_iter().map(|name| Import { meaning: meaning(&name), name }).collect();
        Self { contract, exports, imports }
    }

    /// The imports of WASI.
    pub fn of_wasi(&self) -> Vec<&str> {
        self.imports.iter().map(|import| &*import.name).filter(|name| name.starts_with("wasi:")).collect()
    }

    /// Whether an interface of the contract is imported, in any version.
    pub fn imports_of_contract(&self, interface: &str) -> bool {
        self.imports
            .iter()
            .any(|import| import.name.starts_with(CONTRACT) && short(&import.name) == interface)
    }
}

/// `cache` of `pilothouse:controller/cache@0.2.1`; other names as they are.
pub fn short(name: &str) -> &str {
    name.strip_prefix(CONTRACT).map_or(name, |rest| rest.split('@').next().unwrap_or(rest))
}

const NO_PERMISSION: &str = "data, the log and the plugin's own queue; no permission";
const OF_WASI: &str = "clocks, random numbers, output into the plugin's log; no permission";

/// What the plugin can do with an import, and what the manifest has to grant.
pub fn meaning(name: &str) -> &'static str {
    if name.starts_with(CONTRACT) {
        return match short(name) {
            "cache" => "reads of watched kinds from the host's cache; permissions with get and list",
            "client" => "live calls to the API server; permissions with the verb of each call",
            "events" => "Kubernetes Events; permission to create events",
            "config" => "its configuration: spec.config and spec.configFrom",
            "metrics" => "metrics of its own; no permission",
            "types" | "objects" | "queue" | "log" | "kinds" | "clock" => NO_PERMISSION,
            _ => "not known to this version",
        };
    }
    let interface = name.split('@').next().unwrap_or(name);
    match interface.split('/').next().unwrap_or(interface) {
        "wasi:http" => "HTTP requests; the hosts in spec.outgoingHosts",
        "wasi:filesystem" => "files; linked, and there are none",
        "wasi:sockets" => "sockets; linked, and every call is denied",
        "wasi:cli" | "wasi:io" | "wasi:clocks" | "wasi:random" => OF_WASI,
        _ => "not an interface of the contract; no host provides it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_component_has_no_interfaces() {
        for bytes in [&b""[..], b"#!/bin/sh", b"\0asm\x01\0\0\0", b"\0asm\x0d\0\x01\0\x0b\xff"] {
            assert_eq!(Interfaces::of(bytes), Interfaces::default(), "{bytes:?}");
        }
    }
}
