//! Zero-copy sends, which complete twice: when the socket has taken the bytes, and when the kernel no longer uses the
//! memory.
use super::Uring;
use super::ops::{OpKey, RingOp, SendKind};
use crate::engine::Event;
use crate::table::SocketId;
use crate::zero_copy::request::Transfer;
use crate::zero_copy::{Policy, Settings, abort, request};
use io_uring::types::Fd;
use onego_buf::List;
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd};

impl Uring {
    /// Sets the zero-copy policy for sends of future connections.
    pub fn set_zero_copy(&mut self, settings: Settings) {
        self.zero_copy = settings;
    }

    pub(super) fn policy(&self) -> Option<Box<Policy>> {
        let policy = Policy::new(self.zero_copy.mode, self.zero_copy.thresholds);
        (!policy.is_off()).then(|| Box::new(policy))
    }

    #[inline]
    pub(super) fn transfer(&mut self, id: SocketId, list: &List) -> (Transfer, usize) {
        let Some(policy) = self.sockets.get_mut(id).and_then(|socket| socket.policy.as_mut()) else {
            return (Transfer::Copy, list.len());
        };
        self.registry.transfer(policy, &self.ring.submitter(), list)
    }

    pub(super) fn push_uncopied(&mut self, id: SocketId, list: List, transfer: Transfer, bytes: usize) {
        let Some(socket) = self.sockets.get_mut(id) else { return };
        let fd = Fd(socket.fd.as_raw_fd());
        let (key, header) = self.ops.uncopied(id, list, bytes);
        socket.send = Some(key);
        let flags = libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
        let send = request::send_message(fd, header, transfer, flags).user_data(key.to_bits());
        // SAFETY: as for a copying send; the list stays in `self.ops` until the kernel no longer uses it.
        unsafe { self.ring.push(&send) };
    }

    /// Handles the first completion: the socket has taken bytes, and the kernel uses their memory.
    pub(super) fn accepted(&mut self, key: OpKey, result: Result<u32, Errno>, events: &mut Vec<Event>) {
        let Some((id, rest, message)) = self.ops.keep(key, result.unwrap_or(0) as usize) else {
            return tracing::error!(?key, "a completion of an unknown operation");
        };
        self.ops.recycle(message);
        // RLIMIT_MEMLOCK is exhausted for now: copy this send.
        if let Err(Errno::NOMEM | Errno::NOBUFS) = result {
            return self.push_send(id, rest, SendKind::Answered { before: 0 });
        }
        self.finish_send(id, rest, result, 0, events);
    }

    /// Handles a zero-copy send that the kernel did not make.
    pub(super) fn refused(
        &mut self,
        id: SocketId,
        mut list: List,
        result: Result<u32, Errno>,
        events: &mut Vec<Event>,
    ) {
        let policy = self.sockets.get_mut(id).and_then(|socket| socket.policy.as_mut());
        let Some(policy) = policy else { return };
        policy.withdraw();
        if let Err(error @ (Errno::INVAL | Errno::OPNOTSUPP)) = result {
            tracing::warn!(%error, "zero-copy sends need Linux 6.2: the kernel copies the sends of a connection");
            policy.disable();
            return self.push_send(id, list, SendKind::Answered { before: 0 });
        }
        if let Err(Errno::NOMEM | Errno::NOBUFS) = result {
            return self.push_send(id, list, SendKind::Answered { before: 0 });
        }
        list.advance(result.unwrap_or(0) as usize);
        self.finish_send(id, list, result, 0, events);
    }

    /// Handles the second completion: the kernel no longer uses the memory.
    pub(super) fn freed(&mut self, key: OpKey, copied: bool) {
        let Some(RingOp::InUse(id, list)) = self.ops.finish(key) else { return };
        match self.sockets.get_mut(id).and_then(|socket| socket.policy.as_mut()) {
            Some(policy) if list.is_empty() => policy.withdraw(),
            Some(policy) => policy.report(copied),
            None => self.stats.zero_copy.copied += u64::from(copied && !list.is_empty()),
        }
    }

    /// Aborts connections whose memory is in use before an engine is dropped, so that the kernel releases it.
    pub(super) fn abort_uncopied(&mut self) {
        for id in self.ops.sending_uncopied() {
            if let Some(socket) = self.sockets.get(id) {
                abort(socket.fd.as_fd());
            }
        }
    }
}
