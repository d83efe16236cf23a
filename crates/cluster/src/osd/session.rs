//! A client's connection, as an OSD knows it.

use onego_ceph::types::EntityName;
use onego_msgr::addr::EntityAddr;

/// Names a client's connection. The owner of the OSD gives the numbers, each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// Identifies a user, whatever its connections: the CRC-32C of its name, which is the same after a restart. Tenants do not
/// choose their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct UserId(pub u32);

/// The client that makes a request, and where it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) session: SessionId,
    pub(crate) name: EntityName,
    pub(crate) addr: EntityAddr,
    pub(crate) user: UserId,
}
