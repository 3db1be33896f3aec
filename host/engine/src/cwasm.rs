//! Maps precompiled code: the only module with `unsafe`.

#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd as _;

use wasmtime::Engine;
use wasmtime::component::Component;

/// Maps an open `.cwasm` file as a component.
///
/// The caller must have checked this very file: [`crate::cache::CompileCache`] compares owner, mode and SHA-256 of the
/// descriptor.
pub(crate) fn map(engine: &Engine, file: &File) -> wasmtime::Result<Component> {
    // wasmtime maps components by path only. This path is the open file itself, not its name in the folder, which could
    // name another file by now.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // SAFETY: `deserialize_file` requires unmodified output of `precompile_component` that does not change while it is
    // mapped. The only caller, `CompileCache::map`, passes a regular file that belongs to this user and that nobody may
    // write (0400), and whose content it hashed through this descriptor, or hashed before while device, inode, size and
    // times were the same. The hash is that of the compiler's output (`CompileCache::adopt`). Only this user and root
    // could give themselves the permission to write the file again; both are trusted (docs/security.md).
    unsafe { Component::deserialize_file(engine, path) }
}
