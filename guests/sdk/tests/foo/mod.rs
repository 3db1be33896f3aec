//! A Foo, and its controller: a Deployment with a controller reference, a finalizer, a condition, Events and a metric.

use pilothouse_sdk::prelude::*;

static WRITTEN: Counter<1> = Counter::new("written_total", "Objects that were written.", ["kind"]);

/// The object that the controller is about.
#[derive(Resource, Serialize, Deserialize, Debug, Clone, Default)]
#[resource(group = "example.com", version = "v1")]
pub(crate) struct Foo {
    pub(crate) metadata: Metadata,
    pub(crate) spec: FooSpec,
    pub(crate) status: Option<FooStatus>,
}

#[derive(Serialize, Deserialize, Debug, Clone, Default)]
pub(crate) struct FooSpec {
    pub(crate) replicas: i32,
}

#[derive(Serialize, Deserialize, Debug, Clone, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FooStatus {
    pub(crate) available: i32,
    pub(crate) conditions: Vec<Condition>,
}

/// A Deployment, with the fields that the controller uses.
#[derive(Resource, Serialize, Deserialize, Debug, Clone, Default)]
#[resource(group = "apps", version = "v1")]
pub(crate) struct Deployment {
    pub(crate) metadata: Metadata,
    #[serde(default)]
    pub(crate) spec: DeploymentSpec,
    #[serde(default)]
    pub(crate) status: DeploymentStatus,
}

#[derive(Serialize, Deserialize, Debug, Clone, Default)]
pub(crate) struct DeploymentSpec {
    pub(crate) replicas: Option<i32>,
}

#[derive(Serialize, Deserialize, Debug, Clone, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeploymentStatus {
    pub(crate) available_replicas: i32,
}

impl Foo {
    pub(crate) fn new(key: &Key, replicas: i32) -> Self {
        Self { metadata: Metadata::new(key), spec: FooSpec { replicas }, status: None }
    }
}

pub(crate) struct FooController;

#[pilothouse_sdk::reconciler]
impl Reconciler for FooController {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(Descriptor::new("foo")
            .watch(Watch::of::<Foo>().predicate(Predicate::GenerationChanged))
            .owns::<Deployment>()
            .writes::<Deployment>(Verb::APPLY)
            .writes::<Foo>([Verb::Patch])
            .writes_status::<Foo>()
            .records_events())
    }

    fn reconcile(&mut self, ctx: &Context, request: &Request) -> Result<Outcome, Failure> {
        let Some(found) = ctx.get::<Foo>(&request.key)? else { return Ok(Outcome::Done) };
        finalizer(ctx, &found, "example.com/foo", |event| match event {
            Finalizer::Apply(found) => apply(ctx, found),
            Finalizer::Cleanup(found) => {
                info!("cleaned up", foo = found.key());
                Ok(Outcome::Done)
            }
        })
    }
}

fn apply(ctx: &Context, owner: &Foo) -> Result<Outcome, Failure> {
    let key = owner.key().child("-web");
    let mut deployment = Deployment { metadata: Metadata::new(&key), ..Deployment::default() };
    deployment.spec.replicas = Some(owner.spec.replicas);
    set_controller_reference(owner, &mut deployment)?;
    match ctx.apply(&deployment)? {
        Written::Created => {
            WRITTEN.inc(ctx, ["deployment"]);
            ctx.event(owner, "Created", format_args!("created the Deployment {}", key.name));
        }
        Written::Changed => {
            ctx.event(owner, "Updated", format_args!("updated the Deployment {}", key.name));
        }
        Written::Unchanged => {}
    }

    let present: Option<Deployment> = ctx.get(&key)?;
    let mut status = owner.status.clone().unwrap_or_default();
    status.available = present.map_or(0, |deployment| deployment.status.available_replicas);
    let ready = status.available >= owner.spec.replicas;
    let condition = Condition::new("Ready", ready, "Replicas", format!("{} are available", status.available));
    status.conditions.set_condition(ctx, condition.observed_generation(owner.metadata.generation));
    let _ = ctx.patch_status(owner, &status)?;
    Ok(Outcome::Done)
}
