//! The cache in files: kubectl's layout, other processes, age, and files that are not what they should be.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use pilothouse_client::{CachedDiscovery, DiskCacheOptions, RestMapper};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::later;
use super::surface::{Aggregated, Surface, paths, resource};
use crate::support::{Reply, Server, client};

const TTL: Duration = Duration::from_secs(600);

/// A cache folder, as of one user.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A cache over it, as of a process that has just been started.
    async fn process(&self, server: &Server) -> CachedDiscovery {
        let options = DiskCacheOptions { cache_dir: Some(self.0.path().to_owned()), ttl: TTL };
        CachedDiscovery::on_disk(client(server).await.discovery(), &options)
    }

    fn of(&self, server: &Server) -> PathBuf {
        self.0.path().join("discovery").join(server.address.to_string().replace(':', "_"))
    }

    fn files(&self, server: &Server) -> Vec<PathBuf> {
        fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() { walk(&path, files) } else { files.push(path) }
            }
        }
        let mut files = Vec::new();
        walk(&self.of(server), &mut files);
        files.sort();
        files
    }

    /// Lets all files be as of some time ago.
    fn age(&self, server: &Server, age: Duration) {
        for file in self.files(server) {
            File::options().write(true).open(file).unwrap().set_modified(SystemTime::now() - age).unwrap();
        }
    }
}

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

async fn count(cached: &CachedDiscovery) -> usize {
    cached.groups_and_resources().await.unwrap().iter().count()
}

#[tokio::test]
async fn files_are_what_kubectl_writes() {
    for form in [Aggregated::Both, Aggregated::Neither] {
        let (folder, server) = (Folder::new(), Surface::new(form).start().await);
        count(&folder.process(&server).await).await;
        let root = folder.of(&server);
        let relative = |path: &PathBuf| path.strip_prefix(&root).unwrap().display().to_string();
        let names: Vec<String> = folder.files(&server).iter().map(relative).collect();
        let expected = [
            "apps/v1/serverresources.json",
            "events.k8s.io/v1/serverresources.json",
            "metrics.example/v1beta1/serverresources.json",
            "scaling.example/v1/serverresources.json",
            "scaling.example/v2/serverresources.json",
            "servergroups.json",
            "v1/serverresources.json",
        ];
        assert_eq!(names, expected);
        let deployments = json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "apps/v1", "resources": [
                {"name": "deployments", "singularName": "deployment", "namespaced": true, "kind": "Deployment",
                 "verbs": ["get", "list"], "shortNames": ["deploy"], "categories": ["all"]},
                {"name": "deployments/scale", "singularName": "deployment", "namespaced": true, "group": "autoscaling",
                 "version": "v1", "kind": "Scale", "verbs": ["update"]}]});
        assert_eq!(json_of(&root.join("apps/v1/serverresources.json")), deployments);
        let groups = json_of(&root.join("servergroups.json"));
        assert_eq!((&groups["kind"], &groups["apiVersion"]), (&json!("APIGroupList"), &json!("v1")));
        let core = json!({"groupVersion": "v1", "version": "v1"});
        assert_eq!(groups["groups"][0], json!({"name": "", "versions": [core], "preferredVersion": core}));
        assert_eq!(groups["groups"][3]["preferredVersion"]["groupVersion"], "scaling.example/v2");
        assert_eq!(mode(&root.join("servergroups.json")), 0o660);
        assert_eq!(mode(&root.join("apps/v1")), 0o750);
    }
}

#[tokio::test]
async fn another_process_reads_the_files_and_asks_nobody() {
    let (folder, server) = (Folder::new(), Surface::new(Aggregated::Both).start().await);
    let first = folder.process(&server).await;
    let expected = first.groups_and_resources().await.unwrap();
    assert!(first.fresh(), "its own files are as good as the server");
    let second = folder.process(&server).await;
    assert!(second.fresh());
    assert_eq!(second.resources("apps", "v1").await.unwrap().len(), 1);
    assert!(!second.fresh());
    let all = second.groups_and_resources().await.unwrap();
    assert_eq!((all.groups, all.resources), (expected.groups, expected.resources));
    assert_eq!(server.seen().len(), 2);
    // What it knows is from before now.
    second.invalidate();
    assert!(second.fresh());
    assert_eq!(count(&second).await, 9);
    assert!(second.fresh());
    assert_eq!(server.seen().len(), 4);
}

#[tokio::test]
async fn old_files_are_fetched_again_and_young_then() {
    let (folder, server) = (Folder::new(), Surface::new(Aggregated::Both).start().await);
    count(&folder.process(&server).await).await;
    folder.age(&server, TTL);
    let before = fs::read(folder.of(&server).join("servergroups.json")).unwrap();
    let second = folder.process(&server).await;
    assert_eq!(second.resources("apps", "v1").await.unwrap().len(), 1);
    assert_eq!(count(&second).await, 9);
    assert!(second.fresh());
    assert_eq!(server.seen().len(), 4);
    assert_eq!(fs::read(folder.of(&server).join("servergroups.json")).unwrap(), before);
    // The files count again for who comes next.
    assert_eq!(count(&folder.process(&server).await).await, 9);
    assert_eq!(server.seen().len(), 4);
}

#[tokio::test]
async fn a_running_process_asks_again_after_the_ttl() {
    let (folder, server) = (Folder::new(), Surface::new(Aggregated::Both).start().await);
    let cached = folder.process(&server).await;
    count(&cached).await;
    later(599).await;
    count(&cached).await;
    assert_eq!(server.seen().len(), 2);
    folder.age(&server, TTL);
    later(1).await;
    count(&cached).await;
    assert_eq!(server.seen().len(), 4);
}

#[tokio::test]
async fn a_call_uses_what_it_has_fetched_however_short_the_ttl() {
    let (folder, server) = (Folder::new(), Surface::new(Aggregated::Both).start().await);
    let options = DiskCacheOptions { cache_dir: Some(folder.0.path().to_owned()), ttl: Duration::ZERO };
    let cached = CachedDiscovery::on_disk(client(&server).await.discovery(), &options);
    for requests in [2, 4] {
        assert_eq!(count(&cached).await, 9);
        assert_eq!(server.seen().len(), requests);
    }
}

#[tokio::test]
async fn what_changed_is_written_and_what_is_gone_is_not_found() {
    let surface = Surface::new(Aggregated::Both);
    let (folder, server) = (Folder::new(), surface.start().await);
    count(&folder.process(&server).await).await;
    surface.remove("apps");
    surface.serve("sea.example", "v1", &[resource("ships", "Ship")]);
    folder.age(&server, TTL);
    let second = folder.process(&server).await;
    assert_eq!(count(&second).await, 9);
    let root = folder.of(&server);
    assert_eq!(json_of(&root.join("sea.example/v1/serverresources.json"))["resources"][0]["name"], "ships");
    let third = folder.process(&server).await;
    assert!(third.resources("apps", "v1").await.unwrap_err().is_not_found());
    assert_eq!(count(&third).await, 9);
}

#[tokio::test]
async fn a_miss_in_young_files_asks_the_server_after_ten_seconds() {
    let surface = Surface::new(Aggregated::Both);
    let (folder, server) = (Folder::new(), surface.start().await);
    count(&folder.process(&server).await).await;
    surface.serve("sea.example", "v1", &[resource("ships", "Ship")]);
    folder.age(&server, Duration::from_secs(11));
    let mapper = RestMapper::new(folder.process(&server).await);
    mapper.resolve("pods").await.unwrap();
    mapper.mapping("apps", "Deployment", &["v1"]).await.unwrap();
    assert_eq!(server.seen().len(), 2);
    mapper.resolve("ships").await.unwrap();
    mapper.mapping("sea.example", "Ship", &["v1"]).await.unwrap();
    assert_eq!(server.seen().len(), 4);
}

#[tokio::test]
async fn corrupt_files_are_as_if_they_were_not_there_and_are_replaced() {
    let good = |bytes: &[u8]| bytes.to_vec();
    let half = |bytes: &[u8]| bytes[..bytes.len() / 2].to_vec();
    let swap = |from: &'static str, to: &'static str| {
        move |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap().replace(from, to).into_bytes()
    };
    type Damage = Box<dyn Fn(&[u8]) -> Vec<u8>>;
    let damages: Vec<(&str, Damage)> = vec![
        ("empty", Box::new(|_| Vec::new())),
        ("half", Box::new(half)),
        ("page", Box::new(|_| b"<html>login</html>".to_vec())),
        ("binary", Box::new(|_| vec![0xff, 0xfe, 0, 1])),
        ("other kind", Box::new(swap("APIResourceList", "Status"))),
        ("other group version", Box::new(swap("\"apps/v1\"", "\"apps/v2\""))),
        ("other kind of groups", Box::new(swap("APIGroupList", "Status"))),
        ("of the future", Box::new(good)),
    ];
    for (name, damage) in damages {
        let (folder, server) = (Folder::new(), Surface::new(Aggregated::Both).start().await);
        count(&folder.process(&server).await).await;
        let whole: Vec<(PathBuf, Vec<u8>)> =
            folder.files(&server).into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
        for (path, bytes) in &whole {
            fs::write(path, damage(bytes)).unwrap();
            if name == "of the future" {
                let later = SystemTime::now() + Duration::from_secs(3600);
                File::options().write(true).open(path).unwrap().set_modified(later).unwrap();
            }
        }
        let second = folder.process(&server).await;
        assert_eq!(count(&second).await, 9, "{name}");
        assert_eq!(second.resources("apps", "v1").await.unwrap()[0].plural, "deployments", "{name}");
        assert!(server.seen().len() > 2, "{name}");
        let damaged = |(path, bytes): &&(PathBuf, Vec<u8>)| {
            path.ends_with("apps/v1/serverresources.json") && damage(bytes) != *bytes
        };
        for (path, bytes) in whole.iter().filter(damaged) {
            assert_eq!(fs::read(path).unwrap(), *bytes, "{name}: {}", path.display());
        }
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_or_read_is_no_error() {
    let surface = Surface::new(Aggregated::Both);
    let server = surface.start().await;
    // A file where the folder should be: not even root can write there.
    let folder = Folder::new();
    fs::write(folder.0.path().join("discovery"), "").unwrap();
    let cached = folder.process(&server).await;
    assert_eq!(count(&cached).await, 9);
    assert_eq!(count(&cached).await, 9);
    assert_eq!(server.seen().len(), 2);
    // Folders where the files should be.
    let folder = Folder::new();
    fs::create_dir_all(folder.of(&server).join("servergroups.json")).unwrap();
    fs::create_dir_all(folder.of(&server).join("apps/v1/serverresources.json")).unwrap();
    let cached = folder.process(&server).await;
    assert_eq!(count(&cached).await, 9);
    assert_eq!(cached.resources("apps", "v1").await.unwrap().len(), 1);
    let left = |path: &PathBuf| path.to_string_lossy().contains("serverresources.json.");
    assert!(!folder.files(&server).iter().any(left), "nothing unfinished is left");
}

#[tokio::test]
async fn names_of_a_server_do_not_lead_out_of_the_folder() {
    let surface = Surface::new(Aggregated::Both);
    for group in ["../../escaped", "..", "/tmp/pilothouse-escaped", "a/b", "servergroups.json", ".hidden"] {
        surface.serve(group, "v1", &[resource("things", "Thing")]);
    }
    surface.serve("fine.example", "../../../escaped", &[resource("things", "Thing")]);
    let (folder, server) = (Folder::new(), surface.start().await);
    count(&folder.process(&server).await).await;
    let names: Vec<PathBuf> = folder.files(&server);
    assert_eq!(names.len(), 7, "{names:?}");
    let entries: Vec<_> = fs::read_dir(folder.0.path()).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(entries, ["discovery"]);
    assert!(!Path::new("/tmp/pilothouse-escaped").exists());
}

#[tokio::test]
async fn a_group_that_was_down_is_asked_by_who_reads_the_files() {
    let surface = Surface::new(Aggregated::Both);
    surface.down("metrics.example", true);
    let (folder, server) = (Folder::new(), surface.start().await);
    count(&folder.process(&server).await).await;
    let groups = json_of(&folder.of(&server).join("servergroups.json"));
    assert_eq!(groups["groups"][4]["versions"], json!([]));
    let second = folder.process(&server).await;
    let all = second.groups_and_resources().await.unwrap();
    assert_eq!((all.iter().count(), all.failed.len()), (8, 1));
    assert_eq!(all.failed[0].group_version.to_string(), "metrics.example/v1beta1");
    folder.age(&server, TTL);
    let third = folder.process(&server).await;
    let all = third.groups_and_resources().await.unwrap();
    assert_eq!((all.iter().count(), all.failed.len()), (8, 1));
    surface.down("metrics.example", false);
    assert_eq!(third.resources("metrics.example", "v1beta1").await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_old_server_is_asked_for_the_documents_that_are_wanted() {
    let (folder, server) = (Folder::new(), Surface::new(Aggregated::Neither).start().await);
    let cached = folder.process(&server).await;
    cached.resources("apps", "v1").await.unwrap();
    assert_eq!(paths(&server), ["/api", "/apis", "/apis/apps/v1"]);
    let second = folder.process(&server).await;
    second.resources("apps", "v1").await.unwrap();
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn who_may_not_see_the_groups_may_see_one() {
    let surface = Surface::new(Aggregated::Both);
    let server = Server::start(move |seen| match seen.path() {
        "/apis" => Reply::new(403, "no"),
        _ => surface.reply(seen),
    })
    .await;
    let folder = Folder::new();
    let cached = folder.process(&server).await;
    assert_eq!(cached.resources("apps", "v1").await.unwrap().len(), 1);
    assert!(cached.groups().await.unwrap_err().is_forbidden());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn processes_that_write_at_once_never_show_half_a_file() {
    let surface = Surface::new(Aggregated::Both);
    let folder = Arc::new(Folder::new());
    let server = Arc::new(surface.start().await);
    count(&folder.process(&server).await).await;
    let files = folder.files(&server);
    let stop = Arc::new(AtomicBool::new(false));
    let reader = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            let mut read = 0;
            while !stop.load(Ordering::Relaxed) {
                for path in &files {
                    json_of(path);
                    read += 1;
                }
            }
            read
        })
    };
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..4 {
        let (folder, server, surface) = (Arc::clone(&folder), Arc::clone(&server), surface.clone());
        writers.spawn(async move {
            for round in 0..20 {
                // Each round changes what is to be written.
                let plurals = ["ones", "twos", "threes"];
                surface.serve("apps", "v1", &[resource(plurals[(writer + round) % 3], "Thing")]);
                surface.serve("", "v1", &[resource(plurals[round % 3], "Thing")]);
                let process = folder.process(&server).await;
                process.invalidate();
                assert_eq!(process.groups_and_resources().await.unwrap().failed.len(), 0);
            }
        });
    }
    writers.join_all().await;
    stop.store(true, Ordering::Relaxed);
    assert!(reader.join().unwrap() > 0);
    // Whatever the last ones left, it is sorted out once the files are old.
    folder.age(&server, TTL);
    let all = folder.process(&server).await.groups_and_resources().await.unwrap();
    let live = client(&server).await.discovery().groups_and_resources().await.unwrap();
    let sorted = |all: pilothouse_client::ServerResources| {
        let mut lists: Vec<_> = all.resources.into_iter().map(|l| (l.group_version, l.resources)).collect();
        lists.sort_by(|a, b| a.0.cmp(&b.0));
        lists
    };
    assert_eq!(sorted(all), sorted(live));
}
