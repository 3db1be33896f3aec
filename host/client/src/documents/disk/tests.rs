use proptest::prelude::*;

use super::*;

#[test]
fn hosts_are_named_as_kubectl_names_them() {
    for (server, folder) in [
        ("https://127.0.0.1:6443", "127.0.0.1_6443"),
        ("http://localhost:8080", "localhost_8080"),
        ("https://k8s.example.com", "k8s.example.com"),
        ("https://my-cluster.example:443/k8s/clusters/c-1", "my_cluster.example_443/k8s/clusters/c_1"),
        ("https://[::1]:6443", "___1__6443"),
        ("https://host:1/a/../../../etc", "host_1/a/etc"),
    ] {
        assert_eq!(host_folder(server), Path::new(folder), "{server}");
    }
}

#[test]
fn the_cache_is_where_kubectl_has_it() {
    let home = || Some(PathBuf::from("/home/me"));
    assert_eq!(default_dir(None, home()), Path::new("/home/me/.kube/cache"));
    assert_eq!(default_dir(Some("/cache".into()), home()), Path::new("/cache"));
    let options = DiskCacheOptions { cache_dir: Some("/mine".into()), ..DiskCacheOptions::default() };
    assert_eq!(options.folder("https://h:1"), Path::new("/mine/discovery/h_1"));
    assert_eq!(options.ttl, Duration::from_secs(600));
}

proptest! {
    #[test]
    fn no_name_leads_out_of_the_folder(group in "[a-z./\\\\]{0,12}|\\PC{0,12}", version in "[a-z./\\\\]{0,12}|\\PC{0,12}") {
        if let Some(name) = list_name(&GroupVersion::new(&group, &version)) {
            let parts = Path::new(&name).components().collect::<Vec<_>>();
            prop_assert!(parts.iter().all(|part| matches!(part, Component::Normal(_))), "{}", name);
            prop_assert_eq!(parts.len(), if group.is_empty() { 2 } else { 3 });
        }
    }

    #[test]
    fn no_server_leads_out_of_the_folder(server in "https://[a-z.:/]{0,20}|\\PC{0,20}") {
        let folder = host_folder(&server);
        prop_assert!(folder.components().all(|part| matches!(part, Component::Normal(_))));
    }
}

fn answered(names: &[&str]) -> RootResponse {
    let group = |name: &&str| ApiGroup { name: (*name).to_owned(), versions: vec!["v1".to_owned()] };
    let list = |name: &&str| {
        let place = GroupVersion::new(name, "v1");
        let resources = r#"{"resources":[{"name":"things","namespaced":true,"kind":"Thing"}]}"#;
        let list: ResourceList = serde_json::from_str(resources).unwrap();
        (place.clone(), Ok(list.named(&place)))
    };
    RootResponse {
        groups: names.iter().map(group).collect(),
        lists: Some(names.iter().map(list).collect()),
        etag: Some(format!("\"{}\"", names.join("-"))),
    }
}

#[test]
fn an_etag_counts_only_with_all_groups_that_it_was_noted_for() {
    let dir = tempfile::tempdir().unwrap();
    let store = DiskStore::new(dir.path().to_owned());
    store.save(None, Some(&answered(&[""])), Some(&answered(&["a.example", "b.example"])));
    let loaded = store.load().unwrap();
    assert_eq!(loaded.named.etag.as_deref(), Some("\"a.example-b.example\""));
    // Another process writes its groups between this one's lists and tags.
    let fewer = [answered(&[""]).groups, answered(&["a.example"]).groups].concat();
    let mut tags: Tags = store.read(TAGS).unwrap().value;
    tags.groups = store.write(GROUPS, &GroupList::of(&fewer)).unwrap();
    store.write(TAGS, &tags).unwrap();
    let loaded = store.load().unwrap();
    assert_eq!(loaded.core.etag.as_deref(), Some("\"\""));
    assert_eq!(loaded.named.etag, None);
}
