//! Sockets as both engines want them: non-blocking, closed on exec, without Nagle's delay. Those that the program has made
//! itself are closed on exec if the program says so.
use onego_wire::LocalPort;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrAny, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::time::Duration;

/// Connections that the kernel keeps until they are accepted: room for every client of a cluster to come back at
/// once. The kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 1024;

/// Segments a gathered send may have: the kernel's `UIO_MAXIOV`.
pub(crate) const MAX_SLICES: usize = 1024;

/// Bytes that one send or receive is asked to move. The kernel cuts what is more than 2 GiB less a page, without telling,
/// and takes what is left for all that was asked for. This is less, so that to be short means what it says.
pub(crate) const MAX_BYTES: usize = 1 << 30;

/// Bytes that a socket that is not TCP has room for. The kernel counts what it needs for itself, too, and doubles this.
const SEND_BUFFER: usize = 512 << 10;

/// Ports that a system gives to privileged processes only, without the half of them that are known for services of old.
const RESERVED: Range<u16> = 512..1024;

/// The address of a socket whose family has none that a machine knows.
const NO_ADDR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// What a stream socket can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// TCP, with all its options.
    Tcp,
    /// Another, such as that of Unix sockets: no option of TCP is set, any byte makes it readable, and all is copied.
    Other,
}

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
pub(crate) fn connect(addr: SocketAddr, local: LocalPort) -> io::Result<OwnedFd> {
    if local != LocalPort::Any {
        // Programs that start at once would otherwise try the same ports one after the other.
        let start = RESERVED.start + random() % RESERVED.len() as u16;
        match connect_from((start..RESERVED.end).chain(RESERVED.start..start), addr)? {
            Ok(socket) => return Ok(socket),
            Err(reason) if local == LocalPort::PreferReserved => {
                tracing::debug!(%addr, %reason, "a connection comes from a port that everybody may have");
            }
            Err(reason) => return Err(reason),
        }
    }
    let socket = stream_socket(&addr)?;
    begin_connect(&socket, addr)?;
    Ok(socket)
}

/// A socket that connects to `addr` from the first of these ports that it may have and from which there is no connection
/// to `addr` yet; else why there is no such port.
fn connect_from(
    ports: impl Iterator<Item = u16>,
    addr: SocketAddr,
) -> io::Result<Result<OwnedFd, io::Error>> {
    for port in ports {
        let socket = stream_socket(&addr)?;
        // Other connections from a port are in the way only if they are with the same peer, and that is known when it
        // is connected to.
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
            // There is one with this peer, or was until a minute ago.
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

/// A listening socket that the program has made: the address that it is bound to.
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

/// A connected socket that the program has made: its local address.
pub(crate) fn attach(socket: &OwnedFd) -> io::Result<(SocketAddr, Protocol)> {
    let protocol = stream_protocol(socket)?;
    let peer = match net::getpeername(socket) {
        Err(Errno::NOTCONN) => {
            let reason = "the socket is not connected, or no longer: connect it first, or listen on it";
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

/// Gives a socket that is not TCP more room for what was sent and not received: the system's 208 KiB make five sends and
/// wake-ups of a reply of a mebibyte. The system may allow less (`net.core.wmem_max`).
fn widen(socket: impl AsFd) {
    if let Err(error) = sockopt::set_socket_send_buffer_size(socket, SEND_BUFFER) {
        tracing::debug!(%error, "a connection keeps the system's room for what is sent");
    }
}

/// Sets a stream socket that the program has made to non-blocking, and says what it can do.
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

/// Takes a connection within this host off a congestion control that paces, such as BBR where that is the system's
/// default: there is no network to share, and pacing costs a timer and a wake-up for every few packets, up to half
/// of all CPU time with large messages. Reno is in every kernel and open to everybody; on a path without loss it does
/// nothing.
pub fn without_pacing(socket: impl AsFd) {
    if let Err(error) = sockopt::set_tcp_congestion(socket, "reno") {
        tracing::debug!(%error, "a connection within this host keeps the system's congestion control");
    }
}

/// From how many bytes on the socket is readable. (rustix does not have the option.)
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

/// How a connect has ended: the local address, or why it failed.
pub(crate) fn connected(socket: impl AsFd) -> io::Result<SocketAddr> {
    sockopt::socket_error(&socket)??;
    local_addr(socket)
}

pub(crate) fn local_addr(socket: impl AsFd) -> io::Result<SocketAddr> {
    ip_addr(net::getsockname(socket)?)
}

/// The address, which is that of nobody if the family is not IP.
fn ip_addr(addr: SocketAddrAny) -> io::Result<SocketAddr> {
    match addr.address_family() {
        AddressFamily::INET | AddressFamily::INET6 => Ok(SocketAddr::try_from(addr)?),
        _ => Ok(NO_ADDR),
    }
}

/// Connections accepted a turn and listener, so that a storm of them does not starve those already here.
const ACCEPTS: usize = 64;

/// How long a listener rests when there is no descriptor or memory left for another connection.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A connection that a listener gave.
pub(crate) struct Accepted {
    pub(crate) fd: OwnedFd,
    pub(crate) protocol: Protocol,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
}

/// Accepts what is there, or some of it. `true`: the listener has to rest, because trying again would fail again.
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
    let local = local_addr(fd)?;
    match peer {
        Some(peer) => Ok((ip_addr(peer)?, local)),
        // A peer of another family may have no address at all.
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
    fn a_port_that_is_taken_or_has_a_connection_with_the_same_peer_is_passed_over() {
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
        // Closed by this side first, its port waits: not for another peer.
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
