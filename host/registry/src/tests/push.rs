//! Pushes of components and documents.

use pilothouse_engine::HostClient;

use super::*;
use crate::SignatureKeys;
use crate::artifact::MAX_MANIFEST;

impl TestRegistry {
    /// What is there under a tag or a digest.
    fn manifest(&self, reference: &str) -> Value {
        serde_json::from_slice(&self.content.lock().unwrap().manifests[reference]).unwrap()
    }
}

#[tokio::test]
async fn documents_are_attached_beside_those_of_others() {
    let test = TestRegistry::start().await;
    // The first push makes the repository.
    let error = test.registry().tagged("v1").await.unwrap_err();
    assert!(matches!(error, RegistryError::Refused { .. }), "{error}");
    let pushed = push_with(&test, SBOM, "{}").await.unwrap();
    let tag = tag_of(&pushed.digest);
    let index = || test.manifest(&tag)["manifests"].as_array().unwrap().clone();
    let attached = index();
    assert_eq!((attached.len(), &attached[0]["artifactType"]), (1, &json!(SBOM)));
    assert!(attached[0]["size"].as_u64().unwrap() < 1024, "its form is fixed");
    push_with(&test, SBOM, "{}").await.unwrap();
    assert_eq!(index(), attached, "the same document");
    push_with(&test, SBOM, "{\"a\": 1}").await.unwrap();
    assert_eq!((index().len(), &index()[0]), (2, &attached[0]));
    let manifest = test.manifest(attached[0]["digest"].as_str().unwrap());
    assert_eq!(manifest["subject"]["digest"], json!(pushed.digest));
}

#[tokio::test]
async fn a_registry_with_the_referrers_api_gets_no_index() {
    let test = TestRegistry::start().await;
    test.content.lock().unwrap().referrers.insert(String::new(), status("200 OK"));
    let pushed = push_with(&test, SBOM, "{}").await.unwrap();
    let content = test.content.lock().unwrap();
    assert_eq!(content.manifests.len(), 2, "those of the component and of the document");
    assert!(!content.manifests.contains_key(&tag_of(&pushed.digest)));
}

#[tokio::test]
async fn a_registry_that_lists_by_itself_without_saying_so_gets_no_index_and_needs_no_room_in_one() {
    let test = TestRegistry::start().await;
    let pushed = push(&test, None).await;
    let full = json!({"manifests": vec![&pushed; 512]});
    test.put_manifest(&tag_of(&pushed.digest), &full);
    {
        let mut content = test.content.lock().unwrap();
        content.is_silent = true;
        content.referrers.insert(String::new(), ("200 OK", String::new(), b"{}".to_vec()));
    }
    push_with(&test, SBOM, "{}").await.unwrap();
    assert_eq!(test.manifest(&tag_of(&pushed.digest)), full);
    // A list that fails is not the lack of one.
    let failing = status("503 Service Unavailable");
    test.content.lock().unwrap().referrers.insert(String::new(), failing);
    let error = push_with(&test, SBOM, "{}").await.unwrap_err().to_string();
    assert!(error.contains("503 Service Unavailable for the list"), "{error}");
    assert_eq!(test.manifest(&tag_of(&pushed.digest)), full);
}

#[tokio::test]
async fn an_entry_that_another_client_overwrites_is_written_again_a_few_times() {
    let test = TestRegistry::start().await;
    let pushed = push(&test, None).await;
    let tag = tag_of(&pushed.digest);
    let other = json!(Descriptor::of(SBOM, b"other"));
    for (rivals, is_there) in [(1, true), (2, true), (3, false)] {
        test.put_manifest(&tag, &json!({"manifests": []}));
        test.content.lock().unwrap().rivals = vec![json!({"manifests": [&other]}); rivals];
        let attached = push_with(&test, SBOM, "{}").await;
        assert_eq!(attached.is_ok(), is_there, "{rivals}: {attached:?}");
        let index = test.manifest(&tag)["manifests"].as_array().unwrap().clone();
        assert_eq!((&index[0], index.len()), (&other, if is_there { 2 } else { 1 }), "{rivals}");
        if let Err(error) = attached {
            let error = error.to_string();
            assert!(
                error.contains(&tag) && error.contains("others write it at the same time; push it again")
            );
        }
    }
}

#[tokio::test]
async fn a_tag_that_a_registry_takes_for_the_digest_is_no_index() {
    let test = TestRegistry::start().await;
    let pushed = push(&test, None).await;
    let (tag, artifact) = (tag_of(&pushed.digest), test.manifest(&pushed.digest));
    test.put_manifest(&tag, &artifact);
    push_with(&test, SBOM, "{}").await.unwrap();
    assert_eq!(test.manifest(&tag)["manifests"].as_array().unwrap().len(), 1);
    let nothing = json!({"manifests": null});
    test.put_manifest(&tag, &nothing);
    push_with(&test, SBOM, "{}").await.unwrap();
    assert_eq!(test.manifest(&tag)["manifests"].as_array().unwrap().len(), 1);
    // Any other manifest is someone's.
    test.put_manifest(&tag, &json!({"layers": []}));
    let error = push_with(&test, SBOM, "{}").await.unwrap_err().to_string();
    assert!(error.contains("is not an index of what is attached; remove the tag"), "{error}");
}

#[tokio::test]
async fn the_place_of_an_upload_may_be_relative_to_where_it_was_asked_for() {
    for place in ["1?a=b", "./1?a=b", "../uploads/1?a=b", "/v2/team/web/blobs/uploads/1?a=b"] {
        let places = Arc::new(Mutex::new(Vec::new()));
        let asked = Arc::clone(&places);
        let address = server(move |request| {
            if request.head.starts_with("post ") {
                return ("202 Accepted", format!("location: {place}\r\n"), Vec::new());
            }
            if request.head.starts_with("put ") && request.path.contains("/blobs/") {
                asked.lock().unwrap().push(request.path.clone());
            }
            match request.head.starts_with("put ") {
                true => status("201 Created"),
                false => status("404 Not Found"),
            }
        })
        .await;
        let mut registry = Registry::new(options(&address, &[format!("http://{address}")])).unwrap();
        let component = Bytes::from_static(b"component");
        let world = ComponentWorld::default();
        registry.push(component, &world, None, None).await.unwrap();
        let digest = digest_of(b"component");
        let places = places.lock().unwrap();
        assert_eq!(places[0], format!("/v2/team/web/blobs/uploads/1?a=b&digest={digest}"), "{place}");
        assert_eq!(places.len(), 2, "{place}");
    }
}

#[tokio::test]
async fn what_hosts_do_not_read_is_refused_before_anything_is_uploaded() {
    let test = TestRegistry::start().await;
    let pushed = push(&test, None).await;
    let tag = tag_of(&pushed.digest);
    let others = |count, length| {
        let mut other = json!(pushed);
        other["annotations"] = json!({"a": "x".repeat(length)});
        json!({"manifests": vec![other; count]})
    };
    // The index of the tag, and whether it has room for one more manifest.
    for (index, has_room) in [
        (others(511, 0), true),
        (others(512, 0), false),
        (others(1, 261_000), true),
        (others(1, 261_900), false),
    ] {
        let mut content = Content::default();
        let before = index.to_string().into_bytes();
        assert!(before.len() <= MAX_MANIFEST, "hosts read the index before the push");
        content.manifests.insert(tag.clone(), before);
        *test.content.lock().unwrap() = content;
        match push_with(&test, SBOM, "{}").await {
            Ok(_) => {
                assert!(has_room);
                let verified = test.registry().verify(&pushed.digest, &SignatureKeys::default()).await;
                assert!(matches!(verified, Err(RegistryError::Unsigned(_))), "{verified:?}");
            }
            Err(error) => {
                let error = error.to_string();
                assert!(!has_room && error.contains(&tag), "{error}");
                assert!(error.contains("hosts read 512 and 262144: remove what is not needed"), "{error}");
                let content = test.content.lock().unwrap();
                assert!(content.blobs.is_empty() && content.manifests.len() == 1);
            }
        }
    }
}

#[tokio::test]
async fn a_document_that_is_too_large_is_refused_before_the_component_is_uploaded() {
    let test = TestRegistry::start().await;
    let error = push_with(&test, SBOM, vec![b' '; HostClient::MAX_BODY as usize + 1]).await.unwrap_err();
    let error = error.to_string();
    assert!(
        error.starts_with("the document to attach has 16777217 bytes; what is pushed may have"),
        "{error}"
    );
    assert!(test.content.lock().unwrap().blobs.is_empty());
}

#[tokio::test]
async fn a_manifest_does_not_grow_with_the_component_and_its_interfaces() {
    let test = TestRegistry::start().await;
    let names = vec!["a".repeat(100); 5000];
    let world = ComponentWorld { exports: names.clone(), imports: names };
    let component = Bytes::from(vec![0; 1 << 20]);
    let pushed = test.registry().push(component, &world, None, None).await.unwrap();
    assert!(pushed.size < 1024, "{}", test.manifest(&pushed.digest));
    let large = |blob: &&Vec<u8>| blob.len() > MAX_MANIFEST;
    assert_eq!(test.content.lock().unwrap().blobs.values().filter(large).count(), 2);
    test.registry().artifact(&pushed.digest).await.unwrap().component().unwrap();
}
