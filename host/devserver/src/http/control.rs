//! [`Control`]: from outside a connection, what its socket does; and [`Connections`], all that are open.

use std::sync::{Arc, Weak};
use std::task::{Context, Waker};

use parking_lot::Mutex;

/// What a connection's socket does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Open,
    /// Nothing moves until it is open again.
    Paused,
    /// Nothing comes and what is sent is lost, for good.
    Dead,
    /// It is to be reset.
    Reset,
}

#[derive(Debug, Default)]
struct ControlState {
    mode: Mode,
    /// Whether a request has come.
    requested: bool,
    /// Reader and writer, to be woken when the mode changes.
    wakers: [Option<Waker>; 2],
}

/// The control of one connection.
#[derive(Debug, Default)]
pub(crate) struct Control(Mutex<ControlState>);

/// Which half of a connection waits.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Half {
    Read,
    Write,
}

impl Control {
    /// The mode; whoever asks is woken when it changes.
    pub(super) fn poll(&self, half: Half, cx: &Context<'_>) -> Mode {
        let mut state = self.0.lock();
        let waker = &mut state.wakers[half as usize];
        if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        state.mode
    }

    /// Notes that a request has come.
    pub(super) fn set_requested(&self) {
        self.0.lock().requested = true;
    }

    pub(super) fn is_requested(&self) -> bool {
        self.0.lock().requested
    }

    pub(super) fn is_open(&self) -> bool {
        self.0.lock().mode == Mode::Open
    }

    pub(super) fn is_reset(&self) -> bool {
        self.0.lock().mode == Mode::Reset
    }

    pub(super) fn set(&self, mode: Mode) {
        let mut state = self.0.lock();
        // What is dead or reset stays so.
        if matches!(state.mode, Mode::Dead | Mode::Reset) && mode != Mode::Reset {
            return;
        }
        state.mode = mode;
        state.wakers.iter_mut().filter_map(Option::take).for_each(Waker::wake);
    }
}

/// The open connections of a server.
#[derive(Debug, Default)]
pub(crate) struct Connections(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    paused: bool,
    controls: Vec<Weak<Control>>,
}

impl Connections {
    /// The control of a new connection, which is paused when all are.
    pub(super) fn add(&self) -> Arc<Control> {
        let control = Arc::new(Control::default());
        let mut open = self.0.lock();
        if open.paused {
            control.set(Mode::Paused);
        }
        open.controls.retain(|c| c.strong_count() > 0);
        open.controls.push(Arc::downgrade(&control));
        control
    }

    /// Stops or lets go on what is sent and received on all connections, new ones included.
    pub(crate) fn pause(&self, paused: bool) {
        let mut open = self.0.lock();
        open.paused = paused;
        let mode = if paused { Mode::Paused } else { Mode::Open };
        open.controls.iter().filter_map(Weak::upgrade).for_each(|c| c.set(mode));
    }

    /// Resets all connections.
    pub(crate) fn reset(&self) {
        let open = self.0.lock();
        open.controls.iter().filter_map(Weak::upgrade).for_each(|c| c.set(Mode::Reset));
    }
}
