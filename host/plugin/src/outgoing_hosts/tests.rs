//! What an entry may look like, what it permits, and that no spelling leads around it.

use proptest::prelude::*;

use super::*;

fn hosts(entries: &[&str]) -> OutgoingHosts {
    entries.iter().map(|entry| entry.parse::<OutgoingHost>().expect(entry)).collect()
}

fn permits(entries: &[&str], authority: &str) -> bool {
    let (host, port) = split_port(authority).expect(authority);
    hosts(entries).permits(&Host::parse(host).expect(authority), port.expect("a port"))
}

#[test]
fn an_entry_is_host_and_port_in_one_form() {
    for (text, form) in [
        ("search.example.com:9200", "search.example.com:9200"),
        ("Search.Example.COM.:9200", "search.example.com:9200"),
        ("localhost", "localhost"),
        ("10.0.0.7:1", "10.0.0.7:1"),
        ("[FD00::0:7]:65535", "[fd00::7]:65535"),
        ("[::ffff:10.0.0.7]:80", "10.0.0.7:80"),
        ("*.Example.com:443", "*.example.com:443"),
        ("es_1.monitoring.svc:9200", "es_1.monitoring.svc:9200"),
    ] {
        assert_eq!(text.parse::<OutgoingHost>().expect(text).to_string(), form);
    }
}

#[test]
fn what_is_no_host_is_refused_with_the_reason() {
    for (text, reason) in [
        ("", "there is no host"),
        (":80", "there is no host"),
        (".", "there is no host"),
        ("https://example.com", "it has a scheme"),
        ("user@example.com:80", "it has user information"),
        ("example.com/path", "it has a path"),
        ("example.com:80?x", "it has a path"),
        ("*", "a wildcard stands only for whole labels"),
        ("*:80", "a wildcard stands only for whole labels"),
        ("a*.example.com", "a wildcard stands only for whole labels"),
        ("a.*.example.com", "a wildcard stands only for whole labels"),
        ("*.*.com", "not a DNS name"),
        ("*.com:443", "top-level domain"),
        ("*.localhost", "top-level domain"),
        ("*.10.0.0.1", "over an address"),
        ("example.com:0", "from 1 to 65535"),
        ("example.com:65536", "from 1 to 65535"),
        ("example.com:+80", "from 1 to 65535"),
        ("example.com:", "from 1 to 65535"),
        ("example.com: 80", "from 1 to 65535"),
        ("::1", "in brackets"),
        ("::1:9200", "in brackets"),
        ("[::1", "in brackets"),
        ("[::1]x", "follows the bracket"),
        ("[fe80::1%eth0]:80", "no IPv6 address"),
        ("[10.0.0.1]:80", "no IPv6 address"),
        ("127.1", "looks like an address"),
        ("2130706433:80", "looks like an address"),
        ("0x7f.0.0.0x1:80", "looks like an address"),
        ("0x7f000001", "looks like an address"),
        ("1.2.3.4.5", "looks like an address"),
        ("010.0.0.1", "looks like an address"),
        ("bücher.example", "not ASCII"),
        ("a..b", "not a DNS name"),
        ("-a.example", "not a DNS name"),
        ("a b.example", "not a DNS name"),
        ("a\n.example", "not a DNS name"),
        ("a%2e.example", "not a DNS name"),
    ] {
        let error = text.parse::<OutgoingHost>().expect_err(text).to_string();
        assert!(error.contains(reason), "{error}");
    }
    let long = format!("{}.example", "a".repeat(64));
    assert!(long.parse::<OutgoingHost>().is_err());
}

#[test]
fn only_what_is_named_is_permitted() {
    let entries = ["search.example.com:9200", "web.example.com", "*.sub.example.com:443", "[fd00::7]:80"];
    for authority in [
        "search.example.com:9200",
        "SEARCH.example.COM.:9200",
        "web.example.com:80",
        "web.example.com:443",
        "a.sub.example.com:443",
        "a.b.sub.example.com:443",
        "[fd00:0::7]:80",
    ] {
        assert!(permits(&entries, authority), "{authority}");
    }
    for authority in [
        "search.example.com:9201",
        "search.example.com.evil.com:9200",
        "evilsearch.example.com:9200",
        "example.com:9200",
        "web.example.com:8080",
        "sub.example.com:443",
        "evilsub.example.com:443",
        "a.sub.example.com:80",
        "a.sub.example.com.evil.com:443",
        "[fd00::8]:80",
        "[fd00::7]:443",
        "10.0.0.1:443",
    ] {
        assert!(!permits(&entries, authority), "{authority}");
    }
}

#[test]
fn a_special_address_is_permitted_only_by_its_own_name() {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let granted = hosts(&["localhost:9200", "169.254.169.254:80", "evil.example.com:9200"]);
    assert!(granted.permits_address(address("127.0.0.1"), 9200).is_ok());
    assert!(granted.permits_address(address("::1"), 9200).is_ok());
    assert!(granted.permits_address(address("::ffff:127.0.0.1"), 9200).is_ok());
    assert!(granted.permits_address(address("169.254.169.254"), 80).is_ok());
    assert!(granted.permits_address(address("10.0.0.1"), 1).is_ok());
    assert_eq!(granted.permits_address(address("127.0.0.1"), 9201), Err("a loopback address"));
    assert_eq!(granted.permits_address(address("169.254.169.254"), 9200), Err("a link-local address"));
    assert_eq!(granted.permits_address(address("0.0.0.0"), 9200), Err("an unspecified address"));
    assert!(hosts(&["*.example.com"]).permits_address(address("127.0.0.1"), 80).is_err());
}

#[test]
fn what_is_asked_for_and_not_covered_is_found() {
    let granted = hosts(&["a.example.com", "*.b.example.com:443"]);
    let wanted: Vec<OutgoingHost> = [
        "a.example.com",
        "a.example.com:80",
        "a.example.com:81",
        "x.b.example.com:443",
        "x.b.example.com",
        "*.c.b.example.com:443",
        "b.example.com:443",
    ]
    .iter()
    .map(|text| text.parse().unwrap())
    .collect();
    let missing: Vec<String> = granted.not_granted(&wanted).iter().map(ToString::to_string).collect();
    assert_eq!(missing, ["a.example.com:81", "x.b.example.com", "b.example.com:443"]);
}

proptest! {
    #[test]
    fn any_spelling_of_a_special_address_is_refused_unless_named(bits: u32, low: u16, port in 1_u16..) {
        let v4 = Ipv4Addr::from_bits(bits);
        for address in [IpAddr::V4(v4), IpAddr::V6(v4.to_ipv6_mapped()), IpAddr::V6(v4.to_ipv6_compatible())] {
            // An ordinary name and other special addresses do not help.
            let granted = hosts(&["search.example.com", "169.254.1.1:9", "*.example.com:443"]);
            let expected = special(IpAddr::V4(v4)).is_none() || (v4 == Ipv4Addr::new(169, 254, 1, 1) && port == 9);
            // ::0.0.0.x is loopback or unspecified in IPv6's own right.
            prop_assert!(granted.permits_address(address, port).is_ok() <= expected);
            let named: OutgoingHosts = std::iter::once(OutgoingHost {
                host: Pattern::One(Host::Address(canonical(address))),
                port: Some(port),
            }).collect();
            prop_assert!(named.permits_address(address, port).is_ok());
        }
        let loopback = IpAddr::V4(Ipv4Addr::from_bits(0x7f00_0000 | u32::from(low)));
        prop_assert!(hosts(&["search.example.com"]).permits_address(loopback, 80).is_err());
    }

    #[test]
    fn an_entry_reads_back_as_itself(text in "[a-zA-Z0-9.*:_\\[\\]-]{0,24}") {
        if let Ok(entry) = text.parse::<OutgoingHost>() {
            prop_assert_eq!(entry.to_string().parse::<OutgoingHost>(), Ok(entry));
        }
    }
}
