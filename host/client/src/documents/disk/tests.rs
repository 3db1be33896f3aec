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
