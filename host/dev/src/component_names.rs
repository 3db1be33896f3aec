//! [`without_names`]: a component without the names of its parts.
//!
//! The linker names each import, type and instance within a component in the section `component-name`. Nobody reads it: the
//! host prints names of functions only, which are in the section `name` of a core module, if the crate's profile keeps it.

use wasmparser::BinaryReader;

/// The section of the outer component.
const SECTION: &str = "component-name";
/// Magic number and version.
const PREAMBLE: usize = 8;
/// The number of custom sections.
const CUSTOM: u8 = 0;

/// The component without its section `component-name`. What cannot be read stays as it is, for those who say what is wrong.
pub(crate) fn without_names(wasm: Vec<u8>) -> Vec<u8> {
    stripped(&wasm).unwrap_or(wasm)
}

fn stripped(wasm: &[u8]) -> wasmparser::Result<Vec<u8>> {
    let mut reader = BinaryReader::new(wasm, 0);
    let mut kept = reader.read_bytes(PREAMBLE)?.to_vec();
    while !reader.eof() {
        let start = reader.current_position();
        let id = reader.read_u8()?;
        let length = reader.read_var_u32()?;
        let content = reader.read_bytes(usize::try_from(length).unwrap_or(usize::MAX))?;
        if id != CUSTOM || BinaryReader::new(content, 0).read_string()? != SECTION {
            kept.extend_from_slice(&wasm[start..reader.current_position()]);
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A custom section.
    fn custom(name: &str, data: &[u8]) -> Vec<u8> {
        let length = |length: usize| u8::try_from(length).unwrap();
        let content = [&[length(name.len())], name.as_bytes(), data].concat();
        [&[CUSTOM, length(content.len())], &*content].concat()
    }

    #[test]
    fn only_the_names_of_the_outer_component_go() {
        let preamble = b"\0asm\x0d\0\x01\0";
        // Section 4 is a nested component.
        let nested = [&preamble[..], &custom("component-name", b"1")].concat();
        let nested = [&[4, u8::try_from(nested.len()).unwrap()], &*nested].concat();
        let kept = [&nested[..], &custom("pilothouse.crd", b"{}\n")].concat();
        let names = custom("component-name", b"12");
        let wasm = [&preamble[..], &names, &kept, &names].concat();
        assert_eq!(without_names(wasm), [&preamble[..], &kept].concat());
    }

    #[test]
    fn what_cannot_be_read_stays() {
        for bytes in [
            &b""[..],
            b"#!/bin/sh",
            b"\0asm\x0d\0\x01\0\0\x05\x0ecomp",
            b"\0asm\x0d\0\x01\0\0\xff\xff\xff\xff\x0f",
        ] {
            assert_eq!(without_names(bytes.to_vec()), bytes);
        }
    }
}
