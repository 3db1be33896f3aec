//! The search for signatures.

use super::*;
use crate::RegistryError;
use crate::signature::SIGNED;

/// Type of the bundles of cosign 3.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

#[tokio::test]
async fn a_signature_is_found_in_both_forms_and_counts_by_its_key() {
    let test = TestRegistry::start().await;
    let pushed = push(&test, None).await;
    let (key, other) = (TestKey::generate(), TestKey::generate());
    let verify = async |key: &TestKey| test.registry().verify(&pushed.digest, &key.keys()).await;
    let error = verify(&key).await.unwrap_err().to_string();
    assert!(error.contains("has no signature; sign it with"), "{error}");

    test.put_signature(&pushed, &key);
    verify(&key).await.unwrap();
    let error = verify(&other).await.unwrap_err();
    assert!(
        matches!(error, RegistryError::Unsigned(_)) && error.to_string().contains("none of 1 signatures"),
        "{error}"
    );

    // As cosign 3 does, beside a document that is no signature.
    let attach = async |kind: &str, text: String| {
        test.registry().attach(&pushed, kind, text.into()).await.unwrap();
    };
    attach("application/vnd.cyclonedx+json", "{}".to_owned()).await;
    attach(BUNDLE, other.bundle(SIGNED, &pushed.digest)).await;
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
async fn a_list_of_referrers_that_fails_hides_no_payload_and_is_the_error_without_one() {
    let test = TestRegistry::start().await;
    let pushed = push(&test, None).await;
    let key = TestKey::generate();
    let verify = async |referrers: Response| {
        test.content.lock().unwrap().referrers = Some(referrers);
        test.registry().verify(&pushed.digest, &key.keys()).await.map_err(|error| error.to_string())
    };
    let long = ("200 OK", String::new(), vec![b' '; 300_000]);
    let broken = ("200 OK", String::new(), b"{".to_vec());
    let failures = [
        (status("503 Service Unavailable"), "answered 503 Service Unavailable"),
        (status("429 Too Many Requests"), "answered 429 Too Many Requests"),
        (status("401 Unauthorized"), "refuses the list"),
        (long, "it has more than 262144 bytes"),
        (broken, "cannot be read"),
    ];
    for (referrers, words) in &failures {
        let error = verify(referrers.clone()).await.unwrap_err();
        assert!(error.contains(words), "{error}");
    }
    test.put_signature(&pushed, &key);
    for (referrers, _) in failures {
        verify(referrers).await.unwrap();
    }
    test.content.lock().unwrap().manifests.retain(|name, _| !name.ends_with(".sig"));
    let bundle = test.put(BUNDLE, &key.bundle(SIGNED, &pushed.digest));
    let manifest = test.put_artifact(&json!({"layers": [bundle]}));
    test.put_manifest(&tag_of(&pushed.digest), &json!({"manifests": [manifest]}));
    for absent in ["404 Not Found", "400 Bad Request", "406 Not Acceptable"] {
        verify(status(absent)).await.unwrap();
    }
}

#[tokio::test]
async fn other_documents_hide_no_bundle_and_too_many_are_in_the_error() {
    let test = TestRegistry::start().await;
    let pushed = push(&test, None).await;
    let (key, other) = (TestKey::generate(), TestKey::generate());
    let attached = |layer: Value, kind: Option<&str>| {
        let mut manifest = test.put_artifact(&json!({"layers": [layer]}));
        manifest.artifact_type = kind.map(str::to_owned);
        manifest
    };
    let document =
        attached(test.put("application/vnd.cyclonedx+json", "{}"), Some("application/vnd.cyclonedx+json"));
    let mut foreign = document.clone();
    foreign.digest = "sha512:a\nb".to_owned();
    for kind in [Some(BUNDLE), None] {
        let mut manifests = vec![document.clone(); 31];
        manifests.extend([&foreign, &document].map(Descriptor::clone));
        manifests.push(attached(test.put(BUNDLE, &key.bundle(SIGNED, &pushed.digest)), kind));
        test.put_manifest(&tag_of(&pushed.digest), &json!({"manifests": manifests}));
        test.registry().verify(&pushed.digest, &key.keys()).await.unwrap();
        let error = test.registry().verify(&pushed.digest, &other.keys()).await.unwrap_err().to_string();
        assert!(error.contains("none of 1 signatures") && error.contains("more is attached"), "{error}");
    }
}
