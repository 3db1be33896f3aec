//! Requests to a registry, and artifacts that are pulled.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::*;
use crate::SignatureKeys;

async fn pulled(registry: &mut Registry, manifest: &str) -> Result<Vec<u8>, RegistryError> {
    let artifact = registry.artifact(manifest).await?;
    registry.layer_content(artifact.component(None)?).await
}

#[tokio::test]
async fn a_component_is_pulled_with_a_token_and_from_the_storage_without_it() {
    let test = TestRegistry::start().await;
    let manifest = test.put_component();
    assert_eq!(pulled(&mut test.registry(), &manifest).await.unwrap(), b"component");
    let artifact = test.registry().artifact(&manifest).await.unwrap();
    let found = artifact.component(Some(&digest_of(b"component"))).unwrap();
    assert_eq!(found, artifact.component(None).unwrap());
    let error = artifact.component(Some(&digest_of(b"other"))).unwrap_err().to_string();
    assert!(error.contains(&digest_of(b"component")) && error.contains(&digest_of(b"other")), "{error}");
    let layer = |kind: &str, content: &str| test.put(kind, content);
    for (layers, wanted) in [
        (json!([layer("text/plain", "component")]), None),
        (json!([layer("text/plain", "a"), layer("application/wasm", "b")]), Some(digest_of(b"b"))),
        (json!([layer("application/wasm", "a"), layer("application/wasm", "b")]), None),
        (json!([]), None),
        (json!(null), None),
    ] {
        let artifact = digest(&test.put_artifact(&json!({"layers": layers})));
        let artifact = test.registry().artifact(&artifact).await.unwrap();
        match (artifact.component(None), wanted) {
            (Ok(found), Some(wanted)) => assert_eq!(found.digest, wanted),
            (Err(error), None) => {
                let error = error.to_string();
                assert!(
                    error.contains("has to have one layer of the type application/wasm, and has ["),
                    "{error}"
                );
            }
            (found, wanted) => panic!("{layers}: {found:?} {wanted:?}"),
        }
    }
}

#[tokio::test]
async fn each_host_is_one_of_the_list_and_a_login_that_is_missing_is_named() {
    let test = TestRegistry::start().await;
    let manifest = test.put_component();
    let [own, storage] = test.hosts();
    let mut with_own = registry(&test.address, &[own], Some(test.login())).unwrap();
    let error = pulled(&mut with_own, &manifest).await.unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("{} is not among", test.storage)) && !error.contains("secret"),
        "{error}"
    );
    let error = registry(&test.address, &[storage], None).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{} is not among", test.address)), "{error}");
    let mut without = registry(&test.address, &test.hosts(), None).unwrap();
    let error = pulled(&mut without, &manifest).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "the registry refuses a token (401 Unauthorized); name a login that may have it in the test"
    );
}

#[tokio::test]
async fn a_registry_with_tls_leads_nowhere_without() {
    let entries = ["r.example", "http://r.example", "http://other.example"].map(str::to_owned);
    let registry = registry("r.example", &entries, None).unwrap();
    let from = registry.url("manifests/v1").unwrap();
    assert_eq!(from.to_string(), "https://r.example/v2/team/web/manifests/v1");
    let presigned = format!("https://storage.example/1?token={}", "x".repeat(5000));
    for (location, wanted) in [
        ("/v2/web/blobs/1?x", Some("https://r.example/v2/web/blobs/1?x")),
        ("?page=2", Some("https://r.example/v2/team/web/manifests/v1?page=2")),
        ("https://storage.example/1", Some("https://storage.example/1")),
        ("http://r.example/1", None),
        ("http://other.example/1", None),
        ("//other.example/1", Some("https://other.example/1")),
        ("https://user@other.example/1", None),
        ("1", Some("https://r.example/v2/team/web/manifests/1")),
        ("../blobs/1", Some("https://r.example/v2/team/web/blobs/1")),
        ("HTTP://r.example/1", None),
        ("HTTPS://r.example/a/../1", Some("https://r.example/1")),
        ("./1?a=../b:c", Some("https://r.example/v2/team/web/manifests/1?a=../b:c")),
        (
            "https://s.example/a%2Fb?X-Amz-Signature=a%2B/~%20b%3D",
            Some("https://s.example/a%2Fb?X-Amz-Signature=a%2B/~%20b%3D"),
        ),
        ("ftp://r.example/1", None),
        ("/1#a", None),
        (presigned.as_str(), Some(presigned.as_str())),
    ] {
        let url = registry.resolve(&from, location).map(|url| url.to_string());
        assert_eq!(url.ok().as_deref(), wanted, "{location}");
    }
}

#[tokio::test]
async fn a_registry_that_leads_nowhere_or_refuses_each_token_is_asked_a_few_times() {
    let again: Response = ("307 Temporary Redirect", "location: /again\r\n".to_owned(), Vec::new());
    let challenge = "www-authenticate: Bearer realm=\"/token\"\r\n".to_owned();
    let refused: Response = ("401 Unauthorized", challenge, Vec::new());
    let token = |length| json!({"token": "t".repeat(length)}).to_string().into_bytes();
    for (answer, token, requests, words) in [
        (again, token(1), 4, "the registry redirects a request more than 3 times"),
        (refused.clone(), token(1), 3, "the registry refuses the manifest (401 Unauthorized)"),
        (refused, token(65_536), 2, "a token: it has more than 65536 bytes"),
    ] {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let address = server(move |request| {
            counted.fetch_add(1, Relaxed);
            match request.path.as_str() {
                "/token" => ("200 OK", String::new(), token.clone()),
                _ => answer.clone(),
            }
        })
        .await;
        let mut registry = registry(&address, &[format!("http://{address}")], None).unwrap();
        let error = registry.artifact(&digest_of(b"")).await.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(count.load(Relaxed), requests, "{words}");
    }
}

#[tokio::test]
async fn a_token_that_holds_for_one_request_is_asked_for_again() {
    let manifest = json!({"layers": []}).to_string().into_bytes();
    let digest = digest_of(&manifest);
    // The number of the last token, and of the last one that was used.
    let tokens = Arc::new(Mutex::new((0, 0)));
    let of_server = Arc::clone(&tokens);
    let address = server(move |request| {
        let mut state = of_server.lock().unwrap();
        let (last, used) = &mut *state;
        if request.path == "/token" {
            *last += 1;
            let answer = json!({"token": format!("t{last}"), "expires_in": 0});
            return ("200 OK", String::new(), answer.to_string().into_bytes());
        }
        if last != used && request.has(&format!("authorization: bearer t{last}")) {
            *used = *last;
            return ("200 OK", String::new(), manifest.clone());
        }
        ("401 Unauthorized", "www-authenticate: Bearer realm=\"/token\"\r\n".to_owned(), Vec::new())
    })
    .await;
    let mut registry = registry(&address, &[format!("http://{address}")], None).unwrap();
    for count in 1..=3 {
        registry.artifact(&digest).await.unwrap();
        assert_eq!(*tokens.lock().unwrap(), (count, count));
    }
}

#[tokio::test]
async fn a_login_goes_to_no_server_that_is_not_listed_or_that_a_server_of_tokens_leads_to() {
    let test = TestRegistry::start().await;
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let other = server(move |_| {
        counted.fetch_add(1, Relaxed);
        ("200 OK", String::new(), br#"{"token":"t"}"#.to_vec())
    })
    .await;
    let away = format!("http://{other}/token");
    let not_listed = format!("{other} is not among the hosts that may be asked");
    for (realm, is_listed, words) in [
        (away.as_str(), false, not_listed.as_str()),
        (away.trim_start_matches("http:"), false, not_listed.as_str()),
        ("/token", true, "the registry answered 307 Temporary Redirect for a token"),
        ("/token#a", true, "the registry named a URL that cannot be used: it has a fragment"),
        ("ftp://a/token", true, "the registry named a URL that cannot be used"),
    ] {
        let (challenge, away) = (format!("www-authenticate: Bearer realm=\"{realm}\"\r\n"), away.clone());
        let address = server(move |request| match request.path.as_str() {
            "/token" => ("307 Temporary Redirect", format!("location: {away}\r\n"), Vec::new()),
            _ => ("401 Unauthorized", challenge.clone(), Vec::new()),
        })
        .await;
        let mut hosts = vec![format!("http://{address}")];
        hosts.extend(is_listed.then(|| format!("http://{other}")));
        let mut registry = registry(&address, &hosts, Some(test.login())).unwrap();
        let error = registry.artifact(&digest_of(b"")).await.unwrap_err().to_string();
        assert!(error.starts_with(words), "{realm}: {error}");
        assert_eq!(asked.load(Relaxed), 0, "{realm}");
    }
}

#[tokio::test]
async fn content_is_that_of_its_digest_and_size() {
    let test = TestRegistry::start().await;
    let manifest = test.put_component();
    let component = digest_of(b"component");
    for (blob, words) in [
        (&b"componenT"[..], format!("the registry sent 9 bytes with the digest {}", digest_of(b"componenT"))),
        (&b"component and more"[..], "it has more than the 9 bytes".to_owned()),
    ] {
        test.content.lock().unwrap().blobs.insert(component.clone(), blob.to_vec());
        let error = pulled(&mut test.registry(), &manifest).await.unwrap_err().to_string();
        assert!(error.contains(&words), "{error}");
    }
    test.content.lock().unwrap().blobs.insert(component, b"component".to_vec());
    let layer = |field: &str, value: Value| {
        let mut layer = descriptor("application/wasm", b"component");
        layer[field] = value;
        digest(&test.put_artifact(&json!({"layers": [layer]})))
    };
    for (field, value, words) in [
        ("size", json!(10), "the registry sent 9 bytes with the digest"),
        ("size", json!(i64::MAX), "it has 9223372036854775807 bytes; it may have 16777216"),
        ("size", json!(-1), "the manifest cannot be read, at line 1 and column"),
        ("digest", json!("sha512:00"), "has to have one layer of the type application/wasm, and has []"),
        (
            "digest",
            json!("sha256:a\nforged"),
            "has to have one layer of the type application/wasm, and has []",
        ),
    ] {
        let error = pulled(&mut test.registry(), &layer(field, value)).await.unwrap_err().to_string();
        assert!(error.contains(words), "{field}: {error}");
    }
    test.put_manifest(&manifest, &json!({"layers": []}));
    let error = pulled(&mut test.registry(), &manifest).await.unwrap_err().to_string();
    assert!(error.contains("the registry sent the manifest sha256:"), "{error}");
    let error = pulled(&mut test.registry(), &digest_of(b"none")).await.unwrap_err().to_string();
    assert_eq!(error, "the registry answered 404 Not Found for the manifest");
}

#[tokio::test]
async fn a_manifest_and_an_index_have_a_size_at_most() {
    let test = TestRegistry::start().await;
    let padded = |length: usize| json!({"layers": [], "annotations": {"a": "x".repeat(length)}});
    test.registry().artifact(&digest(&test.put_artifact(&padded(262_000)))).await.unwrap();
    let long = digest(&test.put_artifact(&padded(300_000)));
    let error = test.registry().artifact(&long).await.unwrap_err().to_string();
    assert_eq!(error, "the manifest: it has more than 262144 bytes");
    let pushed = test.put_component();
    test.put_manifest(&tag_of(&pushed), &padded(300_000));
    let error = test.registry().verify(&pushed, &SignatureKeys::default()).await.unwrap_err();
    assert!(error.to_string().ends_with("it has more than 262144 bytes"), "{error}");
}
