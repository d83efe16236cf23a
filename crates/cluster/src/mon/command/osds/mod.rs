//! Commands about OSDs, the CRUSH map, and placement groups.

pub(crate) mod crush;
mod groups;
pub(crate) mod osd;
pub(crate) mod osd_df;
pub(crate) mod osd_dump;
pub(crate) mod pg;
pub(crate) mod placement;
pub(crate) mod releases;
