//! Commands about pools.

pub(crate) mod pool;
mod pool_flags;
pub(crate) mod pool_set;
pub(crate) mod pool_snaps;
pub(crate) mod quota;
