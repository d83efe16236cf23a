//! Sockets as both engines want them: non-blocking, closed on exec, without Nagle's delay.
use crate::clock;
use crate::engine::Wait;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrAny, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Connections that the kernel keeps until they are accepted: room for every client of a cluster to come back at
/// once. The kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 1024;

/// Segments a gathered send may have: the kernel's `UIO_MAXIOV`.
pub(crate) const MAX_SLICES: usize = 1024;

fn stream_socket(addr: &SocketAddr) -> io::Result<OwnedFd> {
    let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    // Whole messages are gathered before they are sent: there is nothing that waiting could add to them. A
    // listener's connections inherit the option.
    sockopt::set_tcp_nodelay(&socket, true)?;
    Ok(socket)
}

/// A listener, and the address it got.
pub(crate) fn listen(addr: SocketAddr) -> io::Result<(OwnedFd, SocketAddr)> {
    let socket = stream_socket(&addr)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    net::bind(&socket, &addr)?;
    net::listen(&socket, BACKLOG)?;
    let local = local_addr(&socket)?;
    Ok((socket, local))
}

/// A socket that connects to `addr`: it becomes writable when it has, or has failed.
pub(crate) fn connect(addr: SocketAddr) -> io::Result<OwnedFd> {
    let socket = stream_socket(&addr)?;
    if addr.ip().is_loopback() {
        without_pacing(&socket);
    }
    match net::connect(&socket, &addr) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// Takes a connection within this host off a congestion control that paces, such as BBR where that is the system's
/// default: there is no network to share, and pacing costs a timer and a wake-up for every few packets, up to half
/// of all CPU time with large messages. Reno is in every kernel and open to everybody; on a path without loss it does
/// nothing.
pub fn without_pacing(socket: impl AsFd) {
    if let Err(error) = sockopt::set_tcp_congestion(socket, "reno") {
        tracing::debug!(%error, "a connection within this host keeps the system's congestion control");
    }
}

/// How a connect has ended: the local address, or why it failed.
pub(crate) fn connected(socket: impl AsFd) -> io::Result<SocketAddr> {
    sockopt::socket_error(&socket)??;
    local_addr(socket)
}

pub(crate) fn local_addr(socket: impl AsFd) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(net::getsockname(socket)?)?)
}

/// Connections accepted a turn and listener, so that a storm of them does not starve those already here.
const ACCEPTS: usize = 64;

/// How long a listener rests when there is no descriptor or memory left for another connection.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A connection that a listener gave.
pub(crate) struct Accepted {
    pub(crate) fd: OwnedFd,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
}

/// Accepts what is there, or some of it. `true`: the listener has to rest, because trying again would fail again.
pub(crate) fn accept(listener: impl AsFd, calls: &mut u64, to: &mut Vec<Accepted>) -> bool {
    for _ in 0..ACCEPTS {
        *calls += 1;
        match net::acceptfrom_with(&listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok((fd, peer)) => match addresses(&fd, peer) {
                Ok((peer, local)) => {
                    if peer.ip() == local.ip() {
                        without_pacing(&fd);
                    }
                    to.push(Accepted { fd, peer, local });
                }
                Err(error) => tracing::debug!(%error, "a new connection was gone before it was looked at"),
            },
            Err(Errno::WOULDBLOCK) => return false,
            // The peer has given up already, or a signal came: there may be others.
            Err(Errno::CONNABORTED | Errno::INTR | Errno::PROTO) => {}
            Err(error) => {
                tracing::warn!(%error, "no connections are accepted for a while");
                return true;
            }
        }
    }
    false
}

fn addresses(fd: &OwnedFd, peer: Option<SocketAddrAny>) -> io::Result<(SocketAddr, SocketAddr)> {
    let peer = SocketAddr::try_from(peer.ok_or(Errno::NOTCONN)?)?;
    Ok((peer, local_addr(fd)?))
}

/// How long an engine may sleep; `None`: until something happens. With listeners that rest, no longer than they do.
pub(crate) fn timeout(wait: Wait, resting: bool) -> Option<Duration> {
    let timeout = match wait {
        Wait::Poll => Some(Duration::ZERO),
        Wait::Until(time) => Some(time.since(clock::now())),
        Wait::Forever => None,
    };
    if resting { Some(timeout.map_or(ACCEPT_PAUSE, |timeout| timeout.min(ACCEPT_PAUSE))) } else { timeout }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_connections_have_no_delay() {
        let (listener, addr) = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let client = connect(addr).unwrap();
        assert!(sockopt::tcp_nodelay(&client).unwrap());
        rustix::io::ioctl_fionbio(&listener, false).unwrap();
        let (peer, _) = net::acceptfrom(&listener).unwrap();
        assert!(sockopt::tcp_nodelay(&peer).unwrap());
        assert_eq!(local_addr(&peer).unwrap(), addr);
    }
}
