//! When statuses are written, and by which host.

use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_cache::testing::errors::{self, internal};
use pilothouse_client::{DeleteParams, Result};
use pilothouse_devserver::{DevServer, DevServerOptions};
use pilothouse_election::{LeaderElectionConfig, Shards, ShardsConfig};
use pilothouse_testkit::paths::repository;
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::super::tests::{Cluster, plugin};
use super::*;
use crate::leader_election::tests::standby;
use crate::testing::dev_server::{client, take_shard, until};
use crate::testing::settle;

/// Notes writes, and answers them.
struct FakeSink {
    writes: Mutex<Vec<(String, Instant)>>,
    /// The versions that they were made for.
    versions: Mutex<Vec<String>>,
    answer: Box<Answer>,
}

type Answer = dyn Fn(&ObjectKey, &Value) -> Result<()> + Send + Sync;

impl FakeSink {
    fn new(answer: impl Fn(&ObjectKey, &Value) -> Result<()> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { writes: Mutex::default(), versions: Mutex::default(), answer: Box::new(answer) })
    }

    /// The names of the Plugins that were written, in order.
    fn names(&self) -> Vec<String> {
        self.writes.lock().iter().map(|(name, _)| name.clone()).collect()
    }

    /// The times from each write to the next.
    fn gaps(&self) -> Vec<Duration> {
        self.writes.lock().windows(2).map(|pair| pair[1].1 - pair[0].1).collect()
    }
}

impl StatusSink for Arc<FakeSink> {
    async fn apply(&self, key: &ObjectKey, version: &str, status: &Value) -> Result<()> {
        self.writes.lock().push((key.to_string(), Instant::now()));
        self.versions.lock().push(version.to_owned());
        (self.answer)(key, status)
    }
}

fn writer(cluster: &Cluster, sink: &Arc<FakeSink>, election: LeaderElection) -> StatusWriter<Arc<FakeSink>> {
    StatusWriter { table: cluster.source.table(), sink: Arc::clone(sink), election }
}

/// How a plugin fares; the status says something else when `in_directory` is another.
fn view(in_directory: bool) -> PluginView {
    PluginView { in_directory, status: None, running_manifest: None }
}

/// A cluster with the Plugin `a/p`.
async fn cluster() -> Cluster {
    let mut cluster = Cluster::new().await;
    cluster.server.create("a/p", plugin("a", 5, 1, &Value::Null));
    settle().await;
    assert_eq!(cluster.changes(), ["a/p 5"]);
    cluster
}

#[tokio::test(start_paused = true)]
async fn writes_for_one_plugin_are_apart_however_often_it_changes() {
    let cluster = cluster().await;
    let server = cluster.server.clone();
    let sink = FakeSink::new(move |key, status| {
        server.update(&key.to_string(), plugin("a", 5, 1, status));
        Ok(())
    });
    let written = Arc::clone(&sink);
    // Each write is followed by another state.
    let changing = move |_: &str| view(written.writes.lock().len() % 2 == 1);
    tokio::spawn(writer(&cluster, &sink, LeaderElection::disabled()).run(changing));
    sleep(SPACING * 10).await;
    let gaps = sink.gaps();
    assert!(gaps.len() >= 9 && gaps.iter().all(|gap| *gap >= SPACING), "{gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_the_cache_does_not_show_is_not_repeated() {
    let cluster = cluster().await;
    let sink = FakeSink::new(|_, _| Ok(()));
    tokio::spawn(writer(&cluster, &sink, LeaderElection::disabled()).run(|_| view(false)));
    sleep(SPACING * 100).await;
    assert_eq!(sink.names(), ["a/p"]);
    // It shows another version, which still says something else.
    cluster.server.update("a/p", plugin("a", 5, 1, &Value::Null));
    sleep(SPACING * 2).await;
    assert_eq!(sink.names(), ["a/p", "a/p"]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_is_tried_again_after_a_while() {
    let cluster = cluster().await;
    let (server, refusals) = (cluster.server.clone(), Mutex::new(2));
    let sink = FakeSink::new(move |key, status| {
        let mut left = refusals.lock();
        if *left > 0 {
            *left -= 1;
            return Err(internal());
        }
        server.update(&key.to_string(), plugin("a", 5, 1, status));
        Ok(())
    });
    tokio::spawn(writer(&cluster, &sink, LeaderElection::disabled()).run(|_| view(false)));
    sleep(AFTER_FAILURE * 10).await;
    let gaps = sink.gaps();
    assert!(gaps.len() == 2 && gaps.iter().all(|gap| *gap >= AFTER_FAILURE), "{gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn after_a_conflict_a_status_is_written_when_the_cache_shows_another_version() {
    let cluster = cluster().await;
    let first = cluster.server.version();
    let sink = FakeSink::new(|_, _| Err(errors::status(409, "Conflict", "another version")));
    tokio::spawn(writer(&cluster, &sink, LeaderElection::disabled()).run(|_| view(false)));
    sleep(AFTER_FAILURE * 10).await;
    assert_eq!(sink.names(), ["a/p"]);
    let second = cluster.server.update("a/p", plugin("a", 5, 1, &Value::Null));
    sleep(SPACING).await;
    assert_eq!(*sink.versions.lock(), [first.as_str(), second.resource_version()]);
}

#[tokio::test]
async fn the_status_of_a_version_that_is_gone_is_a_conflict_also_if_another_plugin_has_the_name() {
    let server = DevServer::start(DevServerOptions::default()).await.unwrap();
    server.seed(&repository().join("host/dev/src/crd/plugins.yaml")).unwrap();
    let (client, key) = (client(&server).await, "default/p".parse::<ObjectKey>().unwrap());
    let create = async || {
        let mut body = plugin("default", 5, 1, &json!({}));
        body["apiVersion"] = json!("pilothouse.dev/v1alpha1");
        body["kind"] = json!("Plugin");
        body["metadata"]["name"] = json!(key.name());
        let body = body.to_string().into_bytes();
        let made = client.create(&plugins(), key.namespace(), &body, &WriteParams::default()).await.unwrap();
        made.resource_version().to_owned()
    };
    let first = create().await;
    client.delete(&plugins(), &key, &DeleteParams::default()).await.unwrap();
    let second = create().await;
    let status = json!({"observedGeneration": 1});
    let refused = client.apply(&key, &first, &status).await.unwrap_err();
    assert!(refused.is_conflict(), "{refused}");
    client.apply(&key, &second, &status).await.unwrap();
    let written = client.get(&plugins(), &key, None).await.unwrap();
    assert_eq!(status_of(&written), status);
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_host_writes_statuses_in_its_term_alone() {
    let mut cluster = cluster().await;
    let (election, begin) = standby();
    let sink = FakeSink::new(|_, _| Ok(()));
    tokio::spawn(writer(&cluster, &sink, election.clone()).run(|_| view(false)));
    sleep(SPACING * 10).await;
    assert_eq!(sink.names(), [""; 0], "a standby");
    begin.await;
    sleep(SPACING).await;
    assert_eq!(sink.names(), ["a/p"], "the leader");
    sleep(Duration::from_secs(60)).await;
    assert!(!election.is_leader(), "its only term is over");
    cluster.server.update("a/p", plugin("a", 6, 2, &Value::Null));
    settle().await;
    assert_eq!(cluster.changes(), ["a/p 6"]);
    sleep(SPACING * 10).await;
    assert_eq!(sink.names(), ["a/p"], "after the term");
}

#[tokio::test]
async fn the_status_of_a_plugin_is_left_to_the_host_that_has_its_shard() {
    let server = DevServer::start(DevServerOptions::default()).await.unwrap();
    // So long that no lease ends within the test: what is lost was taken.
    let election = LeaderElectionConfig {
        lease_duration: Duration::from_secs(3600),
        renew_deadline: Duration::from_secs(1800),
        retry_period: Duration::from_secs(1),
        ..LeaderElectionConfig::new("host_1")
    };
    let config = ShardsConfig { election, shards: 2, join_delay: Duration::ZERO };
    let client = client(&server).await;
    let (shards, task) = Shards::new(&client, "default", "hosts", config, &Handle::current()).unwrap();
    tokio::spawn(task.run());
    let election = LeaderElection::sharded(shards.clone(), Duration::ZERO);

    let mut cluster = Cluster::new().await;
    let in_shard = |shard: usize| {
        let mut names = (0..1000).map(|number| format!("a/p-{number}"));
        names.find(|name| shards.shard_of(name) == shard).unwrap()
    };
    let (taken, kept) = (in_shard(0), in_shard(1));
    for name in [&taken, &kept] {
        cluster.server.create(name, plugin("a", 5, 1, &Value::Null));
    }
    let mut admitted = 0;
    until("both Plugins in the cache", || {
        admitted += cluster.changes().len();
        admitted == 2
    })
    .await;
    until("both shards", || election.has(&taken) && election.has(&kept)).await;

    let sink = FakeSink::new(|_, _| Ok(()));
    let writer = writer(&cluster, &sink, election.clone());
    let look = async || writer.look(&mut HashMap::new(), &|_: &str| view(false)).await;
    look().await;
    let mut names = sink.names();
    names.sort();
    let mut both = [taken.clone(), kept.clone()];
    both.sort();
    assert_eq!(names, both);
    take_shard(&server).await;
    until("the end of the term", || !election.has(&taken)).await;
    look().await;
    assert_eq!(sink.names()[2..], [kept], "the other shard is not lost");
    server.shutdown().await;
}
