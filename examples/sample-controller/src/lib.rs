//! A Foo becomes a Deployment: does what the well-known sample controller does, with a finalizer and a condition as well.
//!
//! What is reconciled is a Foo. A change of a Deployment reconciles the Foo that controls it.

#[cfg(test)]
mod tests;

use pilothouse_sdk::prelude::*;

/// nginx Pods in a Deployment.
#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "samplecontroller.example.com", version = "v1alpha1", crd)]
struct Foo {
    metadata: Metadata,
    spec: FooSpec,
    status: Option<FooStatus>,
}

#[derive(Schema, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FooSpec {
    /// The name of the Deployment.
    #[schema(min_length = 1, max_length = 253)]
    deployment_name: String,
    /// The number of Pods.
    #[schema(minimum = 1, maximum = 10, default = 1)]
    replicas: u64,
}

#[derive(Schema, Serialize, Deserialize, Clone, Default)]
#[serde(rename_all = "camelCase", default)]
struct FooStatus {
    available_replicas: u64,
    conditions: Vec<Condition>,
}

/// Fields of the spec and the status that are not named here stay as they are.
#[derive(Resource, Serialize, Deserialize, Default)]
#[resource(group = "apps", version = "v1")]
#[serde(default)]
struct Deployment {
    metadata: Metadata,
    spec: Value,
    status: Value,
}

struct SampleController;

#[pilothouse_sdk::reconciler]
impl Reconciler for SampleController {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(Descriptor::new("sample-controller")
            .watch(Watch::of::<Foo>().predicate(Predicate::GenerationChanged))
            .owns::<Deployment>()
            .writes::<Deployment>([Verb::Create, Verb::Patch, Verb::Delete])
            .writes::<Foo>([Verb::Patch])
            .writes_status::<Foo>()
            .records_events())
    }

    fn reconcile(&mut self, ctx: &Context, request: &Request) -> Result<Outcome, Failure> {
        let Some(owner) = ctx.get::<Foo>(&request.key)? else { return Ok(Outcome::Done) };
        let key = request.key.sibling(&owner.spec.deployment_name);
        finalizer(ctx, &owner, "samplecontroller.example.com/deployment", |event| match event {
            Finalizer::Apply(owner) => sync(ctx, owner, &key),
            // The Foo goes after its Deployment.
            Finalizer::Cleanup(owner) => {
                ctx.delete_child::<Deployment>(owner, &key)?;
                Ok(Outcome::Done)
            }
        })
    }
}

fn sync(ctx: &Context, owner: &Foo, key: &Key) -> Result<Outcome, Failure> {
    let mut status = owner.status.clone().unwrap_or_default();
    let written = ctx.create_or_update(key, |deployment: &mut Deployment| {
        if deployment.metadata.uid.is_empty() {
            set_controller_reference(owner, deployment)?;
            let labels = json!({"app": "nginx", "controller": owner.metadata.name});
            let pod = json!({"containers": [{"name": "nginx", "image": "nginx:latest"}]});
            let template = json!({"metadata": {"labels": labels}, "spec": pod});
            deployment.spec = json!({"selector": {"matchLabels": labels}, "template": template});
        } else if !deployment.is_controlled_by(owner) {
            let message = format!("Deployment {} exists and is not controlled by this Foo", key.name);
            ctx.warning(owner, "ErrResourceExists", &message);
            // Nothing tells of the end of a Deployment that belongs to somebody else: it is tried again.
            return Err(Failure::transient(message).into());
        }
        deployment.spec["replicas"] = owner.spec.replicas.into();
        status.available_replicas = deployment.status["availableReplicas"].as_u64().unwrap_or(0);
        Ok(())
    })?;
    let is_ready = status.available_replicas >= owner.spec.replicas;
    let ready = Condition::new("Ready", is_ready, "Replicas", "the available replicas were counted");
    status.conditions.set_condition(ctx, ready.observed_generation(owner.metadata.generation));
    if ctx.patch_status(owner, &status)?.is_change() || written.is_change() {
        ctx.event(owner, "Synced", "the Deployment is as this Foo says");
    }
    Ok(Outcome::Done)
}
