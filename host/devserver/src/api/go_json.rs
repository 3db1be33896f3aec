//! JSON as Go writes it.

use serde_json::Value;

/// JSON as Go writes it: letters that mean something in HTML are escaped.
pub(crate) fn write_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::String(text) => write_text(out, text.as_bytes(), true),
        Value::Array(list) => {
            out.push(b'[');
            for (index, element) in list.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_value(out, element);
            }
            out.push(b']');
        }
        Value::Object(map) => {
            out.push(b'{');
            for (index, (name, value)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_text(out, name.as_bytes(), true);
                out.push(b':');
                write_value(out, value);
            }
            out.push(b'}');
        }
        // Writing to memory cannot fail.
        scalar => drop(serde_json::to_writer(out, scalar)),
    }
}

/// A text; `text` is UTF-8.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &[u8], escape_html: bool) {
    out.push(b'"');
    for (index, byte) in text.iter().enumerate() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'<' | b'>' | b'&' if escape_html => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            // The line separators U+2028 and U+2029.
            0xa8 | 0xa9 if escape_html && text.get(..index).is_some_and(|t| t.ends_with(&[0xe2, 0x80])) => {
                out.truncate(out.len() - 2);
                out.extend_from_slice(if *byte == 0xa8 { b"\\u2028" } else { b"\\u2029" });
            }
            _ => out.push(*byte),
        }
    }
    out.push(b'"');
}
