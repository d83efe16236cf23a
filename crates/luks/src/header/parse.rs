//! A header of any of the two forms is read.

use super::facts::{LuksHeader, Version};
use super::{luks1, luks2, magic};
use crate::error::Error;

impl LuksHeader {
    /// Reads the header of a disk that begins with these bytes. 32 KiB are enough for almost all of them; if not,
    /// [`Error::CutOff`] says how many are, which is 8 MiB at most.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        match magic::version(bytes)? {
            Version::One => luks1::parse(bytes),
            Version::Two => luks2::parse(bytes),
        }
    }
}
