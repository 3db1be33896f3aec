//! Recording: the imports of a guest with somebody who writes down what passes.

mod cursor;
mod exchanges;
mod imports;
mod recorder;
mod system;
mod tape;

pub use imports::RecordingImports;
pub use recorder::{InstanceInfo, Recorder, RecorderError, RecorderOptions};
pub use tape::Tape;
