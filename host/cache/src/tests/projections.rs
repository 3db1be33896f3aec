//! Pitfall 21: one store for each resource and scope, with the union of the fields that its users need.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use pilothouse_client::{ListParams, ResourceVersionMatch, Result, WatchParams};
use pilothouse_object::{ListMeta, Object, Projection};
use serde_json::json;

use super::factory::factory;
use super::{server, soon};
use crate::source::projected_source::ProjectedSource;
use crate::testing::{Call, FakeControllerSource, Recorder, Request, config_maps};
use crate::{EventStream, FactoryOptions, ItemSink, Lister, ListerWatcher, SharedInformerFactory};

fn fields(pointers: &[&str]) -> Projection {
    Projection::parse(pointers).unwrap()
}

/// The only object of a store.
fn only(lister: &Lister) -> Object {
    let mut objects = lister.list(&"".parse().unwrap());
    assert_eq!(objects.len(), 1);
    objects.remove(0)
}

fn with_object() -> (FakeControllerSource, SharedInformerFactory) {
    let server = server();
    server.create("a/x", json!({"data": {"one": 1, "two": 2, "three": 3}}));
    let factory = factory(&server);
    (server, factory)
}

#[tokio::test(start_paused = true)]
async fn the_store_has_the_fields_that_its_users_need_and_no_others() {
    let (server, factory) = with_object();
    let lease = factory.projected_informer(&config_maps(), None, &fields(&["/data/one"]));
    assert!(soon(lease.wait_synced()).await);
    let object = only(&lease.lister());
    assert!(object.is_partial());
    assert_eq!((object.get("/data"), object.uid()), (Some("{\"one\":1}"), "uid-1"));
    server.update("a/x", json!({"data": {"one": 5, "two": 2}}));
    soon(lease.indexer().wait_until_seen("3")).await;
    assert_eq!(only(&lease.lister()).get("/data"), Some("{\"one\":5}"));
}

#[tokio::test(start_paused = true)]
async fn a_wider_need_lists_again_and_all_leases_have_the_union() {
    let (server, factory) = with_object();
    let one = factory.projected_informer(&config_maps(), None, &fields(&["/data/one"]));
    let recorder = Recorder::new();
    let _place = one.add_listener(recorder.clone(), None).unwrap();
    assert!(soon(one.wait_synced()).await);
    soon(server.wait_for_watches(1)).await;
    let two = factory.projected_informer(&config_maps(), None, &fields(&["/data/two"]));
    assert!(one.has_synced() && !two.has_synced());
    assert!(soon(two.wait_synced()).await);
    assert_eq!(only(&one.lister()).get("/data"), Some("{\"one\":1,\"two\":2}"));
    assert_eq!(server.list_versions().len(), 2);
    assert_eq!(two.projection(), fields(&["/data/one", "/data/two"]));
    assert_eq!(recorder.take().len(), 2, "for its listeners nothing has changed");
    soon(server.wait_for_watches(2)).await;
    let narrow = factory.projected_informer(&config_maps(), None, &fields(&["/data/one"]));
    assert!(narrow.has_synced());
    server.update("a/x", json!({"data": {"one": 1, "two": 3, "three": 3}}));
    soon(two.indexer().wait_until_seen("3")).await;
    assert_eq!(only(&two.lister()).get("/data"), Some("{\"one\":1,\"two\":3}"));
    assert_eq!((recorder.take().len(), server.list_versions().len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_need_that_comes_before_or_during_the_first_list_waits_for_a_list_that_has_it() {
    for yields in 0..12 {
        let (server, factory) = with_object();
        let one = factory.metadata_informer(&config_maps(), None);
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
        let whole = factory.informer(&config_maps(), None);
        assert!(soon(whole.wait_synced()).await);
        let object = only(&one.lister());
        assert!(!object.is_partial() && object.get("/data/three") == Some("3"));
        assert!(server.list_versions().len() <= 2);
        factory.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn widening_ends_with_the_informer() {
    let (server, factory) = with_object();
    let one = factory.metadata_informer(&config_maps(), None);
    assert!(soon(one.wait_synced()).await);
    server.refuse(true);
    let whole = factory.informer(&config_maps(), None);
    let waiting = tokio::spawn(async move { whole.wait_synced().await });
    tokio::time::sleep(Duration::from_secs(60)).await;
    factory.shutdown().await;
    assert!(!soon(waiting).await.unwrap());
}

/// Answers as a server does that is asked for metadata only.
struct PartialServer(Arc<dyn ListerWatcher>);

fn partial(object: &Object) -> Object {
    let mut json: serde_json::Value = serde_json::from_str(object.json()).unwrap();
    json["apiVersion"] = json!("meta.k8s.io/v1");
    json["kind"] = json!("PartialObjectMetadata");
    json.as_object_mut()
        .unwrap()
        .retain(|name, _| ["apiVersion", "kind", "metadata"].contains(&name.as_str()));
    Object::decode(json.to_string().as_bytes()).unwrap()
}

impl ListerWatcher for PartialServer {
    fn list<'a>(&'a self, params: &'a ListParams, item: ItemSink<'a>) -> BoxFuture<'a, Result<ListMeta>> {
        Box::pin(async move {
            assert!(params.metadata_only);
            self.0.list(params, &mut |object| item(partial(&object))).await
        })
    }

    fn watch<'a>(&'a self, params: &'a WatchParams) -> BoxFuture<'a, Result<EventStream>> {
        Box::pin(async move {
            assert!(params.metadata_only);
            self.0.watch(params).await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_only_is_all_that_is_asked_for_and_the_objects_keep_their_kind() {
    let (server, _) = with_object();
    let source = server.source();
    let factory = SharedInformerFactory::new(
        Arc::new(move |_, _| Arc::new(PartialServer(source.clone())) as Arc<dyn ListerWatcher>),
        FactoryOptions::default(),
    );
    let lease = factory.metadata_informer(&config_maps(), None);
    assert!(soon(lease.wait_synced()).await);
    let object = only(&lease.lister());
    assert_eq!((object.gvk(), object.is_partial(), object.uid()), (config_maps().gvk, true, "uid-1"));
    // A server that answers with whole objects all the same is cut.
    server.update("a/x", json!({"data": {"one": 1}}));
    soon(lease.indexer().wait_until_seen("3")).await;
    assert_eq!((only(&lease.lister()).get("/data"), only(&lease.lister()).is_partial()), (None, true));
}

#[tokio::test(start_paused = true)]
async fn whole_objects_are_asked_for_as_soon_as_somebody_needs_a_field() {
    let (server, factory) = with_object();
    let metadata = factory.metadata_informer(&config_maps(), None);
    assert!(soon(metadata.wait_synced()).await);
    soon(server.wait_for_watches(1)).await;
    let one = factory.projected_informer(&config_maps(), None, &fields(&["/data/one"]));
    assert!(soon(one.wait_synced()).await);
    soon(server.wait_for_watches(2)).await;
    let asked: Vec<_> = server
        .requests()
        .iter()
        .map(|request| match request {
            Request::List { params, .. } => params.metadata_only,
            Request::Watch { params, .. } => params.metadata_only,
        })
        .collect();
    assert_eq!(asked, [true, true, false, false]);
}

#[tokio::test(start_paused = true)]
async fn an_update_that_changes_no_field_in_view_is_still_an_update() {
    let (server, factory) = with_object();
    let lease = factory.projected_informer(&config_maps(), None, &fields(&["/data/one"]));
    let recorder = Recorder::new();
    let _place = lease.add_listener(recorder.clone(), None).unwrap();
    assert!(soon(lease.wait_synced()).await);
    drop(recorder.take());
    server.update("a/x", json!({"data": {"one": 1, "two": 9}}));
    soon(lease.indexer().wait_until_seen("3")).await;
    assert_eq!(recorder.take(), [Call::Update("a/x".into(), "2".into(), "3".into(), false)]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_checks_a_streaming_list_counts_as_no_list_of_a_generation() {
    let server = server();
    let source = ProjectedSource::new(server.source(), config_maps(), None, Projection::metadata_only());
    assert_eq!(source.widen(&Projection::full()), (2, true));
    let resource_version = Some(server.version());
    let lists = async |resource_version_match| {
        let params = ListParams {
            resource_version: resource_version.clone(),
            resource_version_match,
            ..ListParams::default()
        };
        source.list(&params, &mut |_| {}).await.unwrap();
        let params = WatchParams { resource_version: resource_version.clone(), ..WatchParams::default() };
        drop(source.watch(&params).await.unwrap());
        *source.listed().borrow()
    };
    assert_eq!(lists(Some(ResourceVersionMatch::Exact)).await, 0);
    assert_eq!(lists(None).await, 2);
}
