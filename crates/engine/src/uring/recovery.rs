//! What an engine does when the kernel has lost completions.
//!
//! The kernel keeps completions for which the queue has no room. When it has no memory to keep one, it throws it away and
//! counts it. Nobody knows then which operation has ended, and how: bytes may have been received that nobody can name,
//! and a send may have been short. So everything that moves bytes ends with an error, which ends its connection, and a
//! new ring takes the place of the old one. Listeners, connections that are being opened, and what only waits to
//! become readable have lost nothing that cannot be asked for again.
//!
//! Memory that the old ring may still use is leaked: no completion will ever tell when it is free. That is what was in
//! flight, and the machine was out of memory: it hardly ever happens, and never twice in close succession.
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

/// What connections end with.
const LOST: Errno = Errno::IO;

impl Uring {
    /// Completions were lost: ends what is in flight, and goes on with a new ring.
    #[cold]
    pub(super) fn start_over(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        tracing::error!(
            "the kernel lost completions for want of memory: connections that were sending or receiving are ended"
        );
        self.ring.replace()?;
        self.lost = 0;
        // Requests that name them have gone with the queue.
        self.closing.clear();
        self.silent_sends.clear();
        self.registry = Registry::new();
        if self.loans.is_some() {
            // Nothing of the old ring is unmapped or used again while the kernel may write to it.
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
                // It is watched again when it has rested.
                Kind::Listener { paused_until: Some(_) } => {}
                Kind::Stream if self.loans.is_some() => {}
                _ => self.watch(id),
            }
        }
        Ok(())
    }

    /// Tells of the end of an operation, and keeps the kernel's memory from being used again.
    fn abandon(&mut self, op: RingOp, events: &mut Vec<Event>) {
        match op {
            // Only a stream whose owner asked for readiness has such a poll; its owner looks.
            RingOp::Poll(id) => {
                if self.sockets.get(id).is_some_and(|socket| socket.kind == Kind::Stream) {
                    events.push(Event::Readable(id));
                }
            }
            // It ended within the call that submitted it, if it was submitted: the buffers are free.
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
            // It was told of when the socket had taken it.
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

    /// Nothing more goes through a socket whose bytes are lost, in either direction: what would still be received finds
    /// the end. `false`: it is closed already.
    fn reset(&mut self, id: SocketId) -> bool {
        let Some(socket) = self.sockets.get(id) else { return false };
        // It fails if there is no connection any more.
        let _ = net::shutdown(&socket.fd, Shutdown::Both);
        true
    }
}
