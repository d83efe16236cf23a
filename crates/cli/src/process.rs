//! This process, the signals that it gets, and the one that started it.

use crate::failure::Failure;
use crate::interrupt;
use crate::signal::ending;
use sd_notify::NotifyState;
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;

/// This program's file.
pub(crate) fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(Failure::io("finding this program"))
}

/// Ends this process when the one that started it ends, in whatever way.
pub(crate) fn die_with_parent() -> Result<(), Failure> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
        .map_err(|error| Failure::Io { what: "asking to end with the parent", source: error.into() })
}

/// Signals that a server waits for once it serves. Until then they end the program as they end any command.
pub(crate) fn ending_signals() -> Result<Signals, Failure> {
    Signals::new(ending()).map_err(Failure::io("listening to signals"))
}

/// From now on a signal makes [`serve`] end the server in order. Call this before anything says that the server is ready.
pub(crate) fn is_up() {
    interrupt::hand_over();
}

/// Keeps a server that [`is_up`] until there is a signal, or until it ends by itself and says why. Tells the service
/// manager that the server is ready, and that it ends (systemd sd_notify(3)).
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
    notify(NotifyState::Ready);
    signals.forever().next();
    notify(NotifyState::Stopping);
    // The end takes a while where much has to be made durable: a second signal does not wait for it.
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            std::process::exit(128 + signal);
        }
    });
    drop(server);
    match watch.join() {
        Ok(None) => Ok(()),
        Ok(Some(error)) => Err(error.into()),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Tells the service manager, if one has started this process.
fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "cannot notify the service manager at the address in NOTIFY_SOCKET");
    }
}

/// Processors that this process may use, as far as that is known; at least one.
pub(crate) fn processors() -> u16 {
    std::thread::available_parallelism().map_or(1, |count| u16::try_from(count.get()).unwrap_or(u16::MAX))
}
