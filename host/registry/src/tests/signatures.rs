//! The search for signatures.

use super::*;
use crate::SignatureKeys;
use crate::artifact::{EMPTY, MAX_MANIFEST};
use crate::signature::SIGNED;

/// Type of the bundles of cosign 3.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// Puts a manifest with one layer there; its entry in a list of referrers.
fn attached(test: &TestRegistry, kind: &str, content: &str) -> Descriptor {
    let mut manifest = test.put_artifact(&json!({"layers": [test.put(kind, content)]}));
    manifest.artifact_type = Some(kind.to_owned());
    manifest
}

/// A page of a list of referrers, with a link to the next one.
fn page(manifests: &[Descriptor], next: Option<&str>) -> Response {
    let link = next.map(|next| format!("link: <{next}>; rel=\"next\"\r\n"));
    ("200 OK", link.unwrap_or_default(), json!({"manifests": manifests}).to_string().into_bytes())
}

#[tokio::test]
async fn a_signature_is_found_and_counts_by_its_key() {
    let test = TestRegistry::start().await;
    let pushed = push(&test, None).await;
    let (key, other) = (TestKey::generate(), TestKey::generate());
    let verify = async |key: &TestKey| test.registry().verify(&pushed.digest, &key.keys()).await;
    let error = verify(&key).await.unwrap_err().to_string();
    assert!(error.contains("has no signature; sign it with"), "{error}");

    // As cosign does, beside a document that is no signature.
    push_with(&test, SBOM, "{}").await.unwrap();
    push_with(&test, BUNDLE, key.bundle(SIGNED, &pushed.digest)).await.unwrap();
    verify(&key).await.unwrap();
    let error = verify(&other).await.unwrap_err();
    assert!(
        matches!(error, RegistryError::Unsigned(_)) && error.to_string().contains("none of 1 signatures"),
        "{error}"
    );
    push_with(&test, BUNDLE, other.bundle(SIGNED, &pushed.digest)).await.unwrap();
    verify(&other).await.unwrap();
    let error = verify(&TestKey::generate()).await.unwrap_err().to_string();
    assert!(error.contains("none of 2 signatures"), "{error}");
}

#[tokio::test]
async fn a_search_looks_at_32_signatures_and_says_that_there_are_more() {
    let test = TestRegistry::start().await;
    let pushed = push(&test, None).await;
    let key = TestKey::generate();
    let put = |key: &TestKey| test.put(BUNDLE, &key.bundle(SIGNED, &pushed.digest));
    let wrong = put(&TestKey::generate());
    for (before, is_found) in [(31, true), (32, false)] {
        let mut layers = vec![wrong.clone(); before];
        layers.push(put(&key));
        let manifests: Vec<Descriptor> =
            layers.chunks(20).map(|layers| test.put_artifact(&json!({"layers": layers}))).collect();
        test.put_manifest(&tag_of(&pushed.digest), &json!({"manifests": manifests}));
        let verified = test.registry().verify(&pushed.digest, &key.keys()).await;
        assert_eq!(verified.is_ok(), is_found, "after {before}: {verified:?}");
        if let Err(error) = verified {
            let error = error.to_string();
            assert!(error.contains("none of 32 signatures") && error.contains("more is attached"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_list_of_referrers_that_fails_is_the_error_and_without_one_the_tag_is_read() {
    let test = TestRegistry::start().await;
    let pushed = push(&test, None).await;
    let key = TestKey::generate();
    let verify = async |referrers: Response| {
        test.content.lock().unwrap().referrers.insert(String::new(), referrers);
        test.registry().verify(&pushed.digest, &key.keys()).await.map_err(|error| error.to_string())
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
    let bundle = test.put(BUNDLE, &key.bundle(SIGNED, &pushed.digest));
    let manifest = test.put_artifact(&json!({"layers": [bundle]}));
    test.put_manifest(&tag_of(&pushed.digest), &json!({"manifests": [manifest]}));
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
async fn other_documents_hide_no_bundle_and_too_many_are_in_the_error() {
    let test = TestRegistry::start().await;
    let pushed = push(&test, None).await;
    let (key, other) = (TestKey::generate(), TestKey::generate());
    let document = attached(&test, SBOM, "{}");
    let mut foreign = document.clone();
    foreign.digest = "sha512:a\nb".to_owned();
    let mut bundle = attached(&test, BUNDLE, &key.bundle(SIGNED, &pushed.digest));
    for kind in [Some(BUNDLE), None, Some(""), Some(EMPTY)] {
        bundle.artifact_type = kind.map(str::to_owned);
        let mut manifests = vec![document.clone(); 31];
        manifests.extend([&foreign, &document].map(Descriptor::clone));
        manifests.push(bundle.clone());
        test.put_manifest(&tag_of(&pushed.digest), &json!({"manifests": manifests}));
        test.registry().verify(&pushed.digest, &key.keys()).await.unwrap();
        let error = test.registry().verify(&pushed.digest, &other.keys()).await.unwrap_err().to_string();
        assert!(error.contains("none of 1 signatures") && error.contains("more is attached"), "{error}");
    }
}

#[tokio::test]
async fn a_signature_on_a_later_page_of_the_list_is_found_behind_many_documents() {
    let test = TestRegistry::start().await;
    let pushed = push(&test, None).await;
    let key = TestKey::generate();
    let documents = vec![attached(&test, SBOM, "{}"); 40];
    let bundle = attached(&test, BUNDLE, &key.bundle(SIGNED, &pushed.digest));
    let path = format!("/v2/team/web/referrers/{}?page=2", pushed.digest);
    let url = format!("http://{}{path}", test.address);
    let verify = async |first: Response, second: Response| {
        let pages = [(String::new(), first), ("page=2".to_owned(), second)];
        test.content.lock().unwrap().referrers.extend(pages);
        test.registry().verify(&pushed.digest, &key.keys()).await.map_err(|error| error.to_string())
    };
    let second = page(&[bundle], None);
    let error = verify(page(&documents, None), second.clone()).await.unwrap_err();
    assert!(error.contains("has no signature"), "no page leads to the second one: {error}");
    let relative = [
        format!("./{}?page=2", pushed.digest),
        format!("../referrers/{}?page=2", pushed.digest),
        format!("//{}{path}", test.address),
    ];
    let relative = relative.each_ref().map(String::as_str);
    for next in ["?page=2", &path, &url].into_iter().chain(relative) {
        verify(page(&documents, Some(next)), second.clone()).await.unwrap_or_else(|e| panic!("{next}: {e}"));
    }
    // A redirect on the registry itself is followed, and the link is relative to where it leads.
    let moved =
        ("307 Temporary Redirect", "location: /v2/team/web/referrers/a/b?moved\r\n".to_owned(), vec![]);
    let there = page(&documents, Some("../c?page=2"));
    test.content.lock().unwrap().referrers.insert("moved".to_owned(), there);
    verify(moved, second.clone()).await.unwrap();
    let (status, link, _) = page(&[], Some("?page=2"));
    let long = (status, link, vec![b' '; 1_100_000]);
    verify(long.clone(), second).await.unwrap();
    let error = verify(long, page(&documents, None)).await.unwrap_err();
    assert!(error.contains("it has more than 1048576 bytes"), "{error}");
}

#[tokio::test]
async fn a_list_without_end_is_read_for_32_pages_and_hides_no_signature_on_them() {
    let test = TestRegistry::start().await;
    let pushed = push(&test, None).await;
    let (key, other) = (TestKey::generate(), TestKey::generate());
    let bundle = attached(&test, BUNDLE, &key.bundle(SIGNED, &pushed.digest));
    let mut absent = bundle.clone();
    absent.digest = digest_of(b"absent");
    // The page names itself.
    let path = format!("/v2/team/web/referrers/{}", pushed.digest);
    let first = page(&[absent, bundle], Some(&path));
    test.content.lock().unwrap().referrers.insert(String::new(), first);
    let verify = async |key: &TestKey| {
        test.content.lock().unwrap().lists = 0;
        let verified = test.registry().verify(&pushed.digest, &key.keys()).await;
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
    let pushed = push(&test, None).await;
    let (key, other) = (TestKey::generate(), TestKey::generate());
    let bundle = |key: &TestKey| attached(&test, BUNDLE, &key.bundle(SIGNED, &pushed.digest));
    // The fallback tag is for registries without a list.
    test.put_manifest(&tag_of(&pushed.digest), &json!({"manifests": [bundle(&other)]}));
    let elsewhere = format!("http://{}/v2/team/web/referrers", test.storage);
    let named = format!("on {}, which is another server than the registry", test.storage);
    // A registry with a list has no page for people in it.
    let away = ("303 See Other", format!("location: {elsewhere}\r\n"), Vec::new());
    test.content.lock().unwrap().referrers.insert("page=away".to_owned(), away);
    for (next, words) in [
        (elsewhere.as_str(), named.as_str()),
        (elsewhere.trim_start_matches("http:"), named.as_str()),
        ("?page=none", "the registry answered 404 Not Found for the list"),
        ("?page=away", "the registry answered 303 See Other for the list"),
        ("ftp://page", "the registry named a URL that cannot be used"),
        ("a>, ", "the header Link that would name it cannot be read: a link does not begin with <"),
    ] {
        let first = page(&[bundle(&key)], Some(next));
        test.content.lock().unwrap().referrers.insert(String::new(), first);
        test.registry().verify(&pushed.digest, &key.keys()).await.unwrap();
        let error = test.registry().verify(&pushed.digest, &other.keys()).await.unwrap_err().to_string();
        assert!(error.contains(words), "{next}: {error}");
    }
}

#[tokio::test]
async fn the_pages_of_a_list_have_a_size_together() {
    let test = TestRegistry::start().await;
    let pushed = push(&test, None).await;
    let path = format!("/v2/team/web/referrers/{}", pushed.digest);
    // It names itself.
    let (status, link, mut first) = page(&[], Some(&path));
    first.resize(1_000_000, b' ');
    test.content.lock().unwrap().referrers.insert(String::new(), (status, link, first));
    let error = test.registry().verify(&pushed.digest, &SignatureKeys::default()).await.unwrap_err();
    assert!(error.to_string().contains("or more than 8388608 bytes"), "{error}");
    assert_eq!(test.content.lock().unwrap().lists, 9, "the first pages with more than that");
}

#[tokio::test]
async fn a_list_on_one_page_may_be_long_and_null_is_an_empty_one() {
    let test = TestRegistry::start().await;
    let pushed = push(&test, None).await;
    let key = TestKey::generate();
    let verify = async |list: Response| {
        test.content.lock().unwrap().referrers.insert(String::new(), list);
        test.registry().verify(&pushed.digest, &key.keys()).await
    };
    let mut manifests = vec![attached(&test, SBOM, "{}"); 2000];
    manifests.push(attached(&test, BUNDLE, &key.bundle(SIGNED, &pushed.digest)));
    verify(page(&manifests, None)).await.unwrap();
    for empty in [json!({"manifests": null}), json!({"manifests": []}), json!({})] {
        let error = verify(("200 OK", String::new(), empty.to_string().into_bytes())).await.unwrap_err();
        assert!(matches!(error, RegistryError::Unsigned(_)), "{empty}: {error}");
        assert!(error.to_string().starts_with("the artifact has no signature; sign it with"), "{error}");
    }
}

#[tokio::test]
async fn an_attached_manifest_has_the_size_and_the_digest_of_its_entry() {
    let test = TestRegistry::start().await;
    let pushed = push(&test, None).await;
    let key = TestKey::generate();
    let entry = json!(attached(&test, BUNDLE, &key.bundle(SIGNED, &pushed.digest)));
    let size = entry["size"].as_u64().unwrap();
    let verify = async |field: &str, value: Value| {
        let mut entry = entry.clone();
        entry[field] = value;
        let list = json!({"manifests": [entry]}).to_string().into_bytes();
        test.content.lock().unwrap().referrers.insert(String::new(), ("200 OK", String::new(), list));
        test.registry().verify(&pushed.digest, &key.keys()).await.map_err(|error| error.to_string())
    };
    verify("size", json!(size)).await.unwrap();
    let told = format!("has {size} bytes, and {} as the list says", size + 1);
    for (field, value, words) in [
        ("size", json!(size + 1), told.as_str()),
        ("size", json!(MAX_MANIFEST + 1), "has 262145 bytes; it may have 262144"),
        ("size", json!(i64::MAX), "has 9223372036854775807 bytes; it may have 262144"),
        ("size", json!(-1), "has another type, as a negative size"),
        ("digest", json!("sha512:00"), "the artifact has no signature"),
        ("digest", json!("sha512:00"), "; more is attached to it than is looked at"),
        ("digest", json!(digest_of(b"none")), "the registry answered 404 Not Found for the manifest"),
    ] {
        let error = verify(field, value.clone()).await.unwrap_err();
        assert!(error.contains(words), "{field} {value}: {error}");
    }
}
