//! Reports on waiting clients.

use super::calls::Pending;
use super::channel::Channel;
use crate::{mount, portmap, v3};
use onego_wire::Time;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// Report on a waiting client: target, duration and cause.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// The awaited address, connection or reply.
    pub target: Awaited,
    /// Time that the oldest affected call has waited.
    pub elapsed: Duration,
    /// The reason for the wait.
    pub cause: WaitCause,
}

/// The target of a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Awaited {
    /// The address of this host. The client resolves no names itself; its caller does.
    Address(String),
    /// A connection to a server.
    Connection {
        /// RPC program number.
        program: u32,
        /// The server's address.
        addr: SocketAddr,
    },
    /// The reply to a call.
    Reply {
        /// RPC program number.
        program: u32,
        /// The server's address.
        addr: SocketAddr,
    },
}

/// The reason for a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitCause {
    /// No answer and no error so far.
    Unanswered,
    /// The last connection could not be opened or has ended, with the transport's reason.
    Failed(String),
    /// The server asked the client to retry later (`NFS3ERR_JUKEBOX`).
    Jukebox,
}

impl Waiting {
    /// Creates a report.
    pub fn new(target: Awaited, elapsed: Duration, cause: WaitCause) -> Self {
        Self { target, elapsed, cause }
    }

    /// Describes the wait of a pending call. `is_connected` is whether its channel has an open connection.
    pub(super) fn of<T>(now: Time, call: &Pending<T>, channel: &Channel, is_connected: bool) -> Self {
        let (program, addr) = (call.program, channel.addr);
        let target = if is_connected {
            Awaited::Reply { program, addr }
        } else {
            Awaited::Connection { program, addr }
        };
        // The end of an earlier connection explains nothing once its successor has received a reply.
        let failed = channel.last.as_ref().filter(|_| !channel.replied);
        let cause = match failed {
            _ if is_connected && call.put_off => WaitCause::Jukebox,
            Some(reason) => WaitCause::Failed(reason.clone()),
            None => WaitCause::Unanswered,
        };
        Self { target, elapsed: now.since(call.made), cause }
    }
}

struct Server(u32, SocketAddr);

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(program, addr) = self;
        match *program {
            v3::PROGRAM => write!(f, "the NFS server at {addr}"),
            mount::PROGRAM => write!(f, "the MOUNT server at {addr}"),
            portmap::PROGRAM => write!(f, "the port mapper at {addr}"),
            other => write!(f, "the server of RPC program {other} at {addr}"),
        }
    }
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(host) => write!(f, "the address of {host}"),
            Self::Connection { program, addr } => {
                write!(f, "a connection to {}", Server(*program, *addr))
            }
            Self::Reply { program, addr } => write!(f, "a reply of {}", Server(*program, *addr)),
        }
    }
}

/// A sentence such as "waiting for a connection to the NFS server at 10.0.0.1:2049, because ...".
impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "waiting for {}, because ", self.target)?;
        match (&self.cause, &self.target) {
            (WaitCause::Failed(reason), _) => write!(f, "the last connection failed: {reason}"),
            (WaitCause::Jukebox, _) => f.write_str("it asks to retry later (NFS3ERR_JUKEBOX)"),
            (WaitCause::Unanswered, Awaited::Address(_)) => f.write_str("no name server has answered"),
            (WaitCause::Unanswered, Awaited::Connection { .. }) => f.write_str("no server answers there"),
            (WaitCause::Unanswered, Awaited::Reply { .. }) => f.write_str("it has not answered the call"),
        }
    }
}
