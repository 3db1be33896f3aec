use serde_json::json;

use super::*;

#[test]
fn quantities_are_written_as_the_server_stores_them() {
    for (given, expected) in [
        ("0", "0"),
        ("0Gi", "0"),
        ("1", "1"),
        ("+1", "+1"),
        ("1.125G", "1.125G"),
        ("0.125", "125m"),
        ("1.12G", "1120M"),
        ("2000.000", "2k"),
        ("8.0Ki", "8Ki"),
        ("01Ki", "01Ki"),
        ("08Ki", "8Ki"),
        ("1.0", "1"),
        ("0.5", "500m"),
        ("-0.5", "-500m"),
        ("100m", "100m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1000", "1k"),
        ("100000", "100k"),
        ("1234567", "1234567"),
        ("1.5k", "1500"),
        ("0.000001", "1u"),
        ("0.0000000001", "1n"),
        ("-0.0000000001", "-1n"),
        ("1e3", "1e3"),
        ("12e2", "1200"),
        ("1E6", "1E6"),
        ("10E5", "1e6"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1Ki", "1Ki"),
        ("0.5Ki", "512"),
        ("1000Ki", "1000Ki"),
        ("-2048Ki", "-2Mi"),
        ("1.0001Ki", "1024102400u"),
        ("5Ei", "5Ei"),
        ("4096Pi", "4Ei"),
        ("2048Ei", "9223372036854775807"),
        ("0909Pi", "909Pi"),
        ("+123456789012345678", "+123456789012345678"),
        ("+1234567890123456789", "1234567890123456789"),
        ("10e29", "1e30"),
    ] {
        assert_eq!(canonical(&json!(given)), expected, "{given}");
    }
    assert_eq!(canonical(&json!(2)), "2");
    assert_eq!(canonical(&json!(0.25)), "250m");
}

#[test]
fn what_is_no_quantity_stays() {
    for text in ["", ".", "1.2.3", "1Q", "much", "10e30", "99999999999999999999999999999999999999999Ei"] {
        assert_eq!(canonical(&json!(text)), text);
    }
    assert_eq!(canonical(&Value::Null), "null");
}

#[test]
fn a_text_that_is_no_quantity_is_refused_with_the_servers_words() {
    let form = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    for (text, expected) in [
        ("", form),
        ("x", form),
        ("1 2", form),
        ("1Q", form),
        ("1mm", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"),
        ("m", "unable to parse numeric part of quantity"),
        (".", "unable to parse numeric part of quantity"),
    ] {
        assert_eq!(read(text), Err(expected), "{text:?}");
    }
    for (text, expected) in [(" 1000m ", "1"), ("1.", "1."), ("+", "0"), ("1e3", "1e3"), (".5", "500m")] {
        assert_eq!(read(text).as_deref(), Ok(expected), "{text:?}");
    }
}

#[test]
fn what_is_less_than_a_thousandth_is_rounded_up() {
    for (text, expected) in [
        ("1n", "1m"),
        ("-1n", "-1m"),
        ("1500u", "2m"),
        ("1m", "1m"),
        ("1.125G", "1.125G"),
        ("1E3", "1E3"),
        ("0", "0"),
        ("1Gi", "1Gi"),
    ] {
        assert_eq!(round_up_to_milli(text), expected, "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn a_canonical_quantity_stays_as_it_is(text in r"[ +-]{0,1}[0-9]{0,25}[.]{0,1}[0-9]{0,12}[numkKMGTPEi]{0,2}[eE]{0,1}[+-]{0,1}[0-9]{0,3}") {
        if let Ok(canonical) = read(&text) {
            proptest::prop_assert!(canonical.len() < 100, "{}", canonical);
            let again = read(&canonical);
            proptest::prop_assert_eq!(again.as_ref(), Ok(&canonical));
            super::round_up_to_milli(&text);
        }
    }
}

#[test]
fn amounts_can_be_compared() {
    let of = Amount::of;
    assert!(
        of("100m") < of("0.2") && of("1Gi") > of("1G") && of("1e3") == of("1k") && of("1024Ki") == of("1Mi")
    );
    assert!(of("-1") < Amount::ZERO && of("1E") < of("1Ei") && of("1000m") == of("1"));
    assert!(of("123456789012345678901234567890") > of("1Ei"), "saturated");
    assert!(!of("1500m").is_whole() && of("2").is_whole());
    assert!(of("4Mi").is_multiple_of(of("2Mi")) && !of("3Mi").is_multiple_of(of("2Mi")));
}
