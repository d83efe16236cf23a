//! What a header says, in both of its forms.
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
    /// The operations on a header that give its state, at a snapshot or without one.
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

    /// Reads what the operations gave. `None`: the header does not know the snapshot. In format 2 the operations fail then.
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

    /// What a header of format 1 says of the image, at a snapshot or without one. `None`: it does not know the snapshot.
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

    /// The operations on a header that change the size.
    pub fn set_size(format: ImageFormat, size: u64) -> Vec<Op> {
        match format {
            // A write alone would make a header of an image that is gone.
            ImageFormat::V1 => {
                let data = size.to_le_bytes().to_vec().into();
                vec![Op::Stat, Op::Write { offset: Format1Header::SIZE_AT, data }]
            }
            ImageFormat::V2 => vec![SetSize { size }.call()],
        }
    }
}
