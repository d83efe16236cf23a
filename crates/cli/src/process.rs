//! This process, the signals that it gets, and the one that started it.

use crate::failure::Failure;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Receiver;

/// The signals by which people and machines ask a program to end.
const ENDING: [i32; 2] = [SIGINT, SIGTERM];

/// This program's file.
pub(crate) fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(Failure::io("finding this program"))
}

/// Ends this process when the one that started it ends, in whatever way.
pub(crate) fn die_with_parent() -> Result<(), Failure> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
        .map_err(|error| Failure::Io { what: "asking to end with the parent", source: error.into() })
}

/// A flag that the first signal to end raises; the second ends the program at once.
pub(crate) fn stop_on_signal() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in ENDING {
        flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .map_err(Failure::io("listening to signals"))?;
    }
    Ok(stop)
}

/// Signals to end do not end the program from here on, but are waited for.
pub(crate) fn ending_signals() -> Result<Signals, Failure> {
    Signals::new(ENDING).map_err(Failure::io("listening to signals"))
}

/// Keeps a server until there is a signal, or until it ends by itself and says why.
pub(crate) fn serve<S, E: Into<Failure> + Send + 'static>(
    server: S,
    failure: Option<Receiver<E>>,
    mut signals: Signals,
) -> Result<(), Failure> {
    let handle = signals.handle();
    let watch = std::thread::spawn(move || {
        let error = failure.and_then(|failure| failure.recv().ok());
        handle.close();
        error
    });
    signals.forever().next();
    drop(server);
    match watch.join() {
        Ok(None) => Ok(()),
        Ok(Some(error)) => Err(error.into()),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
