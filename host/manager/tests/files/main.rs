//! Tests of what the host reads from files and guests: manifests, descriptions, the plugin directory.

mod describe;
mod directory;
mod manifest;
