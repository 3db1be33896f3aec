//! Addresses to which a name must not resolve, independent of who chose the name: loopback, link-local, and the services from
//! which a cloud machine gets its credentials. Private networks are allowed, because the services of a cluster are
//! there.
//!
//! Called by [`OutgoingHosts`](crate::OutgoingHosts) for each address that a name was resolved to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Cloud services that return credentials and are outside the special ranges.
const METADATA_V4: [Ipv4Addr; 3] = [
    // Alibaba Cloud: ECS instance metadata.
    Ipv4Addr::new(100, 100, 100, 200),
    // Azure: the platform's own services (WireServer).
    Ipv4Addr::new(168, 63, 129, 16),
    // Oracle Cloud: the metadata service of classic instances.
    Ipv4Addr::new(192, 0, 0, 192),
];

/// The same for IPv6: Google Compute Engine.
const METADATA_V6: [Ipv6Addr; 1] = [Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

/// The prefix of Amazon EC2's services: instance metadata (`fd00:ec2::254`), credentials of pods (`fd00:ec2::23`),
/// time, DNS.
const AMAZON: [u16; 2] = [0xfd00, 0xec2];

/// The canonical form of an address: an IPv4-mapped IPv6 address (`::ffff:0:0/96`) becomes the IPv4 address.
#[must_use]
pub fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// The class of a special address, such as loopback; `None` for an ordinary address.
#[must_use]
pub fn special(address: IpAddr) -> Option<&'static str> {
    match canonical(address) {
        IpAddr::V4(address) => special_v4(address),
        IpAddr::V6(address) => special_v6(address).or_else(|| carried(address).and_then(special_v4)),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    if address.is_loopback() {
        Some("a loopback address")
    } else if address.octets()[0] == 0 {
        // Linux connects to itself for 0.0.0.0; the rest of 0/8 is not a host address (RFC 1122, section 3.2.1.3).
        Some("an unspecified address")
    } else if address.is_link_local() {
        // Includes metadata services such as 169.254.169.254.
        Some("a link-local address")
    } else if address.is_broadcast() || address.is_multicast() {
        Some("a multicast or broadcast address")
    } else if METADATA_V4.contains(&address) {
        Some("a cloud's metadata service")
    } else {
        None
    }
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    if address.is_loopback() {
        Some("a loopback address")
    } else if address.is_unspecified() {
        Some("an unspecified address")
    } else if address.is_unicast_link_local() {
        Some("a link-local address")
    } else if address.is_multicast() {
        Some("a multicast or broadcast address")
    } else if METADATA_V6.contains(&address) || address.segments()[..2] == AMAZON {
        Some("a cloud's metadata service")
    } else {
        None
    }
}

/// The IPv4 address to which a gateway would forward packets for this address: NAT64 (`64:ff9b::/96`, RFC 6052), 6to4
/// (`2002::/16`, RFC 3056), and the old form `::a.b.c.d` (RFC 4291, section 2.5.5.1).
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0, 0, high, low] => Some(v4(high, low)),
        // NAT64 with a local prefix (RFC 8215) of 96 bits, the usual length.
        [0x64, 0xff9b, 1, .., high, low] => Some(v4(high, low)),
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_to_the_host_its_link_or_a_cloud_is_special() {
        for address in [
            "127.0.0.1",
            "127.255.255.254",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "169.254.0.1",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "224.0.0.1",
            "239.255.255.250",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "64:ff9b:1::a9fe:a9fe",
            "fd20:ce::254",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0.0.0.0",
            "::127.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b::127.0.0.1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
        ] {
            assert!(special(address.parse().unwrap()).is_some(), "{address}");
        }
    }

    #[test]
    fn what_a_cluster_or_the_world_uses_is_ordinary() {
        for address in [
            "10.96.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "1.1.1.1",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.1.1",
            "223.255.255.255",
            "fd00::1",
            "fd00:ec3::254",
            "64:ff9b:1::808:808",
            "2001:db8::1",
            "fec0::1",
            "::ffff:10.0.0.1",
            "64:ff9b::10.0.0.1",
            "2002:a00:1::",
        ] {
            assert_eq!(special(address.parse().unwrap()), None, "{address}");
        }
    }
}
