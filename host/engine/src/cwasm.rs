//! Maps precompiled code: the only module with `unsafe`.

#![allow(unsafe_code)]

use std::path::Path;

use wasmtime::Engine;
use wasmtime::component::Component;

/// Maps a `.cwasm` file as a component.
///
/// The caller ([`crate::cache::CompileCache`]) must pass only files of the cache folder (owned by this user, mode 0700)
/// that it added itself, or whose digest it compared with the recorded one, in this process.
pub(crate) fn map(engine: &Engine, file: &Path) -> wasmtime::Result<Component> {
    // SAFETY: `deserialize_file` requires unmodified output of `precompile_component` that does not change while it is
    // mapped. `CompileCache::contains` compared the SHA-256 of the whole file with the one recorded when the compiler's
    // output was written, once in this process, or `CompileCache::adopt` added the file in this process. The host
    // writes files under another name, makes them read-only (0400), renames them into place and does not change them
    // afterwards. Other users cannot write to the folder (0700).
    unsafe { Component::deserialize_file(engine, file) }
}
