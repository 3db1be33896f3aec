//! Bindings generated from `wit/`, one module for each version of the contract, for a world with all exports. Each world of the
//! contract has the same imports and a subset of the exports.

/// Contract 0.1.
pub(crate) mod v0_1 {
    wasmtime::component::bindgen!({
        inline: "
            package pilothouse:host;
            world plugin {
                include pilothouse:controller/imports@0.1.0;
                export pilothouse:controller/descriptor@0.1.0;
                export pilothouse:controller/reconcile@0.1.0;
                export pilothouse:controller/reconcile-many@0.1.0;
                export pilothouse:controller/handler@0.1.0;
            }
        ",
        path: "../../wit/0.1",
        imports: {
            "pilothouse:controller/client": async | trappable,
            "pilothouse:controller/cache.wait-for-writes": async | trappable,
            default: trappable,
        },
        exports: { default: async },
        with: {
            "pilothouse:controller/objects.object": pilothouse_object::Object,
            "pilothouse:controller/cache.cursor": crate::imports::Cursor,
        },
    });
}
