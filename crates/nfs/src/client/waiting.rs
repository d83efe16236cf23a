//! What a client waits for, and why.

use super::calls::Pending;
use super::channel::Channel;
use crate::{mount, portmap, v3};
use onego_wire::Time;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// What holds a client up, since when, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// What is waited for.
    pub target: Awaited,
    /// How long the oldest call that needs it has waited.
    pub elapsed: Duration,
    /// Why it is not there yet.
    pub cause: WaitCause,
}

/// What a client can wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Awaited {
    /// The address of this host. The client itself resolves no names; its caller does.
    Address(String),
    /// A connection to a server.
    Connection {
        /// The number of its RPC program.
        program: u32,
        /// Where it should be.
        addr: SocketAddr,
    },
    /// The reply to a call.
    Reply {
        /// The number of the server's RPC program.
        program: u32,
        /// Where the server is.
        addr: SocketAddr,
    },
}

/// Why a client has to wait.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitCause {
    /// Nothing has answered yet, and nothing has failed.
    Unanswered,
    /// The last connection could not be opened, or has ended: the reason that the transport gives.
    Failed(String),
    /// The server wants to be asked again later (`NFS3ERR_JUKEBOX`).
    Jukebox,
}

impl Waiting {
    /// Something that is waited for.
    pub fn new(target: Awaited, elapsed: Duration, cause: WaitCause) -> Self {
        Self { target, elapsed, cause }
    }

    /// What a call waits for that has no reply; `is_connected`: the channel that it goes by has an open connection.
    pub(super) fn of<T>(now: Time, call: &Pending<T>, channel: &Channel, is_connected: bool) -> Self {
        let (program, addr) = (call.program, channel.addr);
        let target = if is_connected {
            Awaited::Reply { program, addr }
        } else {
            Awaited::Connection { program, addr }
        };
        // What ended an earlier connection explains nothing once there are replies by the one that followed.
        let failed = channel.last.as_ref().filter(|_| !channel.replied);
        let cause = match failed {
            _ if is_connected && call.put_off => WaitCause::Jukebox,
            Some(reason) => WaitCause::Failed(reason.clone()),
            None => WaitCause::Unanswered,
        };
        Self { target, elapsed: now.since(call.made), cause }
    }
}

/// What people call the server of an RPC program.
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

/// The sentence that people read: "waiting for a connection to the NFS server at 10.0.0.1:2049, because ...".
impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "waiting for {}, because ", self.target)?;
        match (&self.cause, &self.target) {
            (WaitCause::Failed(reason), _) => write!(f, "the last connection failed: {reason}"),
            (WaitCause::Jukebox, _) => f.write_str("it wants to be asked again later (NFS3ERR_JUKEBOX)"),
            (WaitCause::Unanswered, Awaited::Address(_)) => f.write_str("no name server has answered"),
            (WaitCause::Unanswered, Awaited::Connection { .. }) => f.write_str("nothing answers there"),
            (WaitCause::Unanswered, Awaited::Reply { .. }) => f.write_str("it has not answered the call"),
        }
    }
}
