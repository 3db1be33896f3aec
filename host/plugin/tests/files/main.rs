//! Tests of what the host reads from files and guests: manifests, descriptions.

mod describe;
mod documents;
mod manifest;
mod objects;
mod predicates;
