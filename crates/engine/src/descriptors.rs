//! File descriptors sent with bytes over Unix sockets (unix(7), `SCM_RIGHTS`), and eventfds.
use crate::engine::RecvBufs;
use onego_wire::Landing;
use rustix::io::Errno;
use rustix::net::{
    self, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use smallvec::SmallVec;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};

/// Receives once, with at most as many descriptors as the buffers have room for. Also returns whether the receive may
/// have stopped early because of ancillary data. The kernel closes descriptors beyond the limit.
pub(crate) fn receive(fd: &OwnedFd, bufs: &mut RecvBufs) -> Result<(usize, bool), Errno> {
    let most = bufs.landing.descriptors.min(Landing::DESCRIPTORS_MAX);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(Landing::DESCRIPTORS_MAX))];
    let mut control = match most {
        0 => RecvAncillaryBuffer::default(),
        _ => RecvAncillaryBuffer::new(&mut space),
    };
    let received = {
        let mut slices: SmallVec<[IoSliceMut<'_>; Landing::PLACES_MAX + 1]> =
            bufs.slices().map(IoSliceMut::new).collect();
        if slices.is_empty() {
            return Err(Errno::INVAL);
        }
        net::recvmsg(fd, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC)?
    };
    let mut came_along = received.flags.contains(ReturnFlags::CTRUNC);
    for message in control.drain() {
        came_along = true;
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            bufs.descriptors.extend(descriptors.take(most));
        }
    }
    Ok((received.bytes, came_along))
}

pub(crate) fn send(fd: &OwnedFd, message: &[u8], descriptor: &OwnedFd) -> io::Result<()> {
    let descriptors = [descriptor.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(Errno::NOBUFS.into());
    }
    let sent = net::sendmsg(fd, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL)?;
    if sent < message.len() { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) }
}

pub(crate) fn signal(eventfd: &OwnedFd) {
    // A full eventfd is signalled already. A descriptor that is not an eventfd comes from a peer that breaks its
    // protocol.
    let _ = rustix::io::write(eventfd, &1_u64.to_ne_bytes());
}
