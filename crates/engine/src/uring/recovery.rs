//! Recovery after the kernel has lost completions.
//!
//! The kernel keeps completions for which the queue has no room. Without memory to keep one, it drops and counts it.
//! The engine then cannot know which operation has ended and how: received bytes may be lost, and a send may have been
//! short. So all transfers in flight end with an error, which ends their connections, and a new ring replaces the old
//! one. Listeners, connections being opened, and polls have lost nothing that cannot be requested again.
//!
//! Memory that the old ring may still use is leaked, because no completion will report when it is free. It is what was
//! in flight on a machine that was out of memory; this is rare, and never happens twice in close succession.
use super::loans::Loans;
use super::ops::RingOp;
use super::ops::SendKind;
use super::{Kind, Uring};
use crate::engine::{Event, Received, RecvBufs, Sent};
use crate::table::SocketId;
use crate::zero_copy::Registry;
use onego_buf::List;
use onego_wire::Landing;
use rustix::io::Errno;
use rustix::net::{self, Shutdown};
use std::io;

const LOST: Errno = Errno::IO;

impl Uring {
    /// Ends all transfers in flight after a loss of completions, and continues with a new ring.
    #[cold]
    pub(super) fn start_over(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        tracing::error!(
            "the kernel dropped io_uring completions for lack of memory: closing all connections that were sending or receiving"
        );
        self.ring.replace()?;
        self.lost = 0;
        // The requests that refer to them are gone with the queue.
        self.closing.clear();
        self.silent_sends.clear();
        self.registry = Registry::new();
        if self.loans.is_some() {
            // Memory of the old ring must not be unmapped or reused while the kernel may write to it.
            std::mem::forget(self.loans.replace(Loans::new(&self.ring.submitter())?));
        }
        for op in self.ops.drain() {
            self.abandon(op, events);
        }
        self.watch_waker();
        for id in self.sockets.iter().map(|(id, _)| id).collect::<Vec<_>>() {
            let Some(socket) = self.sockets.get_mut(id) else { continue };
            (socket.poll, socket.send, socket.lent) = (None, None, None);
            match socket.kind {
                // Watched again after its pause.
                Kind::Listener { paused_until: Some(_) } => {}
                Kind::Stream if self.loans.is_some() => {}
                _ => self.watch(id),
            }
        }
        Ok(())
    }

    fn abandon(&mut self, op: RingOp, events: &mut Vec<Event>) {
        match op {
            // Only a stream whose owner requested readiness has such a poll; the owner will receive.
            RingOp::Poll(id) => {
                if self.sockets.get(id).is_some_and(|socket| socket.kind == Kind::Stream) {
                    events.push(Event::Readable(id));
                }
            }
            // If it was submitted, it ended within that call: the buffers are free.
            RingOp::Recv(id, bufs, message) => {
                self.ops.recycle(message);
                self.end_receive(id, bufs, events);
            }
            RingOp::Lent(id, limit) => {
                self.end_receive(
                    id,
                    RecvBufs { landing: Landing::shared(limit), ahead: None, ..RecvBufs::default() },
                    events,
                );
            }
            // As for a receive; how much of it was sent is unknown.
            RingOp::Send(id, list, message, SendKind::Silent) => {
                self.ops.recycle(message);
                self.end_send(id, list, events);
            }
            RingOp::Send(id, list, message, SendKind::Answered { .. })
            | RingOp::Uncopied(id, list, message) => {
                std::mem::forget((list, message));
                self.end_send(id, List::new(), events);
            }
            // Its end was reported when the socket had taken it.
            RingOp::InUse(id, list) => {
                std::mem::forget(list);
                if let Some(policy) = self.sockets.get_mut(id).and_then(|socket| socket.policy.as_mut()) {
                    policy.withdraw();
                }
            }
        }
    }

    fn end_receive(&mut self, id: SocketId, bufs: RecvBufs, events: &mut Vec<Event>) {
        self.reset(id);
        events.push(Event::Received(id, Received { bufs, result: Err(LOST.into()), drained: true }));
    }

    fn end_send(&mut self, id: SocketId, rest: List, events: &mut Vec<Event>) {
        if self.reset(id) {
            events.push(Event::Sent(id, Sent { rest, result: Err(LOST.into()), full: false }));
        }
    }

    /// Shuts down a socket that has lost bytes in both directions: later receives find the end of the stream. Returns
    /// `false` if it is closed already.
    fn reset(&mut self, id: SocketId) -> bool {
        let Some(socket) = self.sockets.get(id) else { return false };
        // Fails if the connection is gone.
        let _ = net::shutdown(&socket.fd, Shutdown::Both);
        true
    }
}
