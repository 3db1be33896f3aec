//! Decoding of list responses, whole and in chunks.

use pilothouse_object::{DecodeError, Gvk, ListDecoder, ListMeta, Object};
use proptest::prelude::*;

fn pod() -> Gvk {
    Gvk::new("", "v1", "Pod")
}

/// The decoded items, and the metadata or the error.
fn decode(pieces: &[&[u8]]) -> (Vec<Object>, Result<ListMeta, DecodeError>) {
    let mut items = Vec::new();
    let mut decoder = ListDecoder::new(pod());
    let mut take = |object| items.push(object);
    let pushed = pieces.iter().try_for_each(|piece| decoder.push(piece, &mut take));
    let outcome = pushed.and_then(|()| decoder.finish(&mut take));
    (items, outcome)
}

fn whole(page: impl AsRef<[u8]>) -> (Vec<Object>, Result<ListMeta, DecodeError>) {
    decode(&[page.as_ref()])
}

#[test]
fn items_get_the_kind_and_metadata_may_stand_before_or_behind_them() {
    let items =
        r#""items": [{"metadata":{"name":"a","namespace":"x"}} , {"metadata":{"name":"b"},"kind":"Pod"}]"#;
    let meta = r#""metadata" : {"resourceVersion":"9","continue":"c","remainingItemCount":3}"#;
    for (first, second) in [(items, meta), (meta, items)] {
        let page = format!(" {{\"kind\":\"PodList\",{first},\n\"extra\":[1,{{}}],\"n\":1.5e3,{second}}}\n");
        let (items, meta) = whole(page);
        let meta = meta.unwrap();
        assert_eq!((meta.resource_version.as_str(), meta.continue_token.as_str()), ("9", "c"));
        assert_eq!(meta.remaining_item_count, Some(3));
        assert_eq!(items.iter().map(|o| o.key().to_string()).collect::<Vec<_>>(), ["x/a", "b"]);
        assert!(items.iter().all(|o| o.gvk() == pod()));
    }
}

#[test]
fn a_null_list_and_an_empty_one_have_no_items() {
    for items in ["null", "[]", "[ ]", " null "] {
        let (list, meta) =
            whole(format!(r#"{{"kind":"PodList","items":{items},"metadata":{{"resourceVersion":"1"}}}}"#));
        assert_eq!((list.len(), meta.unwrap().resource_version.as_str()), (0, "1"));
    }
}

#[test]
fn what_is_no_list_of_objects_is_refused() {
    let table = r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"rows":[]}"#;
    assert!(matches!(whole(table).1, Err(DecodeError::WrongKind { got, .. }) if got == "Table"));
    for page in [
        "",
        "null",
        "[]",
        "<html>",
        r#"{"kind":"Status"}"#,
        r#"{"kind":"PodList"}"#,
        r#"{"kind":"PodList","items":["#,
        r#"{"kind":"PodList","items":[]"#,
        r#"{"kind":"PodList","items":[]}}"#,
        r#"{"kind":"PodList","items":[],}"#,
        r#"{"kind":"PodList","items":[{"metadata":{"name":"a"}},]}"#,
        r#"{"kind":"PodList","items":[,]}"#,
        r#"{"kind":"PodList","items":[1]}"#,
        r#"{"kind":"PodList","items":[{}]}"#,
        r#"{"kind":"PodList","items":[[null,null,{"name":"a"}]]}"#,
        r#"{"kind":"PodList","items":{}}"#,
        r#"{"kind":"PodList","items":1}"#,
        r#"{"kind":"PodList" "items":[]}"#,
        r#"{"kind":"PodList","items" []}"#,
        r#"{"kind":"PodList","items":[],"n":12"#,
    ] {
        assert!(whole(page).1.is_err(), "{page}");
    }
    assert!(
        whole(b"{\"kind\":\"PodList\",\"items\":[{\"metadata\":{\"name\":\"a\"},\"x\":\"\xff\"}]}")
            .1
            .is_err()
    );
}

/// An item is not lost for a field that nobody may read, and takes no other item with it.
#[test]
fn a_field_of_an_item_need_not_be_json_and_the_metadata_must_be() {
    let page = |metadata: &str, spec: &str| {
        let item = |name| format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{"a":[1]}}}}"#);
        whole(format!(
            r#"{{"kind":"PodList","items":[{},{{"metadata":{{"name":"b"{metadata}}},"spec":{spec}}},{}]}}"#,
            item("a"),
            item("c"),
        ))
    };
    for broken in ["{]", "[1 2]", r#"{"a":}"#, r#"{"a":"\x"}"#] {
        let (items, outcome) = page("", broken);
        assert!(outcome.is_ok(), "{broken}");
        let keys: Vec<_> = items.iter().map(|item| item.key().as_str()).collect();
        assert_eq!((keys.as_slice(), items[1].get("/spec")), (&["a", "b", "c"][..], Some(broken)));
        let (items, outcome) = page(&format!(r#","labels":{broken}"#), "{}");
        assert_eq!((items.len(), outcome.is_err()), (1, true), "{broken}");
    }
    // A field without an end.
    for broken in ["{", "[[]", r#"{"a":"b}"#] {
        assert!(page("", broken).1.is_err(), "{broken}");
    }
}

#[test]
fn items_before_a_fault_are_handed_on() {
    let page = r#"{"kind":"PodList","items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}},{"meta"#;
    let (items, outcome) = whole(page);
    assert_eq!(items.len(), 2);
    assert!(outcome.unwrap_err().to_string().contains("ends in the middle"));
}

/// An item whose JSON has this length in bytes.
fn item_of(length: usize) -> String {
    let item = |padding: &str| format!(r#"{{"metadata":{{"name":"a"}},"spec":"{padding}"}}"#);
    item(&"x".repeat(length - item("").len()))
}

#[test]
fn an_item_may_be_as_long_as_the_limit_and_no_longer_however_it_is_cut() {
    for cut in [1 << 14, usize::MAX] {
        let outcome = |length| {
            let page = format!(r#"{{"kind":"PodList","items":[{}]}}"#, item_of(length));
            decode(&page.as_bytes().chunks(cut).collect::<Vec<_>>()).1
        };
        assert!(outcome(ListDecoder::ITEM_LIMIT).is_ok());
        let error = outcome(ListDecoder::ITEM_LIMIT + 1).unwrap_err();
        assert!(error.to_string().contains("longer than 16777216 bytes"), "{error}");
    }
}

#[test]
fn an_item_that_never_ends_is_refused_at_the_limit() {
    let mut decoder = ListDecoder::new(pod());
    decoder.push(br#"{"kind":"PodList","items":[{"spec":""#, &mut |_| ()).unwrap();
    let piece = vec![b'x'; 1 << 20];
    let taken = (0..).take_while(|_| decoder.push(&piece, &mut |_| ()).is_ok()).count();
    assert!(taken <= 16, "{taken} MiB were taken");
}

#[test]
fn items_are_handed_on_while_the_answer_comes() {
    let mut decoder = ListDecoder::new(pod());
    let mut items = 0;
    decoder.push(br#"{"kind":"PodList","items":["#, &mut |_| ()).unwrap();
    let piece = format!("{},", item_of(9000));
    for _ in 0..100 {
        decoder.push(piece.as_bytes(), &mut |_| items += 1).unwrap();
    }
    assert!(items >= 90, "{items}");
}

proptest! {
    #[test]
    fn any_bytes_are_a_list_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = whole(bytes);
    }
}
