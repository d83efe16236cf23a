//! What a driver does with eventfds.

use onego_wire::{ConnId, Disconnect, Machine, Time};
use rustix::fs::{FileType, fstat};
use std::io;
use std::os::fd::OwnedFd;

/// The eventfds that a machine watches.
#[derive(Debug, Default)]
pub(crate) struct WatchedEvents(Vec<(ConnId, OwnedFd)>);

impl WatchedEvents {
    /// Watches one more, or says that it cannot be watched.
    pub(crate) fn watch(&mut self, now: Time, machine: &mut impl Machine, conn: ConnId, eventfd: OwnedFd) {
        // An eventfd has no type, and those that can be watched by epoll are not files of a file system.
        let is_file = fstat(&eventfd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file());
        if is_file {
            let error = io::Error::from(rustix::io::Errno::PERM);
            return machine.disconnected(now, conn, Disconnect::Failed(error));
        }
        self.0.push((conn, eventfd));
    }

    /// Ends a watch of that name. `false`: there is none.
    pub(crate) fn close(&mut self, conn: ConnId) -> bool {
        let before = self.0.len();
        self.0.retain(|(other, _)| *other != conn);
        self.0.len() < before
    }

    /// Tells the machine of those that were signalled. `false`: none was.
    ///
    /// A driver does not read eventfds, whose owner may; this one sees edges by emptying them.
    pub(crate) fn poll(&self, now: Time, machine: &mut impl Machine) -> bool {
        let mut signalled = false;
        for (conn, eventfd) in &self.0 {
            if take_signals(eventfd) > 0 {
                signalled = true;
                machine.ready(now, *conn);
            }
        }
        signalled
    }
}

/// Signals an eventfd, which must not block.
pub fn signal(eventfd: &OwnedFd) {
    // One that takes no signal has signals that were not taken.
    let _ = rustix::io::write(eventfd, &1_u64.to_ne_bytes());
}

/// How often an eventfd, which must not block, was signalled since the last time.
pub fn take_signals(eventfd: &OwnedFd) -> u64 {
    let mut count = [0; 8];
    if rustix::io::read(eventfd, &mut count).is_ok_and(|read| read == count.len()) {
        u64::from_ne_bytes(count)
    } else {
        0
    }
}
