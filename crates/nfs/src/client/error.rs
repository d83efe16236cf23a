use crate::rpc::rdma::{self, RdmaError};
use crate::rpc::{Accepted, Denied, RecordError};
use crate::v3::Status;
use onego_rdma::ConnectionError;
use onego_wire::DecodeError;
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;

/// The reason that a call has no results.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// No connection could be opened, and the call is [soft](super::Call::soft).
    #[error("cannot connect to {addr}: {reason}")]
    Unreachable {
        /// The server's address.
        addr: SocketAddr,
        /// The transport's error.
        reason: String,
    },
    /// No reply arrived in time. The server may have executed the call.
    #[error("{addr} has not replied within {waited:?}{}", last.as_ref().map(|last| format!(" ({last})")).unwrap_or_default())]
    NoReply {
        /// The server's address.
        addr: SocketAddr,
        /// Time since the call was made.
        waited: Duration,
        /// Reason that the last connection ended, if one has.
        last: Option<String>,
    },
    /// The server rejects the caller or the RPC version.
    #[error("the server denies the call: {}", denied(*.0))]
    Denied(Denied),
    /// The server cannot execute the call.
    #[error("the server cannot execute the call: {}", refused(*.0))]
    Refused(Accepted),
    /// The procedure failed with this status.
    #[error("{0}")]
    Failed(Status),
    /// The reply cannot be decoded.
    #[error("cannot decode the server's reply: {0}")]
    Reply(#[from] DecodeError),
    /// The server violated the record protocol.
    #[error("the server broke the protocol: {0}")]
    Record(#[from] RecordError),
    /// The server violated the RPC-over-RDMA protocol.
    #[error(transparent)]
    Rdma(#[from] rdma::Error),
    /// The RDMA connection failed.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The server cannot process the call over RDMA.
    #[error("the server rejects the call over RDMA: {}", not_taken(*.0))]
    NotTaken(RdmaError),
    /// The caller cancelled the call. If it was sent, the server may have executed it, or may still execute it.
    #[error("the call was cancelled")]
    Cancelled,
    /// The client has closed the connection.
    #[error("the connection is closed")]
    Closed,
}

impl Error {
    /// Returns whether the server answered the call, so that repeating it is useless.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Denied(_) | Self::Refused(_) | Self::NotTaken(_))
    }
}

fn denied(denied: Denied) -> String {
    match denied {
        Denied::RpcMismatch(low, high) => format!("it supports RPC versions {low} to {high}"),
        // AUTH_TOOWEAK (RFC 5531, section 9).
        Denied::Authentication(5) => {
            "it rejects the credential, or the port: it may require a source port below \
                                      1024 (AUTH_TOOWEAK)"
                .to_owned()
        }
        Denied::Authentication(status) => format!("it rejects the credential (status {status})"),
    }
}

fn not_taken(error: RdmaError) -> String {
    match error {
        RdmaError::Version(low, high) => format!("it supports RPC-over-RDMA versions {low} to {high}"),
        RdmaError::Chunk => "it cannot use the chunks, or the reply is longer than they are".to_owned(),
    }
}

fn refused(accepted: Accepted) -> String {
    match accepted {
        Accepted::Success => "it reports success".to_owned(),
        Accepted::ProgramUnavailable => "program unavailable".to_owned(),
        Accepted::ProgramMismatch(low, high) => format!("it supports program versions {low} to {high}"),
        Accepted::ProcedureUnavailable => "procedure unavailable".to_owned(),
        Accepted::GarbageArguments => "it cannot decode the arguments".to_owned(),
        Accepted::SystemError => "system error".to_owned(),
    }
}
