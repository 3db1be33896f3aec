//! Bindings that wit-bindgen generates from `wit/`: the raw imports, and one module for each exported interface. Used
//! by `sys`, which wraps the imports, and by the code that the attribute macros generate. Plugins do not use this
//! module directly.
//!
//! Exports are generated per interface instead of per world. Each module has the component type of one export, which
//! gets into a component only when its export macro is called; the component linker merges the types that it finds.
//! `descriptor` + `reconcile` thus make the world `reconciler`, `descriptor` + `reconcile-many` the world
//! `batch-reconciler`, `descriptor` + `handler` the world `event-handler`, and `descriptor` + `handler` + `reconcile`
//! the world `controller`. Generating the worlds themselves would give `descriptor` three times, with macros of the same
//! name.
#![allow(missing_docs, unsafe_code, unreachable_pub, clippy::all)]

/// Generates one module. The only place with the path of the WIT files, which are the crate's own, so that it can be
/// published: a test compares them with those of the repository.
macro_rules! generate {
    ($inline:tt, { $($options:tt)* }) => {
        wit_bindgen::generate!({
            inline: $inline,
            path: "wit",
            runtime_path: "::pilothouse_sdk::bindings::rt",
            $($options)*
        });
    };
}

pub use wit_bindgen::rt;

/// All interfaces that a plugin may import.
pub mod imports {
    generate!("
        package pilothouse:sdk-imports;
        world sdk-imports { include pilothouse:controller/imports@0.2.1; }
    ", {
        generate_all,
        generate_unused_types: true,
        pub_export_macro: true,
    });
    pub use pilothouse::controller::*;
}

/// Export of the interface `descriptor`.
pub mod descriptor {
    generate!("
        package pilothouse:sdk-descriptor;
        world sdk-descriptor { export pilothouse:controller/descriptor@0.2.1; }
    ", {
        pub_export_macro: true,
        export_macro_name: "export_descriptor",
    });
    pub use exports::pilothouse::controller::descriptor::Guest;
}

/// Export of the interface `reconcile-many`.
pub mod reconcile_many {
    generate!("
        package pilothouse:sdk-reconcile-many;
        world sdk-reconcile-many { export pilothouse:controller/reconcile-many@0.2.1; }
    ", {
        pub_export_macro: true,
        export_macro_name: "export_reconcile_many",
        with: {
            "pilothouse:controller/types@0.2.1": crate::bindings::imports::types,
        },
    });
    pub use exports::pilothouse::controller::reconcile_many::{Guest, Request};
}

/// Export of the interface `reconcile`.
pub mod reconcile {
    generate!("
        package pilothouse:sdk-reconcile;
        world sdk-reconcile { export pilothouse:controller/reconcile@0.2.1; }
    ", {
        pub_export_macro: true,
        export_macro_name: "export_reconcile",
        with: {
            "pilothouse:controller/types@0.2.1": crate::bindings::imports::types,
        },
    });
    pub use exports::pilothouse::controller::reconcile::Guest;
}

/// Export of the interface `handler`.
pub mod handler {
    generate!("
        package pilothouse:sdk-handler;
        world sdk-handler { export pilothouse:controller/handler@0.2.1; }
    ", {
        pub_export_macro: true,
        export_macro_name: "export_handler",
        with: {
            "pilothouse:controller/types@0.2.1": crate::bindings::imports::types,
            "pilothouse:controller/objects@0.2.1": crate::bindings::imports::objects,
        },
    });
    pub use exports::pilothouse::controller::handler::{Change, Event, Guest};
}
