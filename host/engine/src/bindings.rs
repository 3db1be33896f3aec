//! Bindings generated from `wit/`, for a world with all exports. Each world of the contract has the same imports and a subset of
//! the exports.

wasmtime::component::bindgen!({
    inline: "
        package pilothouse:host;
        world plugin {
            include pilothouse:controller/imports@0.2.1;
            export pilothouse:controller/descriptor@0.2.1;
            export pilothouse:controller/reconcile@0.2.1;
            export pilothouse:controller/reconcile-many@0.2.1;
            export pilothouse:controller/handler@0.2.1;
        }
    ",
    path: "../../wit",
    imports: {
        "pilothouse:controller/client.get": async | trappable,
        "pilothouse:controller/client.list": async | trappable,
        "pilothouse:controller/client.create": async | trappable,
        "pilothouse:controller/client.update": async | trappable,
        "pilothouse:controller/client.patch": async | trappable,
        "pilothouse:controller/client.delete": async | trappable,
        "pilothouse:controller/client.delete-collection": async | trappable,
        "pilothouse:controller/client.pod-log": async | trappable,
        "pilothouse:controller/client.may": async | trappable,
        "pilothouse:controller/cache.wait-for-writes": async | trappable,
        default: trappable,
    },
    exports: { default: async },
    trappable_error_type: {
        "pilothouse:controller/types.refusal" => crate::imports::Refused,
        "pilothouse:controller/types.client-error" => crate::imports::CallFailed,
    },
    with: {
        "pilothouse:controller/kinds.kind": crate::imports::Kind,
        "pilothouse:controller/objects.object": pilothouse_object::Object,
        "pilothouse:controller/cache.cursor": crate::imports::Cursor,
        "pilothouse:controller/cache.values": crate::imports::Values,
        "pilothouse:controller/cache.query": crate::imports::Query,
        "pilothouse:controller/client.options": crate::imports::Options,
        "pilothouse:controller/client.page": crate::imports::Page,
        "pilothouse:controller/events.event": crate::imports::NewEvent,
        "pilothouse:controller/metrics.metric": crate::imports::Metric,
    },
});
