//! Map of a cluster's OSDs and pools, and the placement of objects.
//!
//! Source: ceph `src/osd/OSDMap.{h,cc}`. Decodes every encoding from Pacific (16.2) to Tentacle (20). Encodes a decoded map in
//! its original encoding, and a new one in Squid's (19), which all of them can decode. All of a map is preserved, including
//! the parts for OSDs and monitors, so that it is encoded to the original bytes.

mod apply;
mod codec;
mod flags;
mod incremental;
mod intervals;
mod map;
mod needs;
mod osd;
mod place;
mod pool;
mod pool_codec;

pub use apply::MapError;
pub use flags::{flag, release};
pub use incremental::{CrimsonChange, Incremental};
pub use intervals::IntervalSet;
pub use map::{MAX_OSDS, OsdMap, Ratios, StretchMode};
pub use osd::{OsdInfo, OsdXInfo, PRIMARY_AFFINITY_MAX, WEIGHT_IN, state};
pub use place::Placement;
pub use pool::{
    HitSetParams, OBJECT_HASH_LINUX, OBJECT_HASH_RJENKINS, PeeringCrush, PgMerge, Pool, PoolKind, PoolOption,
    PoolSnap, flag as pool_flag,
};
