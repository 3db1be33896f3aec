//! The one place with `unsafe`: mapping precompiled code.

#![allow(unsafe_code)]

use std::path::Path;

use wasmtime::Engine;
use wasmtime::component::Component;

/// Maps a `.cwasm` file as a component.
///
/// The caller ([`crate::cache::CompileCache`]) passes only files that it wrote itself into a folder of its own with mode
/// 0700, whose digest it checked against the digest stored at writing when it first met them in this process.
pub(crate) fn map(engine: &Engine, file: &Path) -> wasmtime::Result<Component> {
    // SAFETY: `deserialize_file` demands unmodified output of `precompile_component` that stays unchanged while it is
    // mapped. `CompileCache::open` compares the SHA-256 of the whole file with the one recorded when the compiler's output was
    // written; files are written under another name, made read-only (0400) and renamed into place, never changed after.
    unsafe { Component::deserialize_file(engine, file) }
}
