//! Queries and parses an image header, in both formats.
//!
//! Source: ceph `src/librbd/image/RefreshRequest.cc`, `src/librbd/operation/ResizeRequest.cc`.

use crate::facts::ImageState;
use onego_buf::List;
use onego_ceph::cls::Method;
use onego_ceph::cls::rbd::{
    Format1Header, GetFeatures, GetFlags, GetSize, GetSnapContext, ParentGet, ParentImageSpec,
    ParentOverlapGet, SetSize,
};
use onego_ceph::ops::Op;
use onego_ceph::rbd::{Features, ImageFormat};
use onego_ceph::types::NOSNAP;
use onego_msgr::encoding::Decode as _;
use onego_wire::{DecodeError, Decoded, Reader};

impl ImageState {
    /// Returns the operations that read the state from a header, at a snapshot or at [`NOSNAP`].
    pub fn query(format: ImageFormat, snap: u64) -> Vec<Op> {
        match format {
            ImageFormat::V1 => vec![Op::Read { offset: 0, length: 0 }],
            ImageFormat::V2 => vec![
                GetSize { snap }.call(),
                GetFeatures { snap, read_only: true }.call(),
                GetFlags { snap }.call(),
                GetSnapContext {}.call(),
                ParentGet {}.call(),
                ParentOverlapGet { snap }.call(),
            ],
        }
    }

    /// Parses the outputs of [`query`](Self::query). `None`: the snapshot is not in the header (in format 2 the operations fail then).
    pub fn parse(format: ImageFormat, snap: u64, outputs: &[&List]) -> Decoded<Option<Self>> {
        match (format, outputs) {
            (ImageFormat::V1, [header]) => {
                let header = Format1Header::decode(&mut Reader::new(&header.to_segment()))?;
                Self::of_v1(&header, snap)
            }
            (ImageFormat::V2, [size, features, flags, snap_context, parent, overlap]) => Ok(Some(Self {
                size: GetSize::reply(size)?.size,
                features: Features(GetFeatures::reply(features)?.features),
                flags: GetFlags::reply(flags)?,
                snap_context: GetSnapContext::reply(snap_context)?,
                parent: ParentGet::reply(parent)?,
                overlap: ParentOverlapGet::reply(overlap)?.unwrap_or(0),
            })),
            (_, outputs) => {
                let what = "outputs of a read of a header";
                Err(DecodeError::Invalid { what, value: outputs.len() as u64 })
            }
        }
    }

    /// Returns the state from a header of format 1, at a snapshot or at [`NOSNAP`]. `None`: the snapshot is not in the header.
    pub fn of_v1(header: &Format1Header, snap: u64) -> Decoded<Option<Self>> {
        let size = match snap {
            NOSNAP => header.image_size,
            snap => match header.snapshots.iter().find(|snapshot| snapshot.id == snap) {
                Some(snapshot) => snapshot.image_size,
                None => return Ok(None),
            },
        };
        Ok(Some(Self {
            size,
            features: if header.is_migrating()? { Features::MIGRATING } else { Features::NONE },
            flags: 0,
            snap_context: header.snap_context()?,
            parent: ParentImageSpec::default(),
            overlap: 0,
        }))
    }

    /// Returns the operations that change the size in a header.
    pub fn set_size(format: ImageFormat, size: u64) -> Vec<Op> {
        match format {
            // Without the stat, the write would create the header of a removed image.
            ImageFormat::V1 => {
                let data = size.to_le_bytes().to_vec().into();
                vec![Op::Stat, Op::Write { offset: Format1Header::SIZE_AT, data }]
            }
            ImageFormat::V2 => vec![SetSize { size }.call()],
        }
    }
}
