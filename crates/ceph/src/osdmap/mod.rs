//! The map of a cluster's OSDs: which are up and where, which pools there are, and where their objects are.
//!
//! Source: ceph `src/osd/OSDMap.{h,cc}`. Read in every encoding from Pacific (16.2) to Tentacle (20); written in the
//! encoding in which it was read, or in Squid's (19) if it is new, which all of them read. All of a map is kept, also
//! what only OSDs and monitors look at, so that it is written as it was read, byte for byte.

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
