//! Messages that an image's users exchange by notifications of its header, and their answers.
//!
//! Source: ceph `src/librbd/WatchNotifyTypes.{h,cc}`.

use onego_ceph::cls::rbd::SnapshotNamespace;
use onego_msgr::encoding::{Decode, Encode, envelope, write_envelope};
use onego_wire::{Decoded, Reader, Writer};

/// Version of the encoding; readable from version 1 on.
const VERSION: u8 = 7;

/// A user of an image (`ClientId`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ClientId {
    /// Global id of its connection to the cluster.
    pub gid: u64,
    /// Cookie of its watch of the header.
    pub handle: u64,
}

/// Id of a long operation that a user requests from the lock's owner (`AsyncRequestId`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AsyncRequestId {
    /// User that requests it.
    pub client: ClientId,
    /// Number that the user gave it.
    pub request: u64,
}

/// Snapshot that an operation concerns (`SnapPayloadBase`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SnapshotName {
    /// Its name.
    pub name: String,
    /// Namespace.
    pub namespace: SnapshotNamespace,
}

/// A notification (`NotifyMessage`).
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Notification {
    /// The client owns the exclusive lock.
    AcquiredLock { client: ClientId },
    /// The client no longer owns the lock.
    ReleasedLock { client: ClientId },
    /// The client requests the lock from the owner.
    RequestLock { client: ClientId, force: bool },
    /// The header has changed.
    HeaderUpdate,
    /// Progress of a long operation.
    AsyncProgress { id: AsyncRequestId, offset: u64, total: u64 },
    /// A long operation has ended; `result` is 0 or a negative errno.
    AsyncComplete { id: AsyncRequestId, result: i32 },
    /// The client requests an operation from the owner.
    Operation(Operation),
    /// A notification of an unknown kind.
    Other { code: u32 },
}

/// Operation that is requested from the lock's owner.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operation {
    Flatten { id: AsyncRequestId },
    Resize { size: u64, id: AsyncRequestId, allow_shrink: bool },
    SnapCreate { snapshot: SnapshotName, id: AsyncRequestId, flags: u64 },
    SnapRemove { snapshot: SnapshotName, id: AsyncRequestId },
    RebuildObjectMap { id: AsyncRequestId },
    SnapRename { snap: u64, snapshot: SnapshotName, id: AsyncRequestId },
    SnapProtect { snapshot: SnapshotName, id: AsyncRequestId },
    SnapUnprotect { snapshot: SnapshotName, id: AsyncRequestId },
    Rename { name: String, id: AsyncRequestId },
    UpdateFeatures { features: u64, enabled: bool, id: AsyncRequestId },
    Migrate { id: AsyncRequestId },
    Sparsify { id: AsyncRequestId, sparse_size: u64 },
    Quiesce { id: AsyncRequestId },
    Unquiesce { id: AsyncRequestId },
    MetadataUpdate { key: String, value: Option<String>, id: AsyncRequestId },
}

/// Response to a request by notification (`ResponseMessage`). Users that the request does not concern send an empty response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response {
    /// 0, or a negative errno.
    pub result: i32,
}

impl Encode for ClientId {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.gid);
        w.u64(self.handle);
    }
}

impl Decode for ClientId {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self { gid: r.u64("client's id")?, handle: r.u64("client's watch")? })
    }
}

impl Encode for AsyncRequestId {
    fn encode(&self, w: &mut Writer) {
        self.client.encode(w);
        w.u64(self.request);
    }
}

impl Decode for AsyncRequestId {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self { client: ClientId::decode(r)?, request: r.u64("operation's id")? })
    }
}

impl Encode for SnapshotName {
    fn encode(&self, w: &mut Writer) {
        w.string(&self.name);
        self.namespace.encode(w);
    }
}

impl SnapshotName {
    fn decode(version: u8, r: &mut Reader<'_>) -> Decoded<Self> {
        let name = r.string("snapshot's name")?;
        let namespace = if version >= 6 { SnapshotNamespace::decode(r)? } else { SnapshotNamespace::User };
        Ok(Self { name, namespace })
    }
}

/// Reads the id of an operation that has one only since version 7.
fn late_id(version: u8, r: &mut Reader<'_>) -> Decoded<AsyncRequestId> {
    if version >= 7 { AsyncRequestId::decode(r) } else { Ok(AsyncRequestId::default()) }
}

impl Operation {
    /// Returns the id that the requesting client gave it; all zeros if it has none.
    pub fn id(&self) -> AsyncRequestId {
        match self {
            Self::Flatten { id }
            | Self::Resize { id, .. }
            | Self::SnapCreate { id, .. }
            | Self::SnapRemove { id, .. }
            | Self::RebuildObjectMap { id }
            | Self::SnapRename { id, .. }
            | Self::SnapProtect { id, .. }
            | Self::SnapUnprotect { id, .. }
            | Self::Rename { id, .. }
            | Self::UpdateFeatures { id, .. }
            | Self::Migrate { id }
            | Self::Sparsify { id, .. }
            | Self::Quiesce { id }
            | Self::Unquiesce { id }
            | Self::MetadataUpdate { id, .. } => *id,
        }
    }

    fn code(&self) -> u32 {
        match self {
            Self::Flatten { .. } => 6,
            Self::Resize { .. } => 7,
            Self::SnapCreate { .. } => 8,
            Self::SnapRemove { .. } => 9,
            Self::RebuildObjectMap { .. } => 10,
            Self::SnapRename { .. } => 11,
            Self::SnapProtect { .. } => 12,
            Self::SnapUnprotect { .. } => 13,
            Self::Rename { .. } => 14,
            Self::UpdateFeatures { .. } => 15,
            Self::Migrate { .. } => 16,
            Self::Sparsify { .. } => 17,
            Self::Quiesce { .. } => 18,
            Self::Unquiesce { .. } => 19,
            Self::MetadataUpdate { .. } => 20,
        }
    }

    fn encode(&self, w: &mut Writer) {
        match self {
            Self::Flatten { id }
            | Self::RebuildObjectMap { id }
            | Self::Migrate { id }
            | Self::Quiesce { id }
            | Self::Unquiesce { id } => id.encode(w),
            Self::Resize { size, id, allow_shrink } => {
                w.u64(*size);
                id.encode(w);
                w.bool(*allow_shrink);
            }
            Self::SnapCreate { snapshot, id, flags } => {
                snapshot.encode(w);
                id.encode(w);
                w.u64(*flags);
            }
            Self::SnapRemove { snapshot, id }
            | Self::SnapProtect { snapshot, id }
            | Self::SnapUnprotect { snapshot, id } => {
                snapshot.encode(w);
                id.encode(w);
            }
            Self::SnapRename { snap, snapshot, id } => {
                w.u64(*snap);
                snapshot.encode(w);
                id.encode(w);
            }
            Self::Rename { name, id } => {
                w.string(name);
                id.encode(w);
            }
            Self::UpdateFeatures { features, enabled, id } => {
                w.u64(*features);
                w.bool(*enabled);
                id.encode(w);
            }
            Self::Sparsify { id, sparse_size } => {
                id.encode(w);
                w.u64(*sparse_size);
            }
            Self::MetadataUpdate { key, value, id } => {
                w.string(key);
                value.encode(w);
                id.encode(w);
            }
        }
    }

    fn decode(version: u8, code: u32, r: &mut Reader<'_>) -> Decoded<Option<Self>> {
        let snapshot = |r: &mut Reader<'_>| SnapshotName::decode(version, r);
        Ok(Some(match code {
            6 => Self::Flatten { id: AsyncRequestId::decode(r)? },
            7 => {
                let (size, id) = (r.u64("size")?, AsyncRequestId::decode(r)?);
                let allow_shrink = if version >= 4 { r.bool("leave to shrink")? } else { true };
                Self::Resize { size, id, allow_shrink }
            }
            8 => {
                let (snapshot, id) = (snapshot(r)?, late_id(version, r)?);
                Self::SnapCreate { snapshot, id, flags: if version >= 7 { r.u64("flags")? } else { 0 } }
            }
            9 => Self::SnapRemove { snapshot: snapshot(r)?, id: late_id(version, r)? },
            10 => Self::RebuildObjectMap { id: AsyncRequestId::decode(r)? },
            11 => Self::SnapRename {
                snap: r.u64("snapshot")?,
                snapshot: snapshot(r)?,
                id: late_id(version, r)?,
            },
            12 => Self::SnapProtect { snapshot: snapshot(r)?, id: late_id(version, r)? },
            13 => Self::SnapUnprotect { snapshot: snapshot(r)?, id: late_id(version, r)? },
            14 => Self::Rename { name: r.string("image's name")?, id: late_id(version, r)? },
            15 => Self::UpdateFeatures {
                features: r.u64("features")?,
                enabled: r.bool("whether they are enabled")?,
                id: late_id(version, r)?,
            },
            16 => Self::Migrate { id: AsyncRequestId::decode(r)? },
            17 => Self::Sparsify { id: AsyncRequestId::decode(r)?, sparse_size: r.u64("size of blocks")? },
            18 => Self::Quiesce { id: AsyncRequestId::decode(r)? },
            19 => Self::Unquiesce { id: AsyncRequestId::decode(r)? },
            20 => Self::MetadataUpdate {
                key: r.string("key")?,
                value: Option::decode(r)?,
                id: late_id(version, r)?,
            },
            _ => return Ok(None),
        }))
    }
}

impl Encode for Notification {
    fn encode(&self, w: &mut Writer) {
        write_envelope(w, VERSION, 1, |w| match self {
            Self::AcquiredLock { client } => {
                w.u32(0);
                client.encode(w);
            }
            Self::ReleasedLock { client } => {
                w.u32(1);
                client.encode(w);
            }
            Self::RequestLock { client, force } => {
                w.u32(2);
                client.encode(w);
                w.bool(*force);
            }
            Self::HeaderUpdate => w.u32(3),
            Self::AsyncProgress { id, offset, total } => {
                w.u32(4);
                id.encode(w);
                w.u64(*offset);
                w.u64(*total);
            }
            Self::AsyncComplete { id, result } => {
                w.u32(5);
                id.encode(w);
                w.i32(*result);
            }
            Self::Operation(operation) => {
                w.u32(operation.code());
                operation.encode(w);
            }
            Self::Other { code } => w.u32(*code),
        });
    }
}

impl Decode for Notification {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        // Before notifications had envelopes, an empty one meant that the header has changed.
        if r.is_empty() {
            return Ok(Self::HeaderUpdate);
        }
        envelope(r, VERSION, "notification of an image", |version, r| {
            let client = |r: &mut Reader<'_>| {
                if version >= 2 { ClientId::decode(r) } else { Ok(ClientId::default()) }
            };
            Ok(match r.u32("kind of notification")? {
                0 => Self::AcquiredLock { client: client(r)? },
                1 => Self::ReleasedLock { client: client(r)? },
                2 => {
                    let client = client(r)?;
                    Self::RequestLock { client, force: if version >= 3 { r.bool("force")? } else { false } }
                }
                3 => Self::HeaderUpdate,
                4 => Self::AsyncProgress {
                    id: AsyncRequestId::decode(r)?,
                    offset: r.u64("progress")?,
                    total: r.u64("total")?,
                },
                5 => Self::AsyncComplete { id: AsyncRequestId::decode(r)?, result: r.i32("result")? },
                code => match Operation::decode(version, code, r)? {
                    Some(operation) => Self::Operation(operation),
                    None => Self::Other { code },
                },
            })
        })
    }
}

impl Encode for Response {
    fn encode(&self, w: &mut Writer) {
        write_envelope(w, 1, 1, |w| w.i32(self.result));
    }
}

impl Decode for Response {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        envelope(r, 1, "answer to a notification", |_, r| Ok(Self { result: r.i32("result")? }))
    }
}

#[cfg(test)]
mod tests;
