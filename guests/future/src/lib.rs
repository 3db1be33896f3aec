//! A reconciler built against a contract with one interface more than the host has, `teleport`, which it really
//! calls. Tests use it to see that the host refuses it at load and names the missing import.

use pilothouse_sdk::prelude::*;

/// The interface that is still to come, in the package of the contract. The linker of components adds it to what the
/// SDK brings.
#[allow(missing_docs, unsafe_code, unreachable_pub, clippy::all)]
mod bindings {
    wit_bindgen::generate!({
        inline: "
            package pilothouse:controller@0.1.0;

            interface teleport {
                teleport: func(name: string) -> bool;
            }

            world with-teleport {
                import teleport;
            }
        ",
    });
}

struct Future;

#[pilothouse_sdk::reconciler]
impl Reconciler for Future {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(Descriptor::new("future").watch(Watch::new(Kind::core("v1", "ConfigMap"))))
    }

    fn new(_config: &Config) -> Result<Self, String> {
        Ok(Self)
    }

    fn reconcile(&mut self, request: &Request) -> Result<Outcome, Failure> {
        if bindings::pilothouse::controller::teleport::teleport(&request.key.name) {
            Ok(Outcome::Done)
        } else {
            Ok(Outcome::Requeue)
        }
    }
}
