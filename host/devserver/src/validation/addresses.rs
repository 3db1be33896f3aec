//! Addresses and ranges of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::node::Node;
use crate::schema::Causes;

/// An address as Go's lenient reader takes it: numbers of version 4 may begin with zeros.
pub(super) fn lenient(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let mut parts = [0_u8; 4];
    let mut count = 0;
    for part in text.split('.') {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        *parts.get_mut(count)? = is_number.then(|| part.parse().ok()).flatten()?;
        count += 1;
    }
    (count == 4).then(|| Ipv4Addr::from(parts).into())
}

/// Whether an address of version 6 holds one of version 4.
fn is_mapped(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok_and(|address| address.to_ipv4_mapped().is_some())
}

/// What is wrong with an address.
fn address_fault(text: &str) -> Option<&'static str> {
    match lenient(text) {
        None => Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        Some(_) if text.parse::<IpAddr>().is_err() => Some("must not have leading 0s"),
        Some(_) if is_mapped(text) => Some("must not be an IPv4-mapped IPv6 address"),
        Some(_) => None,
    }
}

/// An address; whether there is nothing wrong with it.
pub(super) fn ip_address(at: &Node<'_, '_>, causes: &mut Causes) -> bool {
    let fault = address_fault(at.text());
    if let Some(fault) = fault {
        at.invalid(causes, fault);
    }
    fault.is_none()
}

/// An address in its shortest form; what is wrong with it.
pub(crate) fn canonical_fault(text: &str) -> Option<String> {
    if let Some(fault) = address_fault(text) {
        return Some(fault.to_owned());
    }
    let canonical = lenient(text)?.to_string();
    (canonical != text).then(|| format!("must be in canonical form ({canonical:?})"))
}

/// The address and the length of a prefix of a range.
pub(super) fn range(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let address = lenient(address)?;
    let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let length: u8 = is_number.then(|| length.parse().ok()).flatten()?;
    (length <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, length))
}

/// An address without the bits behind a prefix.
fn masked(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            Ipv4Addr::from(u32::from(v4) & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            Ipv6Addr::from(u128::from(v6) & mask).into()
        }
    }
}

/// Whether a range holds an address.
pub(super) fn holds((network, length): (IpAddr, u8), address: IpAddr) -> bool {
    network.is_ipv4() == address.is_ipv4() && masked(network, length) == masked(address, length)
}

fn range_fault(text: &str) -> Option<&'static str> {
    let Some((address, length)) = range(text) else {
        return Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
    };
    let (address_text, length_text) = text.split_once('/')?;
    let has_zeros =
        address_text.parse::<IpAddr>().is_err() || length_text.len() > 1 && length_text.starts_with('0');
    if has_zeros {
        Some("must not have leading 0s in IP or prefix length")
    } else if is_mapped(address_text) {
        Some("must not have an IPv4-mapped IPv6 address")
    } else if masked(address, length) != address {
        Some("must not have bits set beyond the prefix length")
    } else {
        None
    }
}

/// A range of addresses, written as `text`.
pub(super) fn cidr_of(at: &Node<'_, '_>, text: &str, causes: &mut Causes) {
    if let Some(fault) = range_fault(text) {
        at.invalid_as(causes, &text.into(), fault);
    }
}

/// A range of addresses.
pub(super) fn cidr(at: &Node<'_, '_>, causes: &mut Causes) {
    cidr_of(at, at.text(), causes);
}

/// An address that something outside of its own machine can reach.
pub(super) fn endpoint(at: &Node<'_, '_>, causes: &mut Causes) {
    let Some(address) = lenient(at.text()) else {
        at.invalid(causes, "must be a valid IP address");
        return;
    };
    let (is_link_local, is_link_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.segments()[0] & 0xffc0 == 0xfe80, v6.segments()[0] & 0xff0f == 0xff02),
    };
    if address.is_unspecified() {
        at.invalid(causes, &format!("may not be unspecified ({})", at.text()));
    }
    for (is_bad, why) in [
        (address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (is_link_multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ] {
        if is_bad {
            at.invalid(causes, why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_ranges_are_read_as_by_go() {
        for (text, is_good) in [
            ("10.0.0.1", true),
            ("010.0.0.1", false),
            ("10.0.0", false),
            ("10.0.0.256", false),
            ("::1", true),
            ("::ffff:1.2.3.4", false),
            ("", false),
        ] {
            assert_eq!(address_fault(text).is_none(), is_good, "{text:?}");
        }
        for (text, is_good) in [
            ("10.0.0.0/8", true),
            ("10.0.0.1/8", false),
            ("10.0.0.0/08", false),
            ("10.0.0.0/33", false),
            ("0.0.0.0/0", true),
            ("2001:db8::/64", true),
            ("::/0", true),
            ("10.0.0.0", false),
        ] {
            assert_eq!(range_fault(text).is_none(), is_good, "{text:?}");
        }
        let network = range("10.1.0.0/16").unwrap();
        assert!(holds(network, "10.1.2.3".parse().unwrap()) && !holds(network, "10.2.0.0".parse().unwrap()));
        assert_eq!(
            canonical_fault("2001:DB8::1").as_deref(),
            Some("must be in canonical form (\"2001:db8::1\")")
        );
    }
}
