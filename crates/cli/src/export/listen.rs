//! Where an export listens: at an address, at a path, or on sockets that the service manager has made.

use crate::failure::Failure;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// The first descriptor that a service manager passes (systemd sd_listen_fds(3)).
const FIRST_PASSED: i32 = 3;

/// A listening socket.
pub(super) struct Listening {
    socket: OwnedFd,
    at: Address,
    /// The socket that this process has made at the path and removes at the end.
    made: Option<(u64, u64)>,
}

/// Where clients reach it.
pub(super) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Listening {
    /// The sockets that the service manager has made for this process (systemd sd_listen_fds(3)); none, if there are none.
    pub(super) fn passed() -> Result<Vec<Self>, Failure> {
        let number = |name: &str| std::env::var(name).ok()?.parse::<i32>().ok();
        let of_this = number("LISTEN_PID") == Some(getpid().as_raw_nonzero().get());
        let count = number("LISTEN_FDS").filter(|_| of_this).unwrap_or(0);
        (FIRST_PASSED..FIRST_PASSED.saturating_add(count)).map(Self::inherited).collect()
    }

    /// A socket that this process has been started with.
    fn inherited(number: i32) -> Result<Self, Failure> {
        let failed = |error: rustix::io::Errno| Failure::Io {
            what: "taking a socket of the service manager (LISTEN_FDS)",
            source: error.into(),
        };
        // A number is no descriptor that anything here owns. This makes one that is.
        let this = pidfd_open(getpid(), PidfdFlags::empty()).map_err(failed)?;
        let socket = pidfd_getfd(&this, number, PidfdGetfdFlags::empty()).map_err(failed)?;
        let is_stream = sockopt::socket_type(&socket).map_err(failed)? == SocketType::STREAM;
        if !is_stream || !sockopt::socket_acceptconn(&socket).map_err(failed)? {
            let why = format!(
                "descriptor {number} of the service manager is no listening stream socket: use ListenStream= and Accept=no"
            );
            return Err(Failure::Usage(why));
        }
        let looked = Failure::io("asking a socket of the service manager for its address");
        let at = match sockopt::socket_domain(&socket).map_err(failed)? {
            AddressFamily::UNIX => {
                let listener =
                    UnixListener::from(socket.try_clone().map_err(Failure::io("sharing a socket"))?);
                let addr = listener.local_addr().map_err(looked)?;
                Address::Unix(addr.as_pathname().unwrap_or(Path::new("")).to_owned())
            }
            _ => {
                let listener =
                    TcpListener::from(socket.try_clone().map_err(Failure::io("sharing a socket"))?);
                Address::Tcp(listener.local_addr().map_err(looked)?)
            }
        };
        Ok(Self { socket, at, made: None })
    }

    pub(super) fn tcp(addr: SocketAddr) -> Result<Self, Failure> {
        let failed = Failure::io("listening (is another server there? --listen takes another port)");
        let listener = TcpListener::bind(addr).map_err(failed)?;
        let addr = listener.local_addr().map_err(Failure::io("listening"))?;
        Ok(Self { socket: listener.into(), at: Address::Tcp(addr), made: None })
    }

    /// Listens on a Unix socket. Replaces a socket that a server has left, and nothing else.
    pub(super) fn unix(path: &Path) -> Result<Self, Failure> {
        if let Ok(found) = path.symlink_metadata() {
            if !found.file_type().is_socket() {
                let path = path.display();
                return Err(Failure::Usage(format!("{path} is there and no socket, so it is not replaced")));
            }
            // A regular file would refuse the connection, too.
            if is_left(path) {
                // If that fails, to bind fails, too.
                let _ = std::fs::remove_file(path);
            }
        }
        let failed = Failure::io("listening on the Unix socket (is another server there?)");
        let listener = UnixListener::bind(path).map_err(failed)?;
        let made = identity(path);
        Ok(Self { socket: listener.into(), at: Address::Unix(path.to_owned()), made })
    }

    /// The socket for one more reactor: the system shares the clients out.
    pub(super) fn socket(&self) -> Result<OwnedFd, Failure> {
        self.socket.as_fd().try_clone_to_owned().map_err(Failure::io("sharing the listening socket"))
    }

    /// Can other machines reach it?
    pub(super) fn is_public(&self) -> bool {
        matches!(&self.at, Address::Tcp(addr) if !addr.ip().is_loopback())
    }

    pub(super) fn address(&self) -> &Address {
        &self.at
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addr) => write!(f, "{addr}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Self { made: Some(made), at: Address::Unix(path), .. } = self
            && identity(path) == Some(*made)
        {
            // If that fails, the next server replaces it.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Returns whether no process listens on a Unix socket, without waiting: a full backlog (EAGAIN) has a listener.
fn is_left(path: &Path) -> bool {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let connected = SocketAddrUnix::new(path).and_then(|addr| {
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::connect(&socket, &addr)
    });
    connected == Err(Errno::CONNREFUSED)
}

/// Returns the device and the inode of what has a name, which may be a link.
fn identity(path: &Path) -> Option<(u64, u64)> {
    path.symlink_metadata().ok().map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{bind, listen};

    #[test]
    fn a_server_that_accepts_nobody_is_seen_without_a_wait() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let server = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        bind(&server, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&server, 0).unwrap();
        let _waiting = std::os::unix::net::UnixStream::connect(&path).unwrap();
        assert!(Listening::unix(&path).is_err(), "its backlog is full");
        assert!(path.exists());
        drop(server);
        assert!(Listening::unix(&path).is_ok(), "a socket that was left is replaced");
    }
}
