use crate::rpc::rdma::{self, RdmaError};
use crate::rpc::{Accepted, Denied, RecordError};
use crate::v3::Status;
use onego_rdma::ConnectionError;
use onego_wire::DecodeError;
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;

/// Why a call has no results.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// No connection could be opened, and the call was not to wait.
    #[error("cannot connect to {addr}: {reason}")]
    Unreachable {
        /// The server.
        addr: SocketAddr,
        /// What the transport says.
        reason: String,
    },
    /// There was no reply in the time that the call had. It may have been carried out all the same.
    #[error("{addr} has not replied within {waited:?}{}", last.as_ref().map(|last| format!(" ({last})")).unwrap_or_default())]
    NoReply {
        /// The server.
        addr: SocketAddr,
        /// How long was waited.
        waited: Duration,
        /// What has happened to the connection last, if something has.
        last: Option<String>,
    },
    /// The server does not let the caller in.
    #[error("the server denies the call: {}", denied(*.0))]
    Denied(Denied),
    /// The server cannot carry it out.
    #[error("the server cannot carry out the call: {}", refused(*.0))]
    Refused(Accepted),
    /// The procedure failed.
    #[error("{0}")]
    Failed(Status),
    /// The reply cannot be read.
    #[error("the server's reply cannot be read: {0}")]
    Reply(#[from] DecodeError),
    /// The server's bytes are no replies.
    #[error("the server broke the protocol: {0}")]
    Record(#[from] RecordError),
    /// The server's messages over RDMA are no replies.
    #[error(transparent)]
    Rdma(#[from] rdma::Error),
    /// The connection over RDMA cannot go on.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The server cannot take the call over RDMA.
    #[error("the server does not take the call over RDMA: {}", not_taken(*.0))]
    NotTaken(RdmaError),
    /// The caller has taken the call back. If it was sent, it may have been carried out, or be carried out yet.
    #[error("the call was cancelled")]
    Cancelled,
    /// The client was told to close what the call was made on.
    #[error("the connection is closed")]
    Closed,
}

impl Error {
    /// Is it what the server says to the call, so that it is of no use to make it again?
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Denied(_) | Self::Refused(_) | Self::NotTaken(_))
    }
}

fn denied(denied: Denied) -> String {
    match denied {
        Denied::RpcMismatch(low, high) => format!("it speaks RPC in versions {low} to {high}"),
        // AUTH_TOOWEAK (RFC 5531, section 9).
        Denied::Authentication(5) => {
            "it takes no such credential, or not from this port: it may insist on a port below \
                                      1024 (AUTH_TOOWEAK)"
                .to_owned()
        }
        Denied::Authentication(status) => format!("it does not take the credential (status {status})"),
    }
}

fn not_taken(error: RdmaError) -> String {
    match error {
        RdmaError::Version(low, high) => format!("it speaks RPC over RDMA in versions {low} to {high}"),
        RdmaError::Chunk => "it cannot use the chunks, or the reply is longer than they are".to_owned(),
    }
}

fn refused(accepted: Accepted) -> String {
    match accepted {
        Accepted::Success => "it says that it has".to_owned(),
        Accepted::ProgramUnavailable => "the program is not there".to_owned(),
        Accepted::ProgramMismatch(low, high) => format!("it has the program in versions {low} to {high}"),
        Accepted::ProcedureUnavailable => "it does not know the procedure".to_owned(),
        Accepted::GarbageArguments => "it cannot read the arguments".to_owned(),
        Accepted::SystemError => "it has failed".to_owned(),
    }
}
