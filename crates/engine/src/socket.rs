//! Sockets as the engines need them: non-blocking, close-on-exec and without Nagle's algorithm. Close-on-exec of
//! sockets that the program has made is up to the program.
use onego_wire::LocalPort;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrAny, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::time::Duration;

/// Connections that the kernel queues until they are accepted: enough for all clients of a cluster to reconnect at
/// once. The kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 1024;

pub(crate) const MAX_SLICES: usize = 1024;

/// Maximum bytes of one send or receive. The kernel silently truncates a request to 2 GiB less a page, and treats the
/// rest as the whole request. Below that limit a short result is really short.
pub(crate) const MAX_BYTES: usize = 1 << 30;

/// Send buffer size of sockets other than TCP. The kernel doubles it to cover its own overhead.
const SEND_BUFFER: usize = 512 << 10;

/// Reserved ports, which a system gives to privileged processes only, without the lower half that well-known services
/// use.
const RESERVED: Range<u16> = 512..1024;

/// Address of a socket whose family is not IP.
const NO_ADDR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    /// Any other, such as Unix sockets: no TCP options, any byte makes the socket readable, and all sends copy.
    Other,
}

fn stream_socket(addr: &SocketAddr) -> io::Result<OwnedFd> {
    let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    // Messages are gathered before they are sent, so a delay cannot add to them. A listener's connections inherit the
    // option.
    sockopt::set_tcp_nodelay(&socket, true)?;
    Ok(socket)
}

pub(crate) fn listen(addr: SocketAddr) -> io::Result<(OwnedFd, SocketAddr)> {
    let socket = stream_socket(&addr)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    net::bind(&socket, &addr)?;
    net::listen(&socket, BACKLOG)?;
    let local = local_addr(&socket)?;
    Ok((socket, local))
}

/// Starts a connection to `addr`: the socket becomes writable once it is connected or has failed.
pub(crate) fn connect(addr: SocketAddr, local: LocalPort) -> io::Result<OwnedFd> {
    if local != LocalPort::Any {
        // A random start keeps programs that start together from trying the same ports in the same order.
        let start = RESERVED.start + random() % RESERVED.len() as u16;
        match connect_from((start..RESERVED.end).chain(RESERVED.start..start), addr)? {
            Ok(socket) => return Ok(socket),
            Err(reason) if local == LocalPort::PreferReserved => {
                tracing::debug!(%addr, %reason, "connecting from an unreserved port");
            }
            Err(reason) => return Err(reason),
        }
    }
    let socket = stream_socket(&addr)?;
    begin_connect(&socket, addr)?;
    Ok(socket)
}

/// Starts a connection to `addr` from the first of `ports` that is free and has no connection to `addr` yet. The inner
/// error is the reason why there is no such port.
fn connect_from(
    ports: impl Iterator<Item = u16>,
    addr: SocketAddr,
) -> io::Result<Result<OwnedFd, io::Error>> {
    for port in ports {
        let socket = stream_socket(&addr)?;
        // Other connections from a port matter only if they are with the same peer, which `connect` detects.
        sockopt::set_socket_reuseaddr(&socket, true)?;
        let any = if addr.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        match net::bind(&socket, &SocketAddr::new(any, port)) {
            Ok(()) => {}
            Err(Errno::ADDRINUSE) => continue,
            Err(Errno::ACCESS) => return Ok(Err(not_allowed())),
            Err(error) => return Err(error.into()),
        }
        match begin_connect(&socket, addr) {
            Ok(()) => return Ok(Ok(socket)),
            // A connection with this peer exists, or did until a minute ago.
            Err(Errno::ADDRNOTAVAIL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Err(io::Error::new(io::ErrorKind::AddrInUse, "all local ports from 512 to 1023 are in use")))
}

fn random() -> u16 {
    let mut bytes = [0; 2];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    u16::from_ne_bytes(bytes)
}

fn not_allowed() -> io::Error {
    let reason = "a local port below 1024 is for root and processes with CAP_NET_BIND_SERVICE only; without it, the \
                  server has to take connections from other ports (NFS exports: the option insecure)";
    io::Error::new(io::ErrorKind::PermissionDenied, reason)
}

/// Prepares a listening socket that the program has made, and returns its local address.
pub(crate) fn adopt(socket: &OwnedFd) -> io::Result<(SocketAddr, Protocol)> {
    let protocol = stream_protocol(socket)?;
    if !sockopt::socket_acceptconn(socket)? {
        let reason = "the socket does not listen: bind it and call listen on it, or use it as a connection";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    if protocol == Protocol::Tcp {
        sockopt::set_tcp_nodelay(socket, true)?;
    }
    Ok((local_addr(socket)?, protocol))
}

/// Prepares a connected socket that the program has made, and returns its local address.
pub(crate) fn attach(socket: &OwnedFd) -> io::Result<(SocketAddr, Protocol)> {
    let protocol = stream_protocol(socket)?;
    let peer = match net::getpeername(socket) {
        Err(Errno::NOTCONN) => {
            let reason = "the socket is not connected: connect it first, or listen on it";
            return Err(io::Error::new(io::ErrorKind::NotConnected, reason));
        }
        peer => peer?,
    };
    let local = local_addr(socket)?;
    if protocol == Protocol::Other {
        widen(socket);
    } else {
        sockopt::set_tcp_nodelay(socket, true)?;
        if peer.is_some_and(|peer| ip_addr(peer).is_ok_and(|peer| peer.ip() == local.ip())) {
            without_pacing(socket);
        }
    }
    Ok((local, protocol))
}

/// Enlarges the send buffer of a socket other than TCP: with the system's 208 KiB, a reply of 1 MiB takes five sends
/// and wake-ups. The system may allow less (`net.core.wmem_max`).
fn widen(socket: impl AsFd) {
    if let Err(error) = sockopt::set_socket_send_buffer_size(socket, SEND_BUFFER) {
        tracing::debug!(%error, "a connection keeps the system's send buffer size");
    }
}

fn stream_protocol(socket: &OwnedFd) -> io::Result<Protocol> {
    if sockopt::socket_type(socket)? != SocketType::STREAM {
        let reason = "not a stream socket: make it with SOCK_STREAM";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    rustix::io::ioctl_fionbio(socket, true)?;
    let is_tcp = sockopt::socket_protocol(socket)? == Some(net::ipproto::TCP);
    Ok(if is_tcp { Protocol::Tcp } else { Protocol::Other })
}

fn begin_connect(socket: &OwnedFd, addr: SocketAddr) -> Result<(), Errno> {
    if addr.ip().is_loopback() {
        without_pacing(socket);
    }
    match net::connect(socket, &addr) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Sets the congestion control of a connection within this host to Reno. Algorithms that pace, such as BBR where it is
/// the system's default, have no network to share here, and pacing costs a timer and a wake-up for every few packets:
/// up to half of all CPU time with large messages. Every kernel has Reno, any process may use it, and on a path without
/// loss it does nothing.
pub fn without_pacing(socket: impl AsFd) {
    if let Err(error) = sockopt::set_tcp_congestion(socket, "reno") {
        tracing::debug!(%error, "a connection within this host keeps the system's congestion control");
    }
}

/// Sets how many bytes make the socket readable. (rustix lacks the option.)
pub(crate) fn set_low_water(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: the option is a `c_int`, which outlives the call, and the descriptor is open.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            std::ptr::from_ref(&bytes).cast(),
            size_of_val(&bytes) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

pub(crate) fn connected(socket: impl AsFd) -> io::Result<SocketAddr> {
    sockopt::socket_error(&socket)??;
    local_addr(socket)
}

pub(crate) fn local_addr(socket: impl AsFd) -> io::Result<SocketAddr> {
    ip_addr(net::getsockname(socket)?)
}

fn ip_addr(addr: SocketAddrAny) -> io::Result<SocketAddr> {
    match addr.address_family() {
        AddressFamily::INET | AddressFamily::INET6 => Ok(SocketAddr::try_from(addr)?),
        _ => Ok(NO_ADDR),
    }
}

/// Connections accepted per turn and listener, so that a storm of new ones does not starve existing ones.
const ACCEPTS: usize = 64;

/// Pause of a listener when the process has no descriptor or memory for another connection.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct Accepted {
    pub(crate) fd: OwnedFd,
    pub(crate) protocol: Protocol,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
}

/// Accepts waiting connections, up to a limit. Returns `true` if the listener must pause because the next accept would
/// fail, too.
pub(crate) fn accept(
    listener: impl AsFd,
    protocol: Protocol,
    calls: &mut u64,
    to: &mut Vec<Accepted>,
) -> bool {
    for _ in 0..ACCEPTS {
        *calls += 1;
        match net::acceptfrom_with(&listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok((fd, peer)) => match addresses(&fd, peer) {
                Ok((peer, local)) => {
                    match protocol {
                        Protocol::Tcp if peer.ip() == local.ip() => without_pacing(&fd),
                        Protocol::Tcp => {}
                        Protocol::Other => widen(&fd),
                    }
                    to.push(Accepted { fd, protocol, peer, local });
                }
                Err(error) => tracing::debug!(%error, "a new connection was closed before it was accepted"),
            },
            Err(Errno::WOULDBLOCK) => return false,
            // The peer has given up, or a signal arrived: there may be more connections.
            Err(Errno::CONNABORTED | Errno::INTR | Errno::PROTO) => {}
            Err(error) => {
                tracing::warn!(%error, "pausing a listener: cannot accept connections");
                return true;
            }
        }
    }
    false
}

fn addresses(fd: &OwnedFd, peer: Option<SocketAddrAny>) -> io::Result<(SocketAddr, SocketAddr)> {
    let local = local_addr(fd)?;
    match peer {
        Some(peer) => Ok((ip_addr(peer)?, local)),
        // A peer of another family may have no address.
        None if local == NO_ADDR => Ok((NO_ADDR, NO_ADDR)),
        None => Err(Errno::NOTCONN.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{CapabilitySet, capabilities};

    #[test]
    fn accepted_connections_have_no_delay() {
        let (listener, addr) = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let client = connect(addr, LocalPort::Any).unwrap();
        assert!(sockopt::tcp_nodelay(&client).unwrap());
        rustix::io::ioctl_fionbio(&listener, false).unwrap();
        let (peer, _) = net::acceptfrom(&listener).unwrap();
        assert!(sockopt::tcp_nodelay(&peer).unwrap());
        assert_eq!(local_addr(&peer).unwrap(), addr);
    }

    #[test]
    fn a_port_in_use_or_connected_to_the_same_peer_is_skipped() {
        let (_listener, addr) = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let (_taken, taken) = listen("0.0.0.0:0".parse().unwrap()).unwrap();
        let free = || {
            let (_closed_at_once, addr) = listen("0.0.0.0:0".parse().unwrap()).unwrap();
            addr.port()
        };
        let ports = [taken.port(), free(), free()];
        let connect = |addr| connect_from(ports.into_iter(), addr).unwrap();
        let port = |socket: &OwnedFd| local_addr(socket).unwrap().port();
        let first = connect(addr).unwrap();
        let second = connect(addr).unwrap();
        assert_eq!([&first, &second].map(port), [ports[1], ports[2]]);
        assert_eq!(connect(addr).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        // Closed by this side first, its port is in TIME_WAIT, but only for the same peer.
        drop(first);
        let (_other, other) = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        assert_eq!(port(&connect(other).unwrap()), ports[1]);
    }

    #[test]
    fn ports_are_reserved_for_both_versions_of_ip() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let (_listener, addr) = listen(any.parse().unwrap()).unwrap();
            let client = connect(addr, LocalPort::PreferReserved).unwrap();
            let allowed = capabilities(None).unwrap().effective.contains(CapabilitySet::NET_BIND_SERVICE);
            assert_eq!(RESERVED.contains(&local_addr(&client).unwrap().port()), allowed);
        }
    }
}
