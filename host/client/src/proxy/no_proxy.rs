//! `NO_PROXY`: which servers are reached without the proxy of the environment, by the rules of Go's
//! `golang.org/x/net/http/httpproxy`, since the same variable is set for kubectl. `proxy` asks it.
//!
//! Entries are separated by commas, and what cannot be read is ignored:
//! * `*`: all servers;
//! * `10.0.0.0/8`, `fd00::/8`: addresses of a network;
//! * `10.0.0.1`, `fd00::1`: an address;
//! * `corp`: that name, and all names below it;
//! * `.corp`, `*.corp`: names below it only.
//!
//! A port behind an address or a name (`[fd00::1]:6443`) narrows the entry to that port. Names are ASCII: those of other
//! alphabets count in their `xn--` form.

use std::net::IpAddr;

use http::Uri;

/// Whether an entry of `list` is for this server.
pub(super) fn spares(list: &str, server: &Uri) -> bool {
    let default = if server.scheme_str() == Some("https") { 443 } else { 80 };
    let port = server.port_u16().unwrap_or(default).to_string();
    let host = server.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let host = host.to_ascii_lowercase();
    let ip = host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
    list.split(',').map(|entry| entry.trim().to_ascii_lowercase()).any(|entry| {
        if entry == "*" {
            return true;
        }
        if let Some((network, bits)) = network(&entry) {
            return ip.is_some_and(|ip| is_in(ip, network, bits));
        }
        let (name, entry_port) = split_port(&entry);
        if entry_port.is_some_and(|entry_port| !entry_port.is_empty() && entry_port != port) {
            return false;
        }
        match name.parse::<IpAddr>() {
            Ok(address) => ip == Some(address.to_canonical()),
            Err(_) => is_below(&host, name),
        }
    })
}

/// Whether `host` is `name`, or below it.
fn is_below(host: &str, name: &str) -> bool {
    let below = name.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(name);
    match below.strip_prefix('.') {
        Some(_) => host.ends_with(below),
        None => {
            let above = host.strip_suffix(below);
            !below.is_empty() && above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
        }
    }
}

/// `HOST:PORT`, with an IPv6 address in brackets; all of it is the host where it is not of that form.
fn split_port(entry: &str) -> (&str, Option<&str>) {
    match entry.rsplit_once(':') {
        Some((host, port)) => match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(host) => (host, Some(port)),
            None if host.contains(':') || port.contains(']') => (entry, None),
            None => (host, Some(port)),
        },
        None => (entry, None),
    }
}

/// `ADDRESS/BITS`.
fn network(entry: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = entry.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    // `u32` would take a sign and leading zeros too.
    if bits.is_empty() || bits.len() > 1 && bits.starts_with('0') || !bits.bytes().all(|b| b.is_ascii_digit())
    {
        return None;
    }
    let bits = bits.parse().ok()?;
    (bits <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, bits))
}

/// Whether the first `bits` of both are the same.
fn is_in(ip: IpAddr, network: IpAddr, bits: u32) -> bool {
    let differ = match (ip, network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => u128::from(ip.to_bits() ^ network.to_bits()) << 96,
        (IpAddr::V6(ip), IpAddr::V6(network)) => ip.to_bits() ^ network.to_bits(),
        _ => return false,
    };
    differ.leading_zeros() >= bits
}
