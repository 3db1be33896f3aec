//! A component of a world that is none of Pilothouse's. Tests use it to see that the host refuses it and says why.

/// What wit-bindgen makes of `wit/`.
#[allow(missing_docs, unsafe_code, unreachable_pub, clippy::all)]
mod bindings {
    wit_bindgen::generate!({ world: "greeter" });
}

struct Greeter;

impl bindings::exports::example::greeter::greet::Guest for Greeter {
    fn greet(name: String) -> String {
        format!("Hello, {name}!")
    }
}

/// The exports. A native linker cannot do with their names.
#[cfg(target_family = "wasm")]
#[allow(unsafe_code)]
mod exports {
    use super::{Greeter, bindings};

    bindings::export!(Greeter with_types_in bindings);
}
