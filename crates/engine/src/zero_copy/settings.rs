//! Which sends are made without a copy.

use super::policy::Mode;
use super::thresholds::Thresholds;

/// Which sends of an engine's connections are made without a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// When.
    pub mode: Mode,
    /// From which sizes on, for the adaptive mode.
    pub thresholds: Thresholds,
}

impl Settings {
    /// How many bytes of payload should lie in memory that a ring can register (see
    /// [`Pool::registrable`](onego_buf::Pool::registrable)) where `most` may: none if all sends are copied.
    pub fn registrable(&self, most: usize) -> usize {
        if self.mode == Mode::Off { 0 } else { most }
    }
}
