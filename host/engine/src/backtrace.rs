//! The functions of a guest that led to a fault, by name.

use pilothouse_plugin::printable;
use wasmtime::WasmBacktrace;

/// Maximum number of functions.
const MAX_FRAMES: usize = 12;
/// Maximum length of one name in bytes: names of generic functions can have kilobytes.
const MAX_NAME: usize = 160;

/// ` (in inner < outer < …)`; nothing when the component has no names, as release builds of guests.
pub(crate) fn of(error: &wasmtime::Error) -> String {
    error.downcast_ref::<WasmBacktrace>().map_or_else(String::new, |trace| names(&trace.to_string()))
}

/// The names in wasmtime's text of a backtrace, which has them demangled: lines of `0: 0x1a2b - module!function`. Other
/// lines are places in source files.
fn names(text: &str) -> String {
    let frames = text.lines().filter_map(|line| line.split_once(" - "));
    let named = frames.filter(|(_, name)| !name.contains("<wasm function")).map(|(_, name)| {
        let name = name.split_once('!').map_or(name, |(_, function)| function);
        printable(&name[..name.floor_char_boundary(MAX_NAME)])
    });
    let names: Vec<String> = named.take(MAX_FRAMES).collect();
    if names.is_empty() { String::new() } else { format!(" (in {})", names.join(" < ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_with_names_are_listed_innermost_first_and_others_are_left_out() {
        let text = "error while executing at wasm backtrace:\n    0:  0x1a2b - probe.wasm!core::panicking::panic\n              \
                    at /src/lib.rs:3:4\n    1:  0x2b3c - <unknown>!<wasm function 12>\n    2:  0x3c4d - probe.wasm!probe::run\u{1b}[31m\n";
        assert_eq!(names(text), " (in core::panicking::panic < probe::run\\u{1b}[31m)");
        assert_eq!(
            names("error while executing at wasm backtrace:\n    0:  0x1a - <unknown>!<wasm function 1>"),
            ""
        );
    }

    #[test]
    fn a_deep_stack_of_long_names_stays_short() {
        let frame = |n: usize| format!("    {n}:  0x1 - m!{}\n", "é".repeat(1000));
        let text: String = (0..100).map(frame).collect();
        assert!(names(&text).len() <= MAX_FRAMES * (MAX_NAME + 3) + 8);
    }
}
