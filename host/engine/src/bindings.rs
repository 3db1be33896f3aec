//! Bindings generated from `wit/`, for the widest world; narrower worlds use the same imports and some of the exports.

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "controller",
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
