//! [`OutgoingHosts`]: the hosts that a plugin may call over HTTP, as `spec.outgoingHosts` of its manifest names them.
//!
//! One grammar for what is granted and for what a guest asks for, so that both are compared in one form: lower case, without the
//! trailing dot, addresses as numbers. What could be read in two ways (`127.1`, `0x7f.1`, `::ffff:1.2.3.4`) is refused or
//! brought into one form. Called by the manager, which decides what is granted, and by the engine for each request.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::address::{canonical, special};

/// A host as a name or as an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// A DNS name in lower case, without a trailing dot.
    Name(String),
    /// An address; an IPv4 address in IPv6 clothes is the IPv4 address.
    Address(IpAddr),
}

impl Host {
    /// Reads the host part of an authority: a name, an IPv4 address, or an IPv6 address in brackets.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if let Some(address) = text.strip_prefix('[') {
            let address = address.strip_suffix(']').ok_or("the bracket is not closed")?;
            let address: Ipv6Addr = address.parse().map_err(|_| "no IPv6 address stands in the brackets")?;
            return Ok(Self::Address(canonical(address.into())));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        if name.is_empty() {
            return Err("there is no host");
        }
        if name.len() > MAX_NAME {
            return Err("the name is longer than 253 characters");
        }
        if !name.is_ascii() {
            return Err("the name is not ASCII; write its punycode form (xn--…)");
        }
        if !name.split('.').all(is_label) {
            return Err("it is not a DNS name");
        }
        // The system's resolver takes such names for addresses, in ways of its own: 127.1, 2130706433, 0x7f.1.
        let last = name.rsplit('.').next().unwrap_or(name);
        if last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x") || last.starts_with("0X") {
            return Err("it looks like an address; write an IPv4 address as four decimal numbers");
        }
        Ok(Self::Name(name.to_ascii_lowercase()))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// RFC 1035, section 2.3.4, without the trailing dot.
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// A label of a host name; underscores are no letters of host names but are met in practice.
fn is_label(label: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    !label.is_empty()
        && label.len() <= MAX_LABEL
        && label.bytes().all(inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Splits `host:port`, where a port may be missing and an IPv6 address stands in brackets.
///
/// # Errors
/// What is wrong with the text.
pub fn split_port(text: &str) -> Result<(&str, Option<u16>), &'static str> {
    let end = match text.rfind(']') {
        Some(bracket) => bracket + 1,
        None => text.find(':').unwrap_or(text.len()),
    };
    let (host, rest) = text.split_at(end);
    let Some(port) = rest.strip_prefix(':') else {
        return if rest.is_empty() { Ok((host, None)) } else { Err("something follows the bracket") };
    };
    if port.contains(':') {
        return Err("an IPv6 address stands in brackets, as [::1]:9200");
    }
    // `u16::from_str` would take a sign.
    match port.parse() {
        Ok(port) if port != 0 && rest[1..].bytes().all(|b| b.is_ascii_digit()) => Ok((host, Some(port))),
        _ => Err("the port is not a number from 1 to 65535"),
    }
}

/// One entry of `spec.outgoingHosts`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OutgoingHost {
    host: Pattern,
    /// Absent: 80 and 443.
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Pattern {
    One(Host),
    /// Every name that ends in a dot and this one.
    Below(String),
}

/// Why an entry of `spec.outgoingHosts` is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?}: {reason}")]
pub struct OutgoingHostError {
    text: String,
    reason: &'static str,
}

impl OutgoingHostError {
    /// How an entry is written.
    pub const REMEDY: &'static str = "write host:port, as search.example.com:9200, 10.0.0.7:9200, [fd00::7]:9200 or \
                                      *.example.com:443; without a port 80 and 443 are meant; no scheme, no path";
}

/// The ports that an entry without one means: those of `http` and `https`.
const WEB: [u16; 2] = [80, 443];

impl FromStr for OutgoingHost {
    type Err = OutgoingHostError;

    fn from_str(text: &str) -> Result<Self, OutgoingHostError> {
        let refused = |reason| OutgoingHostError { text: text.to_owned(), reason };
        if text.contains("://") {
            return Err(refused("it has a scheme"));
        }
        if text.contains('@') {
            return Err(refused("it has user information"));
        }
        if text.contains(['/', '?', '#']) {
            return Err(refused("it has a path"));
        }
        let (host, port) = split_port(text).map_err(refused)?;
        let host = match host.strip_prefix("*.") {
            Some(name) => match Host::parse(name).map_err(refused)? {
                Host::Name(name) if name.contains('.') => Pattern::Below(name),
                Host::Name(_) => return Err(refused("a wildcard over a whole top-level domain")),
                Host::Address(_) => return Err(refused("a wildcard over an address")),
            },
            None if host.contains('*') => {
                return Err(refused(
                    "a wildcard stands only for whole labels at the beginning, as *.example.com",
                ));
            }
            None => Pattern::One(Host::parse(host).map_err(refused)?),
        };
        Ok(Self { host, port })
    }
}

impl fmt::Display for OutgoingHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Pattern::One(host) => write!(f, "{host}")?,
            Pattern::Below(name) => write!(f, "*.{name}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl OutgoingHost {
    fn has_port(&self, port: u16) -> bool {
        self.port.map_or_else(|| WEB.contains(&port), |own| own == port)
    }

    fn permits(&self, host: &Host, port: u16) -> bool {
        self.has_port(port)
            && match (&self.host, host) {
                (Pattern::One(own), host) => own == host,
                (Pattern::Below(name), Host::Name(host)) => is_below(host, name),
                (Pattern::Below(_), Host::Address(_)) => false,
            }
    }

    /// Whether this entry names the address itself: as a number, or as `localhost` for loopback.
    fn names(&self, address: IpAddr, port: u16) -> bool {
        self.has_port(port)
            && match &self.host {
                Pattern::One(Host::Address(own)) => *own == canonical(address),
                Pattern::One(Host::Name(name)) => name == "localhost" && canonical(address).is_loopback(),
                Pattern::Below(_) => false,
            }
    }

    /// Whether all that `wanted` means is permitted by this entry.
    fn covers(&self, wanted: &Self) -> bool {
        let host = match (&self.host, &wanted.host) {
            (Pattern::Below(name), Pattern::One(Host::Name(host))) => is_below(host, name),
            (Pattern::Below(name), Pattern::Below(host)) => name == host || is_below(host, name),
            (own, wanted) => own == wanted,
        };
        host && match wanted.port {
            Some(port) => self.has_port(port),
            None => self.port.is_none(),
        }
    }
}

fn is_below(host: &str, name: &str) -> bool {
    host.strip_suffix(name).is_some_and(|labels| labels.len() > 1 && labels.ends_with('.'))
}

/// All that a plugin may call; nothing unless it is named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutgoingHosts(Vec<OutgoingHost>);

impl FromIterator<OutgoingHost> for OutgoingHosts {
    fn from_iter<T: IntoIterator<Item = OutgoingHost>>(hosts: T) -> Self {
        Self(hosts.into_iter().collect())
    }
}

impl OutgoingHosts {
    /// Whether nothing is granted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Of `wanted`, what is not granted.
    #[must_use]
    pub fn not_granted<'a>(&self, wanted: &'a [OutgoingHost]) -> Vec<&'a OutgoingHost> {
        wanted.iter().filter(|wanted| !self.0.iter().any(|own| own.covers(wanted))).collect()
    }

    /// Whether a request to this host may be made, so far as its name goes.
    #[must_use]
    pub fn permits(&self, host: &Host, port: u16) -> bool {
        self.0.iter().any(|own| own.permits(host, port))
    }

    /// Whether a connection to this address may be made for a host that is permitted: an ordinary address, or one that is named
    /// itself. Otherwise, what is special about it.
    ///
    /// # Errors
    /// What is special about the address.
    pub fn permits_address(&self, address: IpAddr, port: u16) -> Result<(), &'static str> {
        match special(address) {
            Some(what) if !self.0.iter().any(|own| own.names(address, port)) => Err(what),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
