//! Zero-copy settings of an engine.

use super::policy::Mode;
use super::thresholds::Thresholds;

/// Zero-copy settings of an engine's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// Mode.
    pub mode: Mode,
    /// Minimum sizes, for the adaptive mode.
    pub thresholds: Thresholds,
}

impl Settings {
    /// Returns how many bytes of payload should lie in memory that a ring can register (see
    /// [`Pool::registrable`](onego_buf::Pool::registrable)) out of at most `most`: 0 if all sends are copied.
    pub fn registrable(&self, most: usize) -> usize {
        if self.mode == Mode::Off { 0 } else { most }
    }
}
