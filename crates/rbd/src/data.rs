//! Location of the data of an image and of its ancestors.

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

/// Location of the data of an image or of one of its ancestors.
#[derive(Debug, Clone)]
pub struct DataObjects {
    /// Pool of the objects.
    pub pool: i64,
    /// Namespace within the pool.
    pub namespace: String,
    /// Flags of all requests (see [`onego_ceph::ops::flag`]).
    pub flags: u32,
    /// Names of the objects.
    pub names: DataNames,
    /// Layout of the image's bytes in the objects.
    pub layout: Layout,
    /// The snapshot to read, or [`NOSNAP`](onego_ceph::types::NOSNAP).
    pub snap: u64,
    /// Encryption, if this client encrypts and decrypts the data.
    pub encryption: Option<Arc<Encryption>>,
}

impl DataObjects {
    #[inline]
    pub(crate) fn start(&self) -> u64 {
        self.encryption.as_ref().map_or(0, |encryption| encryption.data_offset())
    }

    pub(crate) fn request(&self, object: u64, op: Op) -> Request {
        let mut request = Request::one(self.pool, self.names.name(object), op);
        request.namespace = text::to_bytes(&self.namespace).into_owned();
        request.snap = self.snap;
        request.with_flags(self.flags)
    }
}

/// Bytes outside of any cluster. The layer that drives the machine reads them ([`Host::read_external`](crate::Host::read_external)).
pub trait ExternalBytes: fmt::Debug + Send + Sync {
    /// Reads a range.
    fn read(&self, range: Range<u64>) -> ExternalRead;
}

/// Read of external bytes in flight.
pub type ExternalRead = Pin<Box<dyn Future<Output = Result<List, Error>>>>;

/// Location of an ancestor's bytes.
#[derive(Debug, Clone)]
pub enum AncestorData {
    /// In objects of the cluster.
    Objects(DataObjects),
    /// Outside of the cluster. Such an ancestor has no ancestors.
    External(Arc<dyn ExternalBytes>),
}

impl AncestorData {
    pub(crate) fn start(&self) -> u64 {
        match self {
            Self::Objects(data) => data.start(),
            Self::External(_) => 0,
        }
    }

    pub(crate) fn encryption(&self) -> Option<&Encryption> {
        match self {
            Self::Objects(data) => data.encryption.as_deref(),
            Self::External(_) => None,
        }
    }
}

/// Source of the bytes where an image has no object: the parent snapshot of a clone, or the source of a migration.
#[derive(Debug, Clone)]
pub struct Ancestor {
    /// Location of its bytes.
    pub data: AncestorData,
    /// Bytes from the start that show through, encryption headers excluded. 0 is the same as no ancestor.
    pub overlap: u64,
    /// Parent, if it is a clone itself.
    pub parent: Option<Arc<Ancestor>>,
}
