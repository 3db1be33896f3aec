//! __name__: reconciles the keys of objects that changed, many in one call.

mod greet;

use pilothouse_sdk::prelude::*;

struct __Type__;

#[pilothouse_sdk::batch_reconciler]
impl BatchReconciler for __Type__ {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(greet::descriptor()
            .max_batch(100)
            .linger(Duration::from_millis(100)))
    }

    fn new(_config: &Config) -> Result<Self, String> {
        Ok(Self)
    }

    fn reconcile_many(&mut self, requests: &[Request]) -> Vec<Result<Outcome, Failure>> {
        requests.iter().map(reconcile).collect()
    }
}

/// One result for each key: a failure of one is no failure of the others.
fn reconcile(request: &Request) -> Result<Outcome, Failure> {
    match cache::get(&greet::KIND, &request.key)? {
        Some(object) => greet::greet(&object)?,
        None => info!("{} is gone", request.key),
    }
    Ok(Outcome::Done)
}
