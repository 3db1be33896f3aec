//! A controller with typed Kubernetes: `Site` is a custom resource by kube's derive, and its Deployment is that of
//! k8s-openapi. It shows that such types work with the SDK, and how large a component they make.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube_derive::CustomResource;
use pilothouse_sdk::prelude::*;
use schemars::JsonSchema;

/// A web site.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "example.com", version = "v1", kind = "Site", namespaced, status = "SiteStatus")]
#[kube(crates(kube_core = "::kube_core"))]
struct SiteSpec {
    image: String,
    replicas: i32,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
struct SiteStatus {
    available: i32,
}

struct Sites;

#[pilothouse_sdk::reconciler]
impl Reconciler for Sites {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(Descriptor::new("sites")
            .watch(Watch::of::<Site>().predicate(Predicate::GenerationChanged))
            .owns::<Deployment>()
            .index(Index::by_path(Kind::of::<Site>(), "by-image", "/spec/image"))
            .writes::<Deployment>(Verb::APPLY)
            .writes_status::<Site>())
    }

    fn reconcile(&mut self, ctx: &Context, request: &Request) -> Result<Outcome, Failure> {
        let Some(site) = ctx.get::<Site>(&request.key)? else { return Ok(Outcome::Done) };
        let mut deployment = deployment(&site);
        set_controller_reference(&site, &mut deployment)?;
        if ctx.apply(&deployment)?.is_change() {
            info!("applied", site = request.key);
        }
        let present = ctx.get::<Deployment>(&request.key)?.and_then(|deployment| deployment.status);
        let available = present.and_then(|status| status.available_replicas).unwrap_or_default();
        let _ = ctx.patch_status(&site, &SiteStatus { available })?;
        Ok(Outcome::Done)
    }
}

fn deployment(site: &Site) -> Deployment {
    let labels = [("site".to_owned(), site.key().name)].into();
    let container =
        Container { name: "web".to_owned(), image: Some(site.spec.image.clone()), ..Container::default() };
    Deployment {
        metadata: ObjectMeta {
            name: site.metadata.name.clone(),
            namespace: site.metadata.namespace.clone(),
            ..ObjectMeta::default()
        },
        spec: Some(DeploymentSpec {
            replicas: Some(site.spec.replicas),
            selector: LabelSelector {
                match_labels: Some(std::collections::BTreeMap::clone(&labels)),
                ..LabelSelector::default()
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }),
                spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
            },
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::testing::World;

    use super::*;

    #[test]
    fn a_site_gets_its_deployment_and_its_status() {
        let world = World::of::<Sites>(json!({}));
        let mut sites = world.start::<Sites>();
        let mut site = Site::new("a", SiteSpec { image: "web:1".to_owned(), replicas: 2 });
        site.metadata.namespace = Some("default".to_owned());
        world.create(&site);
        world.settle(&mut sites);

        let key = Key::namespaced("default", "a");
        let deployment: Deployment = world.get(&key).unwrap();
        assert_eq!(deployment.spec.as_ref().unwrap().replicas, Some(2));
        assert_eq!(deployment.metadata.owner_references.unwrap()[0].kind, "Site");
        world.set_status(&Kind::of::<Deployment>(), &key, json!({"availableReplicas": 2}));
        world.settle(&mut sites);
        let site: Site = world.get(&key).unwrap();
        assert_eq!(site.status, Some(SiteStatus { available: 2 }));
        world.take_writes();
        world.enqueue(&key);
        world.settle(&mut sites);
        assert_eq!(world.take_writes(), []);
        assert_eq!(world.context().by_index::<Site>("by-image", "web:1").unwrap().count(), 1);
    }
}
