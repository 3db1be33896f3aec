//! The search for signatures.

use http::header::{HeaderMap, HeaderValue, LINK};

use super::*;
use crate::referrers::next_of;
use crate::signature::SIGNED;

/// Type of the bundles of cosign 3.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// Type of a configuration that says nothing.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// Puts a manifest with one layer there; its entry in a list of referrers.
fn attached(test: &TestRegistry, kind: &str, content: &str) -> Value {
    let mut manifest = test.put_artifact(&json!({"layers": [test.put(kind, content)]}));
    manifest["artifactType"] = json!(kind);
    manifest
}

/// A page of a list of referrers, with a link to the next one.
fn page(manifests: &[Value], next: Option<&str>) -> Response {
    let link = next.map(|next| format!("link: <{next}>; rel=\"next\"\r\n"));
    ("200 OK", link.unwrap_or_default(), json!({"manifests": manifests}).to_string().into_bytes())
}

#[tokio::test]
async fn a_signature_is_found_and_counts_by_its_key() {
    let test = TestRegistry::start().await;
    let pushed = test.put_component();
    let (key, other) = (TestKey::generate(), TestKey::generate());
    let verify = async |key: &TestKey| test.registry().verify(&pushed, &key.keys()).await;
    let error = verify(&key).await.unwrap_err().to_string();
    assert!(error.contains("has no signature; sign it with"), "{error}");

    // In the index of the tag, as cosign does where there is no list, beside a document that is no signature.
    let mut manifests = vec![attached(&test, SBOM, "{}")];
    let mut attach = |bundle: String| {
        manifests.push(attached(&test, BUNDLE, &bundle));
        test.put_manifest(&tag_of(&pushed), &json!({"manifests": manifests}));
    };
    attach(key.bundle(SIGNED, &pushed));
    verify(&key).await.unwrap();
    let error = verify(&other).await.unwrap_err().to_string();
    assert!(error.contains("none of 1 signatures"), "{error}");
    attach(other.bundle(SIGNED, &pushed));
    verify(&other).await.unwrap();
    let error = verify(&TestKey::generate()).await.unwrap_err().to_string();
    assert!(error.contains("none of 2 signatures"), "{error}");
}

#[tokio::test]
async fn a_search_looks_at_32_signatures_and_says_that_there_are_more() {
    let test = TestRegistry::start().await;
    let pushed = test.put_component();
    let key = TestKey::generate();
    let wrong = attached(&test, BUNDLE, &TestKey::generate().bundle(SIGNED, &pushed));
    let right = attached(&test, BUNDLE, &key.bundle(SIGNED, &pushed));
    for (before, is_found) in [(31, true), (32, false)] {
        let mut manifests = vec![wrong.clone(); before];
        manifests.push(right.clone());
        test.put_manifest(&tag_of(&pushed), &json!({"manifests": manifests}));
        let verified = test.registry().verify(&pushed, &key.keys()).await;
        assert_eq!(verified.is_ok(), is_found, "after {before}: {verified:?}");
        if let Err(error) = verified {
            let error = error.to_string();
            assert!(error.contains("none of 32 signatures") && error.contains("more is attached"), "{error}");
        }
    }
    let exactly = json!({"manifests": vec![wrong; 32]});
    test.put_manifest(&tag_of(&pushed), &exactly);
    let error = test.registry().verify(&pushed, &key.keys()).await.unwrap_err().to_string();
    assert!(error.contains("none of 32 signatures") && !error.contains("more is attached"), "{error}");
}

#[tokio::test]
async fn a_list_of_referrers_that_fails_is_the_error_and_without_one_the_tag_is_read() {
    let test = TestRegistry::start().await;
    let pushed = test.put_component();
    let key = TestKey::generate();
    let verify = async |referrers: Response| {
        test.content.lock().unwrap().referrers.insert(String::new(), referrers);
        test.registry().verify(&pushed, &key.keys()).await.map_err(|error| error.to_string())
    };
    let long = ("200 OK", String::new(), vec![b' '; 1_100_000]);
    let broken = ("200 OK", String::new(), b"{".to_vec());
    let failures = [
        (status("503 Service Unavailable"), "answered 503 Service Unavailable"),
        (status("429 Too Many Requests"), "answered 429 Too Many Requests"),
        (status("401 Unauthorized"), "refuses the list"),
        (long, "it has more than 1048576 bytes"),
        (broken, "cannot be read, at line 1"),
    ];
    for (referrers, words) in failures {
        let error = verify(referrers).await.unwrap_err();
        assert!(error.contains(words), "{error}");
    }
    let bundle = test.put(BUNDLE, &key.bundle(SIGNED, &pushed));
    let manifest = test.put_artifact(&json!({"layers": [bundle]}));
    test.put_manifest(&tag_of(&pushed), &json!({"manifests": [manifest]}));
    for absent in [
        "404 Not Found",
        "400 Bad Request",
        "405 Method Not Allowed",
        "406 Not Acceptable",
        "501 Not Implemented",
    ] {
        verify(status(absent)).await.unwrap();
    }
    // A page for people: elsewhere, or here.
    verify(("303 See Other", "location: http://people.example/\r\n".to_owned(), Vec::new())).await.unwrap();
    let html = "content-type: text/html; charset=utf-8\r\n".to_owned();
    verify(("200 OK", html, b"<html>".to_vec())).await.unwrap();
}

#[tokio::test]
async fn other_documents_hide_no_bundle() {
    let test = TestRegistry::start().await;
    let pushed = test.put_component();
    let (key, other) = (TestKey::generate(), TestKey::generate());
    let document = attached(&test, SBOM, "{}");
    let mut untyped = document.clone();
    untyped["artifactType"] = json!(null);
    let mut foreign = attached(&test, BUNDLE, "{}");
    foreign["digest"] = json!("sha512:a\nb");
    let mut bundle = attached(&test, BUNDLE, &key.bundle(SIGNED, &pushed));
    // Those that say what they are go before those that do not.
    for (kind, before) in [
        (json!(BUNDLE), vec![document.clone(), untyped]),
        (json!(null), vec![document.clone()]),
        (json!(""), vec![document.clone()]),
        (json!(EMPTY), vec![document]),
    ] {
        bundle["artifactType"] = kind.clone();
        let mut manifests: Vec<Value> = before.into_iter().flat_map(|one| vec![one; 40]).collect();
        manifests.extend([foreign.clone(), bundle.clone()]);
        test.put_manifest(&tag_of(&pushed), &json!({"manifests": manifests}));
        test.registry().verify(&pushed, &key.keys()).await.unwrap_or_else(|error| panic!("{kind}: {error}"));
        let error = test.registry().verify(&pushed, &other.keys()).await.unwrap_err().to_string();
        assert!(error.contains("none of 1 signatures"), "{error}");
    }
}

#[tokio::test]
async fn a_signature_on_a_later_page_of_the_list_is_found_behind_many_documents() {
    let test = TestRegistry::start().await;
    let pushed = test.put_component();
    let key = TestKey::generate();
    let documents = vec![attached(&test, SBOM, "{}"); 40];
    let bundle = attached(&test, BUNDLE, &key.bundle(SIGNED, &pushed));
    let path = format!("/v2/team/web/referrers/{}?page=2", pushed);
    let url = format!("http://{}{path}", test.address);
    let verify = async |first: Response, second: Response| {
        let pages = [(String::new(), first), ("page=2".to_owned(), second)];
        test.content.lock().unwrap().referrers.extend(pages);
        test.registry().verify(&pushed, &key.keys()).await.map_err(|error| error.to_string())
    };
    let second = page(&[bundle], None);
    let error = verify(page(&documents, None), second.clone()).await.unwrap_err();
    assert!(error.contains("has no signature"), "no page leads to the second one: {error}");
    let relative = [
        format!("./{}?page=2", pushed),
        format!("../referrers/{}?page=2", pushed),
        format!("//{}{path}", test.address),
    ];
    let relative = relative.each_ref().map(String::as_str);
    for next in ["?page=2", &path, &url].into_iter().chain(relative) {
        verify(page(&documents, Some(next)), second.clone()).await.unwrap_or_else(|e| panic!("{next}: {e}"));
    }
    let (status, link, _) = page(&[], Some("?page=2"));
    let long = (status, link, vec![b' '; 1_100_000]);
    let error = verify(long, second).await.unwrap_err();
    assert!(error.contains("it has more than 1048576 bytes"), "{error}");
}

#[tokio::test]
async fn a_list_without_end_is_read_for_32_pages_and_hides_no_signature_on_them() {
    let test = TestRegistry::start().await;
    let pushed = test.put_component();
    let (key, other) = (TestKey::generate(), TestKey::generate());
    let bundle = attached(&test, BUNDLE, &key.bundle(SIGNED, &pushed));
    let mut absent = bundle.clone();
    absent["digest"] = json!(digest_of(b"absent"));
    // The page names itself.
    let path = format!("/v2/team/web/referrers/{}", pushed);
    let first = page(&[absent, bundle], Some(&path));
    test.content.lock().unwrap().referrers.insert(String::new(), first);
    let verify = async |key: &TestKey| {
        test.content.lock().unwrap().lists = 0;
        let verified = test.registry().verify(&pushed, &key.keys()).await;
        assert_eq!(test.content.lock().unwrap().lists, 32);
        verified.map_err(|error| error.to_string())
    };
    verify(&key).await.unwrap();
    let error = verify(&other).await.unwrap_err();
    assert!(
        error.contains("has more than 32 pages") && error.contains("remove what is not needed"),
        "{error}"
    );
}

#[tokio::test]
async fn a_next_page_that_cannot_be_read_is_the_error_and_hides_no_signature() {
    let test = TestRegistry::start().await;
    let pushed = test.put_component();
    let (key, other) = (TestKey::generate(), TestKey::generate());
    let bundle = |key: &TestKey| attached(&test, BUNDLE, &key.bundle(SIGNED, &pushed));
    // The fallback tag is for registries without a list.
    test.put_manifest(&tag_of(&pushed), &json!({"manifests": [bundle(&other)]}));
    // A registry with a list has no page for people in it.
    let away = ("303 See Other", "location: /elsewhere\r\n".to_owned(), Vec::new());
    test.content.lock().unwrap().referrers.insert("page=away".to_owned(), away);
    for (next, words) in [
        ("http://unlisted.example/page", "unlisted.example is not among the hosts that may be asked"),
        ("//unlisted.example/page", "unlisted.example is not among the hosts that may be asked"),
        ("?page=none", "the registry answered 404 Not Found for the list"),
        ("?page=away", "the registry answered 303 See Other for the list"),
        ("ftp://page", "the registry named a URL that cannot be used"),
        ("a>, ", "the header Link that would name it cannot be read"),
    ] {
        let first = page(&[bundle(&key)], Some(next));
        test.content.lock().unwrap().referrers.insert(String::new(), first);
        test.registry().verify(&pushed, &key.keys()).await.unwrap();
        let error = test.registry().verify(&pushed, &other.keys()).await.unwrap_err().to_string();
        assert!(error.contains(words), "{next}: {error}");
    }
}

#[test]
fn a_link_is_read_as_registries_write_it_and_any_other_is_no_end_of_the_list() {
    for (link, wanted) in [
        (r#"</v2/a?last=b&n=1>; rel="next""#, Some("/v2/a?last=b&n=1")),
        ("<https://r.example/a>;rel=next", Some("https://r.example/a")),
        (r#"<>; rel="NEXT""#, Some("")),
        ("/1; rel=next", None),
        ("</1; rel=next", None),
        ("</1>", None),
        (r#"</1>; rel="first", </2>; rel="next""#, None),
        (r#"</1>; rel="next", </2>; rel="last""#, None),
        ("", None),
    ] {
        let headers = [(LINK, HeaderValue::from_str(link).unwrap())].into_iter().collect();
        let next = next_of(&headers).map_err(|error| error.to_string());
        match wanted {
            Some(wanted) => assert_eq!(next, Ok(Some(wanted.to_owned())), "{link}"),
            None => assert!(next.unwrap_err().contains("cannot be read"), "{link}"),
        }
    }
    assert_eq!(next_of(&HeaderMap::new()).unwrap(), None);
}

#[tokio::test]
async fn a_list_on_one_page_may_be_long_and_null_is_an_empty_one() {
    let test = TestRegistry::start().await;
    let pushed = test.put_component();
    let key = TestKey::generate();
    let verify = async |list: Response| {
        test.content.lock().unwrap().referrers.insert(String::new(), list);
        test.registry().verify(&pushed, &key.keys()).await
    };
    let mut manifests = vec![attached(&test, SBOM, "{}"); 2000];
    manifests.push(attached(&test, BUNDLE, &key.bundle(SIGNED, &pushed)));
    verify(page(&manifests, None)).await.unwrap();
    for empty in [json!({"manifests": null}), json!({"manifests": []}), json!({})] {
        let error = verify(("200 OK", String::new(), empty.to_string().into_bytes())).await.unwrap_err();
        assert!(error.to_string().starts_with("the artifact has no signature; sign it with"), "{error}");
    }
}

#[tokio::test]
async fn a_bundle_has_a_size_at_most_and_the_digest_of_its_entry() {
    let test = TestRegistry::start().await;
    let pushed = test.put_component();
    let key = TestKey::generate();
    let bundle = key.bundle(SIGNED, &pushed);
    let verify = async |entry: &Value| {
        test.put_manifest(&tag_of(&pushed), &json!({"manifests": [entry]}));
        test.registry().verify(&pushed, &key.keys()).await.map_err(|error| error.to_string())
    };
    verify(&attached(&test, BUNDLE, &(bundle.clone() + &" ".repeat(200_000)))).await.unwrap();
    let long = attached(&test, BUNDLE, &(bundle.clone() + &" ".repeat(300_000)));
    let error = verify(&long).await.unwrap_err();
    assert!(error.contains("it may have 262144"), "{error}");
    let mut entry = attached(&test, BUNDLE, &bundle);
    entry["digest"] = json!("sha512:00");
    assert!(verify(&entry).await.unwrap_err().contains("the artifact has no signature"));
    entry["digest"] = json!(digest_of(b"none"));
    let error = verify(&entry).await.unwrap_err();
    assert!(error.contains("the registry answered 404 Not Found for the manifest"), "{error}");
}
