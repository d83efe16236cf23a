//! Sockets that are closed while the kernel still uses memory for them.
use super::error_queue;
use super::stream::Stream;
use crate::system::clock;
use onego_wire::Time;
use rustix::net::{Shutdown, shutdown};
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::Duration;

/// Time that a peer has to acknowledge what was sent before the close; then the connection is aborted. Bounds the
/// memory that vanished peers hold.
const PATIENCE: Duration = Duration::from_secs(30);

const INTERVAL: Duration = Duration::from_millis(100);

/// Time that a dropped engine waits for peers, and after aborting their connections, for the kernel; then the memory is
/// leaked.
const DROP_PATIENCE: Duration = Duration::from_secs(1);

/// Sockets that stay open until the kernel has released the memory of their sends: a closed socket gets no
/// notifications.
#[derive(Default)]
pub(crate) struct Closing {
    sockets: Vec<(OwnedFd, Box<Stream>, Time)>,
    next: Time,
}

impl Closing {
    /// Closes a socket later, or returns it if the kernel uses none of its memory.
    pub(crate) fn close(&mut self, socket: OwnedFd, mut stream: Box<Stream>) -> Option<OwnedFd> {
        if !stream.is_idle() {
            stream.reap(&socket);
        }
        if stream.is_idle() {
            return Some(socket);
        }
        // Fails if the connection is gone already.
        let _ = shutdown(&socket, Shutdown::Both);
        self.sockets.push((socket, stream, clock::now() + PATIENCE));
        None
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    pub(crate) fn turn(&mut self) {
        let now = clock::now();
        if self.sockets.is_empty() || now < self.next {
            return;
        }
        self.next = now + INTERVAL;
        self.sockets.retain_mut(|(socket, stream, end)| {
            if *end <= now {
                error_queue::abort(socket.as_fd());
            }
            stream.reap(socket);
            !stream.is_idle()
        });
    }

    /// Checks all sockets repeatedly. Returns whether the kernel has released all memory in time.
    fn finish(&mut self, patience: Duration) -> bool {
        let end = clock::now() + patience;
        loop {
            self.next = Time::default();
            self.turn();
            if self.sockets.is_empty() || clock::now() >= end {
                return self.sockets.is_empty();
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Closing {
    /// Takes all memory back from the kernel before it is freed, first in good order.
    fn drop(&mut self) {
        if self.finish(DROP_PATIENCE) {
            return;
        }
        self.sockets.iter_mut().for_each(|(_, _, end)| *end = Time::default());
        if !self.finish(DROP_PATIENCE) {
            tracing::error!("the kernel did not release the memory of sends in time: leaking it");
            self.sockets.iter_mut().for_each(|(_, stream, _)| stream.leak());
        }
    }
}
