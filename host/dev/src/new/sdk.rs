//! The sources of the SDK that this binary was built with: made by `build.rs`.

include!(concat!(env!("OUT_DIR"), "/sdk.rs"));
