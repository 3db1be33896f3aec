//! Names: what people type, kinds, categories, and when the server is asked again.

use pilothouse_client::{CachedDiscovery, GroupVersion, MappingError, PartialResource, RestMapper};
use pilothouse_object::{Gvk, Gvr};
use tokio::task::JoinSet;

use super::later;
use super::surface::{Aggregated, Resource, Surface, paths, resource};
use crate::support::{Server, client};

async fn mapper(server: &Server) -> RestMapper {
    RestMapper::new(CachedDiscovery::in_memory(client(server).await.discovery()))
}

async fn resolve(mapper: &RestMapper, text: &str) -> String {
    match mapper.resolve(text).await {
        Ok(found) => format!("{}/{}", found.gvk.api_version(), found.plural),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn names_are_read_as_kubectl_reads_them() {
    for form in [Aggregated::Both, Aggregated::Neither] {
        let server = Surface::new(form).start().await;
        let mapper = mapper(&server).await;
        for (text, expected) in [
            ("pods", "v1/pods"),
            ("pod", "v1/pods"),
            ("po", "v1/pods"),
            ("Pod", "v1/pods"),
            ("PODS", "v1/pods"),
            ("pods.v1.", "v1/pods"),
            ("ev", "v1/events"),
            ("events", "v1/events"),
            ("events.events.k8s.io", "events.k8s.io/v1/events"),
            ("ev.events.k8s.io", "events.k8s.io/v1/events"),
            ("pods.metrics.example", "metrics.example/v1beta1/pods"),
            ("deploy", "apps/v1/deployments"),
            ("deployments.apps", "apps/v1/deployments"),
            ("deployments.v1.apps", "apps/v1/deployments"),
            ("Deployment.v1.apps", "apps/v1/deployments"),
            ("deploy.app", "apps/v1/deployments"),
            ("scalers", "scaling.example/v2/scalers"),
            ("hpa.v1.scaling.example", "scaling.example/v1/scalers"),
            ("oldscalers", "scaling.example/v1/oldscalers"),
            ("podmetrics", "metrics.example/v1beta1/pods"),
        ] {
            assert_eq!(resolve(&mapper, text).await, expected, "{text}");
        }
        let text = resolve(&mapper, "nothings").await;
        assert_eq!(text, "the server does not serve resource \"nothings\"");
        let text = resolve(&mapper, "deployments.v2.apps").await;
        assert!(text.contains("\"deployments\" in apps/v2"), "{text}");
        resolve(&mapper, "").await;
        resolve(&mapper, "..").await;
    }
}

#[tokio::test]
async fn a_plural_name_comes_before_a_singular_one_and_that_before_a_short_one() {
    let surface = Surface::new(Aggregated::Both);
    // Of the core group, which comes before all others.
    surface.serve(
        "",
        "v1",
        &[Resource { short: &["deployments", "scaler"], ..resource("things", "Scalers") }],
    );
    let server = surface.start().await;
    let mapper = mapper(&server).await;
    assert_eq!(resolve(&mapper, "deployments").await, "apps/v1/deployments");
    assert_eq!(resolve(&mapper, "scaler").await, "scaling.example/v2/scalers");
    assert_eq!(resolve(&mapper, "scalers").await, "scaling.example/v2/scalers");
}

#[tokio::test]
async fn kinds_become_resources_and_resources_kinds() {
    let server = Surface::new(Aggregated::Both).start().await;
    let mapper = mapper(&server).await;
    let group = "scaling.example";
    assert_eq!(mapper.mapping(group, "Scaler", &[]).await.unwrap().gvk.version, "v2");
    assert_eq!(mapper.mapping(group, "Scaler", &["v3", "v1", "v2"]).await.unwrap().gvk.version, "v1");
    let versions: Vec<String> =
        mapper.mappings(group, "Scaler").await.unwrap().into_iter().map(|r| r.gvk.version).collect();
    assert_eq!(versions, ["v2", "v1"]);
    assert_eq!(mapper.mapping(group, "OldScaler", &[]).await.unwrap().gvk.version, "v1");
    assert!(mapper.mapping(group, "scaler", &[]).await.unwrap_err().is_no_match(), "kinds are exact");
    assert!(mapper.mapping(group, "Scaler", &["v3"]).await.unwrap_err().is_no_match());
    let pods = PartialResource::any("pods");
    assert_eq!(mapper.resource_for(&pods).await.unwrap().gvk, Gvk::new("", "v1", "Pod"));
    let kinds: Vec<Gvk> = mapper.resources_for(&pods).await.unwrap().into_iter().map(|r| r.gvk).collect();
    assert_eq!(kinds, [Gvk::new("", "v1", "Pod"), Gvk::new("metrics.example", "v1beta1", "PodMetrics")]);
    let found = mapper.resources_for(&PartialResource::of_group("scalers", group)).await.unwrap();
    assert_eq!(found.len(), 2);
    let gvr = Gvr::new("apps", "v1", "deployments");
    assert_eq!(mapper.resource_for(&PartialResource::from(&gvr)).await.unwrap().gvr(), gvr);
}

#[tokio::test]
async fn categories_hold_resources_in_their_preferred_versions() {
    let surface = Surface::new(Aggregated::Both);
    let scalers = Resource { categories: &["all"], ..resource("scalers", "Scaler") };
    surface.serve("scaling.example", "v2", std::slice::from_ref(&scalers));
    surface.serve("scaling.example", "v1", &[scalers]);
    let server = surface.start().await;
    let mapper = mapper(&server).await;
    let all = mapper.expand_category("all").await.unwrap();
    let names: Vec<String> = all.iter().map(|r| format!("{}/{}", r.gvk.api_version(), r.plural)).collect();
    assert_eq!(names, ["v1/pods", "apps/v1/deployments", "scaling.example/v2/scalers"]);
    assert!(mapper.expand_category("none").await.unwrap_err().is_no_match());
}

#[tokio::test]
async fn what_could_be_several_in_one_version_is_not_guessed() {
    let surface = Surface::new(Aggregated::Both);
    let short = |plural, kind| Resource { short: &["vg"], ..resource(plural, kind) };
    surface.serve("twins.example", "v1", &[short("values", "List"), short("vagues", "List")]);
    let server = surface.start().await;
    let mapper = mapper(&server).await;
    let error = mapper.mapping("twins.example", "List", &["v1"]).await.unwrap_err();
    let MappingError::Ambiguous { candidates, .. } = &error else { panic!("{error:?}") };
    let candidate = |plural| Gvr::new("twins.example", "v1", plural);
    assert_eq!(*candidates, [candidate("values"), candidate("vagues")]);
    assert!(error.to_string().contains("values.v1.twins.example or vagues.v1.twins.example"), "{error}");
    assert!(matches!(mapper.resolve("vg").await, Err(MappingError::Ambiguous { .. })));
    assert_eq!(resolve(&mapper, "values").await, "twins.example/v1/values");
}

#[tokio::test]
async fn where_the_version_is_known_only_its_document_is_read_and_else_that_of_all_groups() {
    for (form, lists) in [(Aggregated::Both, 1), (Aggregated::Neither, 3)] {
        let server = Surface::new(form).start().await;
        let mapper = mapper(&server).await;
        mapper.mapping("apps", "Deployment", &["v1"]).await.unwrap();
        assert_eq!(paths(&server), ["/apis/apps/v1"]);
        assert_eq!(mapper.mapping("scaling.example", "Scaler", &[]).await.unwrap().gvk.version, "v2");
        let all = ["/api", "/apis", "/apis/apps/v1", "/apis/scaling.example/v1", "/apis/scaling.example/v2"];
        assert_eq!(paths(&server), all[..2 + lists], "no list of another group");
    }
}

#[tokio::test]
async fn a_miss_asks_again_once_in_ten_seconds_and_finds_what_came_later() {
    for form in [Aggregated::Both, Aggregated::Neither] {
        let surface = Surface::new(form);
        let server = surface.start().await;
        let mapper = mapper(&server).await;
        mapper.resolve("pods").await.unwrap();
        let first = server.seen().len();
        surface.serve("sea.example", "v1", &[Resource { short: &["sp"], ..resource("ships", "Ship") }]);
        for _ in 0..3 {
            assert!(mapper.resolve("sp").await.unwrap_err().is_no_match());
        }
        assert_eq!(server.seen().len(), first);
        later(10).await;
        assert_eq!(resolve(&mapper, "sp").await, "sea.example/v1/ships");
        let second = server.seen().len();
        assert!(second > first);
        for name in ["ship", "ships.sea.example", "Ship.v1.sea.example", "deploy"] {
            mapper.resolve(name).await.unwrap();
        }
        for _ in 0..3 {
            assert!(mapper.resolve("nothing").await.unwrap_err().is_no_match());
        }
        assert_eq!(server.seen().len(), second);
        later(10).await;
        for _ in 0..3 {
            assert!(mapper.resolve("nothing").await.unwrap_err().is_no_match());
        }
        assert_eq!(server.seen().len(), second + (second - first), "everything, once");
    }
}

#[tokio::test]
async fn what_came_later_is_known_once_it_was_found() {
    let surface = Surface::new(Aggregated::Both);
    let server = surface.start().await;
    let mapper = mapper(&server).await;
    mapper.resolve("pods").await.unwrap();
    surface.serve("sea.example", "v1", &[resource("ships", "Ship")]);
    later(10).await;
    mapper.mapping("sea.example", "Ship", &[]).await.unwrap();
    let asked = paths(&server);
    assert_eq!(asked, ["/api", "/api", "/apis", "/apis"]);
    later(100).await;
    mapper.mapping("sea.example", "Ship", &[]).await.unwrap();
    mapper.mapping("sea.example", "Ship", &["v1"]).await.unwrap();
    assert_eq!(paths(&server), asked);
}

#[tokio::test]
async fn what_was_deleted_is_noticed_with_the_next_refresh() {
    let surface = Surface::new(Aggregated::Both);
    surface.serve("sea.example", "v1", &[resource("ships", "Ship")]);
    let server = surface.start().await;
    let mapper = mapper(&server).await;
    mapper.resolve("ships").await.unwrap();
    mapper.mapping("sea.example", "Ship", &["v1"]).await.unwrap();
    surface.remove("sea.example");
    mapper.resolve("ships").await.unwrap();
    later(10).await;
    // Somebody else's miss.
    mapper.resolve("nothing").await.unwrap_err();
    assert!(mapper.resolve("ships").await.unwrap_err().is_no_match());
    assert!(mapper.mapping("sea.example", "Ship", &["v1"]).await.unwrap_err().is_no_match());
    surface.serve("sea.example", "v1", &[resource("ships", "Ship")]);
    mapper.reset();
    mapper.mapping("sea.example", "Ship", &["v1"]).await.unwrap();
    surface.remove("sea.example");
    mapper.reset();
    assert!(mapper.mapping("sea.example", "Ship", &["v1"]).await.unwrap_err().is_no_match());
}

#[tokio::test]
async fn a_group_that_is_down_is_told_of_and_hinders_nobody() {
    for form in [Aggregated::Both, Aggregated::Neither] {
        let surface = Surface::new(form);
        surface.down("metrics.example", true);
        let server = surface.start().await;
        let mapper = mapper(&server).await;
        assert_eq!(resolve(&mapper, "deploy").await, "apps/v1/deployments");
        assert_eq!(resolve(&mapper, "pods").await, "v1/pods");
        for _ in 0..2 {
            let error = mapper.mapping("metrics.example", "PodMetrics", &["v1beta1"]).await.unwrap_err();
            let MappingError::Unavailable { failed, .. } = &error else { panic!("{error:?}") };
            assert_eq!(failed.group_version, GroupVersion::new("metrics.example", "v1beta1"));
            assert!(error.to_string().contains("nobody is there"), "{error}");
        }
        let by_name = mapper.resolve("pods.metrics.example").await.unwrap_err();
        assert!(matches!(by_name, MappingError::Unavailable { .. }), "{by_name:?}");
        // It could be there, and that is said.
        let error = mapper.resolve("podmetrics").await.unwrap_err();
        let MappingError::NoMatch { failed, .. } = &error else { panic!("{error:?}") };
        assert_eq!(failed.len(), 1);
        assert!(error.to_string().contains("could not be asked: metrics.example/v1beta1: "), "{error}");
        // Nor is it asked at each of these.
        let before = server.seen().len();
        mapper.resolve("podmetrics").await.unwrap_err();
        mapper.resolve("hpa").await.unwrap();
        assert_eq!(server.seen().len(), before);
        surface.down("metrics.example", false);
        mapper.mapping("metrics.example", "PodMetrics", &["v1beta1"]).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_not_one_that_lacks_the_kind() {
    let server = Surface::new(Aggregated::Both).start().await;
    let mapper = mapper(&server).await;
    drop(server);
    for error in [
        mapper.resolve("pods").await.unwrap_err(),
        mapper.resolve("deployments.v1.apps").await.unwrap_err(),
        mapper.mapping("apps", "Deployment", &["v1"]).await.unwrap_err(),
    ] {
        assert!(matches!(error, MappingError::Client(_)), "{error:?}");
    }
}

#[tokio::test]
async fn the_groups_are_asked_for_again_once_the_server_is_back() {
    for form in [Aggregated::Both, Aggregated::Neither] {
        let surface = Surface::new(form);
        surface.away(Some(503));
        let server = surface.start().await;
        let mapper = mapper(&server).await;
        for _ in 0..2 {
            let error = mapper.resolve("deploy").await.unwrap_err();
            assert!(matches!(error, MappingError::Client(_)), "{error:?}");
        }
        surface.away(None);
        assert_eq!(resolve(&mapper, "deploy").await, "apps/v1/deployments");
    }
}

#[tokio::test]
async fn groups_that_may_not_be_seen_are_asked_for_again_after_ten_seconds() {
    let surface = Surface::new(Aggregated::Both);
    surface.away(Some(403));
    let server = surface.start().await;
    let mapper = mapper(&server).await;
    mapper.resolve("deploy").await.unwrap_err();
    surface.away(None);
    let before = server.seen().len();
    let error = mapper.resolve("deploy").await.unwrap_err();
    assert!(matches!(error, MappingError::Client(_)), "{error:?}");
    assert_eq!(server.seen().len(), before);
    later(10).await;
    assert_eq!(resolve(&mapper, "deploy").await, "apps/v1/deployments");
}

#[tokio::test]
async fn what_is_known_stays_known_while_the_server_is_away() {
    for (form, code) in [(Aggregated::Both, 503), (Aggregated::Neither, 503), (Aggregated::Both, 401)] {
        let surface = Surface::new(form);
        let server = surface.start().await;
        let mapper = mapper(&server).await;
        mapper.resolve("pods").await.unwrap();
        surface.away(Some(code));
        later(10).await;
        for round in 0..2 {
            for _ in 0..3 {
                // It could be there by now, and nobody can say.
                let error = mapper.resolve("nothing").await.unwrap_err();
                let MappingError::Client(error) = &error else { panic!("{error:?}") };
                assert_eq!(error.status().unwrap().code, code);
            }
            let asked = server.seen().iter().filter(|seen| seen.path() == "/api").count();
            assert_eq!(asked, 2 + round, "once in ten seconds");
            assert_eq!(resolve(&mapper, "pods").await, "v1/pods");
            assert_eq!(resolve(&mapper, "deploy").await, "apps/v1/deployments");
            later(10).await;
        }
        surface.away(None);
        assert_eq!(resolve(&mapper, "pods").await, "v1/pods");
        assert!(mapper.resolve("nothing").await.unwrap_err().is_no_match());
    }
}

#[tokio::test]
async fn a_group_that_goes_down_keeps_what_it_had() {
    for form in [Aggregated::Both, Aggregated::Neither] {
        let surface = Surface::new(form);
        let server = surface.start().await;
        let mapper = mapper(&server).await;
        mapper.resolve("pods").await.unwrap();
        surface.down("", true);
        later(10).await;
        for _ in 0..2 {
            let error = mapper.resolve("nothing").await.unwrap_err();
            let MappingError::NoMatch { failed, .. } = &error else { panic!("{error:?}") };
            assert_eq!(failed[0].group_version, GroupVersion::new("", "v1"));
            assert_eq!(resolve(&mapper, "pods").await, "v1/pods");
            mapper.mapping("", "Pod", &["v1"]).await.unwrap();
        }
    }
}

#[tokio::test]
async fn many_tasks_share_one_mapper() {
    let server = Surface::new(Aggregated::Both).start().await;
    let mapper = mapper(&server).await;
    let mut tasks = JoinSet::new();
    for name in ["po", "deploy", "ev", "hpa", "podmetrics"].into_iter().cycle().take(50) {
        let mapper = mapper.clone();
        tasks.spawn(async move { mapper.resolve(name).await.map(drop) });
    }
    for found in tasks.join_all().await {
        found.unwrap();
    }
    assert_eq!(paths(&server), ["/api", "/apis"]);
}
