//! __name__: reconciles the keys of objects that changed, many in one call.

mod greet;
#[cfg(test)]
mod tests;

use pilothouse_sdk::prelude::*;

use greet::__kind__;

struct Plugin;

#[pilothouse_sdk::batch_reconciler]
impl BatchReconciler for Plugin {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(greet::descriptor()
            .max_batch(100)
            .linger(Duration::from_millis(100)))
    }

    fn reconcile_many(
        &mut self,
        ctx: &Context,
        requests: &[Request],
    ) -> Vec<Result<Outcome, Failure>> {
        let reconcile = |request| reconcile(ctx, request);
        requests.iter().map(reconcile).collect()
    }
}

/// One result for each key: a failure of one is no failure of the others.
fn reconcile(ctx: &Context, request: &Request) -> Result<Outcome, Failure> {
    match ctx.get::<__kind__>(&request.key)? {
        Some(object) => greet::greet(ctx, &object)?,
        None => info!("{} is gone", request.key),
    }
    Ok(Outcome::Done)
}
