//! An OSD with what the network needs of it.

use crate::osd::Osd;
use onego_msgr::Config;
use std::sync::Arc;

/// An OSD, as it is reached.
pub(super) struct OsdDaemon {
    pub(super) osd: Osd,
    pub(super) config: Arc<Config>,
    /// Is it there, whatever the map says?
    pub(super) running: bool,
    /// Bytes beyond which it is fuller than the map says.
    pub(super) fuller_above: u64,
}

impl AsRef<Osd> for OsdDaemon {
    fn as_ref(&self) -> &Osd {
        &self.osd
    }
}

impl AsMut<Osd> for OsdDaemon {
    fn as_mut(&mut self) -> &mut Osd {
        &mut self.osd
    }
}
