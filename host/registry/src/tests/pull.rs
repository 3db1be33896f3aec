//! Requests to a registry, and artifacts that are pulled.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::*;
use crate::SignatureKeys;

async fn pulled(registry: &mut Registry, manifest: &str) -> Result<Vec<u8>, RegistryError> {
    let artifact = registry.artifact(manifest).await?;
    registry.layer_content(artifact.component()?).await
}

#[tokio::test]
async fn what_was_pushed_is_pulled_with_a_token_and_from_the_storage_without_it() {
    let test = TestRegistry::start().await;
    let pushed = push(&test, Some("v1")).await;
    assert_eq!(push(&test, None).await, pushed, "the same component is the same artifact");
    assert_eq!(pulled(&mut test.registry(), &pushed.digest).await.unwrap(), b"component");
    let tagged = test.content.lock().unwrap().manifests["v1"].clone();
    assert_eq!(digest_of(&tagged), pushed.digest);
    let artifact = test.registry().artifact(&pushed.digest).await.unwrap();
    assert!(artifact.layer(&digest_of(b"component")).is_ok());
    let error = artifact.layer(&digest_of(b"other")).unwrap_err().to_string();
    assert!(error.contains(&digest_of(b"component")) && error.contains(&digest_of(b"other")), "{error}");
    let other = test.put_artifact(&json!({"layers": [test.put("text/plain", "component")]}));
    let other = test.registry().artifact(&other.digest).await.unwrap();
    let error = other.layer(&digest_of(b"component")).unwrap_err().to_string();
    assert!(error.contains("does not have the type application/wasm"), "{error}");
}

#[tokio::test]
async fn each_host_is_one_of_the_list_and_a_login_that_is_missing_is_named() {
    let test = TestRegistry::start().await;
    let manifest = push(&test, None).await.digest;
    let only = |host: &str| [ComponentHost::parse(&format!("http://{host}")).unwrap()].into_iter().collect();
    let mut registry =
        Registry::new(RegistryOptions { hosts: only(&test.address), ..test.options() }).unwrap();
    let error = pulled(&mut registry, &manifest).await.unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("{} is not among", test.storage)) && !error.contains("secret"),
        "{error}"
    );
    let refused = Registry::new(RegistryOptions { hosts: only(&test.storage), ..test.options() });
    let error = refused.unwrap_err().to_string();
    assert!(error.starts_with(&format!("{} is not among", test.address)), "{error}");
    let mut registry = Registry::new(RegistryOptions { login: None, ..test.options() }).unwrap();
    let error = pulled(&mut registry, &manifest).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "the registry refuses a token (401 Unauthorized); name a login that may have it in the test"
    );
}

#[tokio::test]
async fn a_registry_with_tls_leads_nowhere_without() {
    let entries = ["r.example", "http://r.example", "http://other.example"].map(str::to_owned);
    let registry = Registry::new(options("r.example", &entries)).unwrap();
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
        let mut registry = Registry::new(options(&address, &[format!("http://{address}")])).unwrap();
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
    let mut registry = Registry::new(options(&address, &[format!("http://{address}")])).unwrap();
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
        let options = RegistryOptions { login: test.options().login, ..options(&address, &hosts) };
        let mut registry = Registry::new(options).unwrap();
        let error = registry.artifact(&digest_of(b"")).await.unwrap_err().to_string();
        assert!(error.starts_with(words), "{realm}: {error}");
        assert_eq!(asked.load(Relaxed), 0, "{realm}");
    }
}

#[tokio::test]
async fn content_is_that_of_its_digest_and_size() {
    let test = TestRegistry::start().await;
    let manifest = push(&test, None).await.digest;
    let component = digest_of(b"component");
    for (blob, words) in [
        (&b"componenT"[..], format!("the registry sent {} for", digest_of(b"componenT"))),
        (&b"component and more"[..], "it has more than the 9 bytes".to_owned()),
    ] {
        test.content.lock().unwrap().blobs.insert(component.clone(), blob.to_vec());
        let error = pulled(&mut test.registry(), &manifest).await.unwrap_err().to_string();
        assert!(error.contains(&words), "{error}");
    }
    test.content.lock().unwrap().blobs.insert(component, b"component".to_vec());
    let layer = |field: &str, value: Value| {
        let mut layer = json!(Descriptor::of("application/wasm", b"component"));
        layer[field] = value;
        test.put_artifact(&json!({"layers": [layer]}))
    };
    for (field, value, words) in [
        ("size", json!(10), "it has 9 bytes, and 10 as the manifest says"),
        ("size", json!(i64::MAX), "has 9223372036854775807 bytes; it may have 16777216"),
        ("size", json!(-1), "the manifest cannot be read, at line 1 and column"),
        ("digest", json!("sha512:00"), "a layer whose digest is not sha256:"),
        (
            "urls",
            json!(["http://elsewhere.example/a"]),
            "has `urls`, and layers are fetched from the registry",
        ),
    ] {
        let error = pulled(&mut test.registry(), &layer(field, value).digest).await.unwrap_err().to_string();
        assert!(error.contains(words), "{field}: {error}");
    }
    for none in [json!([]), json!(null)] {
        pulled(&mut test.registry(), &layer("urls", none).digest).await.unwrap();
    }
    let nothing = test.put_artifact(&json!({"layers": null}));
    let error = pulled(&mut test.registry(), &nothing.digest).await.unwrap_err().to_string();
    assert!(error.contains("the artifact has no layer of the type application/wasm"), "{error}");
    test.put_manifest(&manifest, &json!({"layers": []}));
    let error = pulled(&mut test.registry(), &manifest).await.unwrap_err().to_string();
    assert!(error.contains("the registry sent the manifest sha256:"), "{error}");
    let error = pulled(&mut test.registry(), &digest_of(b"none")).await.unwrap_err().to_string();
    assert_eq!(error, "the registry answered 404 Not Found for the manifest");
}

#[tokio::test]
async fn a_manifest_and_an_index_have_a_size_and_a_number_of_entries_at_most() {
    let test = TestRegistry::start().await;
    let long = test.put_artifact(&json!({"layers": [], "annotations": {"a": "x".repeat(300_000)}}));
    let error = test.registry().artifact(&long.digest).await.unwrap_err().to_string();
    assert_eq!(error, "the manifest: it has more than 262144 bytes");
    let layer = test.put("text/plain", "a");
    let most = test.put_artifact(&json!({"layers": vec![&layer; 512]}));
    test.registry().artifact(&most.digest).await.unwrap();
    let many = test.put_artifact(&json!({"layers": vec![&layer; 513]}));
    let error = test.registry().artifact(&many.digest).await.unwrap_err().to_string();
    assert_eq!(error, "`layers` has 513 entries; it may have 512");
    let mut forged = layer.clone();
    forged["digest"] = json!("sha256:a\nforged");
    let forged = test.put_artifact(&json!({"layers": [layer, forged]}));
    let error = test.registry().artifact(&forged.digest).await.unwrap_err().to_string();
    assert!(error.contains("a layer whose digest is not sha256:") && !error.contains("forged"), "{error}");
    let pushed = push(&test, None).await;
    test.put_manifest(&tag_of(&pushed.digest), &json!({"manifests": vec![&layer; 513]}));
    let error = test.registry().verify(&pushed.digest, &SignatureKeys::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "`manifests` has 513 entries; it may have 512");
}
