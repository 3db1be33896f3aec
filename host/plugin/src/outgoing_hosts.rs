//! [`OutgoingHosts`]: the hosts that a plugin may call over HTTP, from `spec.outgoingHosts` of its manifest.
//!
//! Grants and requests are parsed with the same grammar into a canonical form: lower case, without the trailing dot,
//! addresses as numbers. Ambiguous forms (`127.1`, `0x7f.1`, `::ffff:1.2.3.4`) are rejected or canonicalized. The
//! manager compares grants with the descriptor, and the engine checks each request.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::address::{canonical, special};

/// A host: a name or an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// A DNS name in lower case, without a trailing dot.
    Name(String),
    /// An address; an IPv4-mapped IPv6 address is stored as the IPv4 address.
    Address(IpAddr),
}

impl Host {
    /// Parses the host part of an authority: a name, an IPv4 address, or an IPv6 address in brackets.
    ///
    /// # Errors
    /// When the text is none of these; the error is the reason.
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
        // The system's resolver interprets such names as addresses: 127.1, 2130706433, 0x7f.1.
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

/// Maximum length of a name without the trailing dot (RFC 1035, section 2.3.4).
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// Whether a text is a label of a host name. Underscores are allowed, because they occur in practice.
fn is_label(label: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    !label.is_empty()
        && label.len() <= MAX_LABEL
        && label.bytes().all(inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Splits `host:port`. The port is optional, and an IPv6 address is in brackets.
///
/// # Errors
/// When the port is malformed or 0, or an IPv6 address is not in brackets; the error is the reason.
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
    // `u16::from_str` would accept a sign.
    match port.parse() {
        Ok(port) if port != 0 && rest[1..].bytes().all(|b| b.is_ascii_digit()) => Ok((host, Some(port))),
        _ => Err("the port is not a number from 1 to 65535"),
    }
}

/// One entry of `spec.outgoingHosts`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OutgoingHost {
    host: Pattern,
    /// The port; `None` for 80 and 443.
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Pattern {
    One(Host),
    /// Every name that ends with a dot and this name.
    Below(String),
}

/// The reason why an entry of `spec.outgoingHosts` is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?}: {reason}")]
pub struct OutgoingHostError {
    text: String,
    reason: &'static str,
}

impl OutgoingHostError {
    /// The form of an entry, for errors.
    pub const REMEDY: &'static str = "write host:port, as search.example.com:9200, 10.0.0.7:9200, [fd00::7]:9200 or \
                                      *.example.com:443; without a port 80 and 443 are meant; no scheme, no path";
}

/// The ports of an entry without a port: the default ports of `http` and `https`.
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

    /// Whether this entry names the address explicitly: as an address, or as `localhost` for loopback.
    fn names(&self, address: IpAddr, port: u16) -> bool {
        self.has_port(port)
            && match &self.host {
                Pattern::One(Host::Address(own)) => *own == canonical(address),
                Pattern::One(Host::Name(name)) => name == "localhost" && canonical(address).is_loopback(),
                Pattern::Below(_) => false,
            }
    }

    /// Whether this entry permits everything that `wanted` covers.
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

/// The hosts that a plugin may call. The default permits none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutgoingHosts(Vec<OutgoingHost>);

impl FromIterator<OutgoingHost> for OutgoingHosts {
    fn from_iter<T: IntoIterator<Item = OutgoingHost>>(hosts: T) -> Self {
        Self(hosts.into_iter().collect())
    }
}

impl OutgoingHosts {
    /// Whether no host is granted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first entry that names a special address, such as loopback, and the class of that address.
    #[must_use]
    pub fn special(&self) -> Option<(&OutgoingHost, &'static str)> {
        self.0.iter().find_map(|entry| match &entry.host {
            Pattern::One(Host::Address(address)) => Some((entry, special(*address)?)),
            Pattern::One(Host::Name(name)) if name == "localhost" => Some((entry, "a loopback address")),
            Pattern::One(Host::Name(_)) | Pattern::Below(_) => None,
        })
    }

    /// The entries of `wanted` that are not granted.
    #[must_use]
    pub fn not_granted<'a>(&self, wanted: &'a [OutgoingHost]) -> Vec<&'a OutgoingHost> {
        wanted.iter().filter(|wanted| !self.0.iter().any(|own| own.covers(wanted))).collect()
    }

    /// Whether the name (or address) and port of a request are granted. The resolved address needs its own check.
    #[must_use]
    pub fn permits(&self, host: &Host, port: u16) -> bool {
        self.0.iter().any(|own| own.permits(host, port))
    }

    /// Checks the resolved address of a permitted host: it must be an ordinary address, or be granted explicitly.
    ///
    /// # Errors
    /// The class of the special address, such as loopback.
    pub fn permits_address(&self, address: IpAddr, port: u16) -> Result<(), &'static str> {
        match special(address) {
            Some(what) if !self.0.iter().any(|own| own.names(address, port)) => Err(what),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
