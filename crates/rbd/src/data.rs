//! Where the bytes of an image lie, and those of what shows through it.

use crate::encryption::Encryption;
use crate::error::Error;
use onego_buf::List;
use onego_ceph::client::Request;
use onego_ceph::ops::Op;
use onego_ceph::rbd::{DataNames, Layout};
use onego_wire::text;
use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

/// Where the data of an image lies, or that of one of its ancestors.
#[derive(Debug, Clone)]
pub struct DataObjects {
    /// Their pool.
    pub pool: i64,
    /// Their namespace within the pool.
    pub namespace: String,
    /// Flags of all requests (see [`onego_ceph::ops::flag`]).
    pub flags: u32,
    /// What they are called.
    pub names: DataNames,
    /// How the image's bytes lie in them.
    pub layout: Layout,
    /// The snapshot to read, or [`NOSNAP`](onego_ceph::types::NOSNAP).
    pub snap: u64,
    /// How it is encrypted, if this client is to encrypt and decrypt it.
    pub encryption: Option<Arc<Encryption>>,
}

impl DataObjects {
    /// Where the data begins: behind the header of its encryption.
    #[inline]
    pub(crate) fn start(&self) -> u64 {
        self.encryption.as_ref().map_or(0, |encryption| encryption.data_offset())
    }

    /// A request to an object.
    pub(crate) fn request(&self, object: u64, op: Op) -> Request {
        let mut request = Request::one(self.pool, self.names.name(object), op);
        request.namespace = text::to_bytes(&self.namespace).into_owned();
        request.snap = self.snap;
        request.with_flags(self.flags)
    }
}

/// Bytes that no cluster has. The layer that drives the machine reads them ([`Host::read_external`](crate::Host::read_external)).
pub trait ExternalBytes: fmt::Debug + Send + Sync {
    /// Reads a range of them.
    fn read(&self, range: Range<u64>) -> ExternalRead;
}

/// A read of such bytes, under way.
pub type ExternalRead = Pin<Box<dyn Future<Output = Result<List, Error>>>>;

/// Where the bytes of an ancestor lie.
#[derive(Debug, Clone)]
pub enum AncestorData {
    /// In objects of the cluster.
    Objects(DataObjects),
    /// Elsewhere. Such an ancestor has none of its own.
    External(Arc<dyn ExternalBytes>),
}

impl AncestorData {
    /// Where the data begins: behind the header of its encryption.
    pub(crate) fn start(&self) -> u64 {
        match self {
            Self::Objects(data) => data.start(),
            Self::External(_) => 0,
        }
    }

    /// How it is encrypted, if this client is to decrypt it.
    pub(crate) fn encryption(&self) -> Option<&Encryption> {
        match self {
            Self::Objects(data) => data.encryption.as_deref(),
            Self::External(_) => None,
        }
    }
}

/// What shows where an image has no object: the snapshot that it is a clone of, or what it is being moved from.
#[derive(Debug, Clone)]
pub struct Ancestor {
    /// Where its bytes lie.
    pub data: AncestorData,
    /// Bytes, from the start, that show through; headers of encryption do not count. 0 is the same as no ancestor.
    pub overlap: u64,
    /// The snapshot that it is a clone of itself.
    pub parent: Option<Arc<Ancestor>>,
}
