//! The wasmtime side: engine, compile cache, bindings, limits and host imports.
