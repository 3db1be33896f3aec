//! [`needs`]: why a component that was built without WASI cannot do without it.
//!
//! An import of WASI is in the component by name. The standard library imports nothing on this target: its clocks panic, and
//! printed text is lost. Code that may call them has the text of their panic among its data, and code that cannot be called is
//! not linked.

use wasmparser::{Parser, Payload};

use pilothouse_hosting::inspect::interfaces::Interfaces;

/// Functions of the standard library that do not work without WASI.
struct StdFunctions {
    /// The text of a panic in them.
    panic: &'static [u8],
    /// Why a component that may call them needs WASI, and what to call instead.
    need: &'static str,
}

const STD: [StdFunctions; 2] = [
    StdFunctions {
        panic: b"time not implemented on this platform",
        need: "it reads the clock of the standard library (wasi:clocks), which panics without it: call ctx.now() in place of \
               SystemTime::now() and Instant::now()",
    },
    StdFunctions {
        panic: b"failed printing to ",
        need: "it prints to standard output or error (wasi:cli), whose text is lost without it: write info!() or another log macro \
               of the SDK in place of println!(), eprintln!() and dbg!()",
    },
];

/// Why the component needs WASI; empty if it does not.
pub(crate) fn needs(wasm: &[u8]) -> Vec<String> {
    let interfaces = Interfaces::of(wasm);
    let imports = interfaces.of_wasi();
    let imported = (!imports.is_empty()).then(|| format!("it imports {}", imports.join(", ")));
    let data = data(wasm);
    let has = |text: &[u8]| data.iter().any(|data| data.windows(text.len()).any(|window| window == text));
    let called =
        STD.iter().filter(|functions| has(functions.panic)).map(|functions| functions.need.to_owned());
    imported.into_iter().chain(called).collect()
}

/// The data of all core modules, as far as the component can be read.
fn data(wasm: &[u8]) -> Vec<&[u8]> {
    let mut all = Vec::new();
    for payload in Parser::new(0).parse_all(wasm).map_while(Result::ok) {
        if let Payload::DataSection(section) = payload {
            all.extend(section.into_iter().map_while(Result::ok).map(|segment| segment.data));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

    fn section(id: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).unwrap();
        assert!(length < 128, "a length of one byte");
        [&[id, length], content].concat()
    }

    fn text(text: &[u8]) -> Vec<u8> {
        [&[u8::try_from(text.len()).unwrap()], text].concat()
    }

    /// A core module with these segments of data.
    fn module(segments: &[&[u8]]) -> Vec<u8> {
        // An active segment at `i32.const 0`.
        let count = u8::try_from(segments.len()).unwrap();
        let segments = segments.iter().flat_map(|data| [&b"\0\x41\0\x0b"[..], &text(data)].concat());
        let content = [&[count], &*segments.collect::<Vec<u8>>()].concat();
        section(1, &[&b"\0asm\x01\0\0\0"[..], &section(11, &content)].concat())
    }

    /// Imports of instances.
    fn imports(names: &[&str]) -> Vec<u8> {
        let imports = names.iter().flat_map(|name| [&b"\0"[..], &text(name.as_bytes()), b"\x05\0"].concat());
        section(10, &[&[u8::try_from(names.len()).unwrap()], &*imports.collect::<Vec<u8>>()].concat())
    }

    #[test]
    fn imports_of_wasi_are_named_and_others_are_not() {
        let own = imports(&["pilothouse:controller/log@0.2.0"]);
        assert_eq!(needs(&[COMPONENT, &own].concat()), [""; 0]);
        let names = ["wasi:http/types@0.2.12", "pilothouse:controller/log@0.2.0", "wasi:io/poll@0.2.12"];
        let wasm = [COMPONENT, &imports(&names)].concat();
        assert_eq!(needs(&wasm), ["it imports wasi:http/types@0.2.12, wasi:io/poll@0.2.12"]);
    }

    #[test]
    fn what_the_standard_library_cannot_do_is_found_in_the_data_of_any_module() {
        let clock = module(&[b"..time not implemented on this platform.."]);
        let printing = module(&[b"failed printing to stdout"]);
        let clean = module(&[b"failed printing", b" to time not implemented"]);
        assert_eq!(needs(&[COMPONENT, &clean].concat()), [""; 0]);
        let found = needs(&[COMPONENT, &clean, &clock, &printing].concat());
        let [clock, printing] = &*found else { panic!("{found:?}") };
        assert!(clock.contains("(wasi:clocks)") && clock.contains("ctx.now()"), "{clock}");
        assert!(printing.contains("(wasi:cli)") && printing.contains("info!()"), "{printing}");
    }

    #[test]
    fn what_cannot_be_read_needs_nothing() {
        for bytes in [&b""[..], b"#!/bin/sh", b"\0asm\x0d\0\x01\0\x01\x0f\0asm"] {
            assert_eq!(needs(bytes), [""; 0]);
        }
    }
}
