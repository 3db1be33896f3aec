//! Events do not depend on where chunks end, and what is not one is told.

use proptest::prelude::*;

use super::*;

fn pods() -> Gvk {
    Gvk::new("", "v1", "Pod")
}

/// The events of a body that came in these chunks, and how it ended.
fn decode_chunks<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut decoder = EventDecoder::new(pods());
    let mut out = Vec::new();
    for chunk in chunks {
        decoder.push(Bytes::copy_from_slice(chunk));
        loop {
            match decoder.next() {
                Ok(Some(event)) => out.push(told(&event)),
                Ok(None) => break,
                Err(fault) => {
                    out.push(fault.error("watching").to_string());
                    return out;
                }
            }
        }
    }
    out.push(match decoder.finish() {
        Ok(Some(event)) => told(&event),
        Ok(None) => "the end".to_owned(),
        Err(CutOff) => "cut off".to_owned(),
    });
    out
}

fn told(event: &WatchEvent) -> String {
    match event {
        WatchEvent::Added(o) => format!("added {}", o.json()),
        WatchEvent::Modified(o) => format!("modified {}", o.json()),
        WatchEvent::Deleted(o) => format!("deleted {}", o.json()),
        bookmark @ WatchEvent::Bookmark { .. } => format!("{bookmark:?}"),
    }
}

/// Lines of a watch: mostly events, in the forms that servers write them.
fn line() -> impl Strategy<Value = String> {
    let object = ("[a-z]{1,8}", ".{0,20}", 1_u32..100).prop_map(|(name, text, version)| {
        serde_json::json!({
            "metadata": {"name": name, "resourceVersion": version.to_string()},
            "spec": {"text": text, "list": [1, null, "\u{e4}\u{1f600}"]},
        })
        .to_string()
    });
    let kind = prop::sample::select(vec!["ADDED", "MODIFIED", "DELETED"]);
    prop_oneof![
        6 => (kind.clone(), object.clone()).prop_map(|(kind, o)| format!("{{\"type\":\"{kind}\",\"object\":{o}}}\n")),
        1 => (kind, object).prop_map(|(kind, o)| format!(" {{ \"object\": {o}, \"type\" : \"{kind}\" }}\r\n")),
        1 => (any::<bool>(), 1_u32..9).prop_map(|(end, version)| format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{version}\",\
             \"annotations\":{{\"k8s.io/initial-events-end\":\"{end}\"}}}}}}}}\n"
        )),
        1 => Just("\n".to_owned()),
    ]
}

/// How a body may end: well, with an error of the server, with rubbish, in the middle, or without the last break.
fn ending() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "",
        "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\",\"message\":\"old\"}}\n",
        "<html>\n",
        "{\"type\":\"ADDED\",\"obj",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"last\"}}}",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_body_cut_at_any_byte_gives_the_same_events(lines in prop::collection::vec(line(), 0..5), ending in ending()) {
        let body = lines.concat() + ending;
        let body = body.as_bytes();
        let whole = decode_chunks([body]);
        for at in 0..=body.len() {
            let (begin, end) = body.split_at(at);
            prop_assert_eq!(&decode_chunks([begin, end]), &whole, "cut at {}", at);
        }
        prop_assert_eq!(&decode_chunks(body.chunks(1)), &whole);
    }

    #[test]
    fn a_body_in_any_chunks_gives_the_same_events(
        lines in prop::collection::vec(line(), 0..12), ending in ending(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let body = lines.concat() + ending;
        let body = body.as_bytes();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.index(body.len() + 1)).collect();
        cuts.extend([0, body.len()]);
        cuts.sort_unstable();
        let whole = decode_chunks([body]);
        prop_assert_eq!(&decode_chunks(cuts.windows(2).map(|w| &body[w[0]..w[1]])), &whole);
    }
}

#[test]
fn the_ending_of_a_body_is_told() {
    let added = "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}";
    let ends = |body: &str| decode_chunks([body.as_bytes()]).pop().unwrap();
    assert_eq!(ends(&format!("{added}\n")), "the end");
    assert!(ends(added).starts_with("added"));
    assert_eq!(ends(&added[..20]), "cut off");
    assert!(ends("<html>\n").contains("event:"));
}

/// An object of exactly so many bytes, as an event.
fn large(object: usize, space: &str) -> Vec<u8> {
    let (begin, end) = (r#"{"metadata":{"name":"big"},"data":""#, r#""}"#);
    let padding = "x".repeat(object - begin.len() - end.len());
    format!("{{\"type\":\"ADDED\",{space}\"object\":{begin}{padding}{end}}}\n").into_bytes()
}

#[test]
fn an_object_of_16_mib_is_read_and_one_byte_more_is_refused() {
    for space in ["", " "] {
        let mut out = decode_chunks([&*large(OBJECT_LIMIT, space)]);
        assert_eq!(out.pop().unwrap(), "the end");
        assert!(out.pop().unwrap().starts_with("added"), "form {space:?}");
        let refused = decode_chunks([&*large(OBJECT_LIMIT + 1, space)]);
        let message = "event: an object of 16777217 bytes; objects up to 16777216 bytes are read";
        assert!(refused.len() == 1 && refused[0].ends_with(message), "{refused:?}");
        // One that never ends is not gathered for ever.
        let endless = large(OBJECT_LIMIT + 2 * ENVELOPE, space);
        let refused = decode_chunks(endless[..endless.len() - 1].chunks(1 << 16));
        assert!(refused.last().unwrap().contains("objects up to 16777216 bytes are read"), "{refused:?}");
    }
}
