//! Rules of events: the recorder's and the correlator's, those of writing to a sink, on a paused clock; and what a server shows.

mod conservation;
mod correlator;
mod logging;
mod model;
mod recorder;
mod recording;
mod series;
mod server;
mod shutdown;
mod support;
