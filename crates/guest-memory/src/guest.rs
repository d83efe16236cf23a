//! A guest's memory by its addresses.

use crate::mapping::MapError;
use crate::window::Window;
use std::os::fd::AsFd;

/// A range of a guest's memory. Addresses and lengths are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Where it is for the guest.
    pub guest: u64,
    /// Its length.
    pub length: u64,
    /// Where it is for the process that shares it.
    pub user: u64,
}

impl Region {
    fn overlaps(&self, other: &Self) -> bool {
        self.guest < other.guest.saturating_add(other.length)
            && other.guest < self.guest.saturating_add(self.length)
    }
}

/// Why a range does not become memory of the guest, or is not found in it.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// Addresses are 64 bits.
    #[error("{0:?} ends behind the last address")]
    Wraps(Region),
    /// The guest has something else there.
    #[error("{0:?} overlaps another region: remove that first")]
    Overlaps(Region),
    /// There is none to remove.
    #[error("{0:?} is not there to be removed")]
    Unknown(Region),
    /// There are too many.
    #[error("there are {0} regions already: remove one first")]
    TooMany(usize),
    /// The file is not mapped.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The guest has no such memory.
    #[error("the guest has no {length} bytes of memory at {address:#x}")]
    NotThere {
        /// The first byte.
        address: u64,
        /// Bytes.
        length: usize,
    },
}

/// The memory of a guest, which it changes at any time.
#[derive(Debug, Default)]
pub struct GuestMemory {
    /// They do not overlap. They are few: they are looked through.
    regions: Vec<(Region, Window)>,
}

impl GuestMemory {
    /// Most regions.
    pub const REGIONS_MAX: usize = 64;

    /// Adds a region: a range of a file from `offset` on.
    pub fn add(&mut self, region: Region, file: impl AsFd, offset: u64) -> Result<(), MemoryError> {
        let Region { guest, length, user } = region;
        if guest.checked_add(length).is_none() || user.checked_add(length).is_none() {
            return Err(MemoryError::Wraps(region));
        }
        if self.regions.iter().any(|(other, _)| region.overlaps(other)) {
            return Err(MemoryError::Overlaps(region));
        }
        if self.regions.len() >= Self::REGIONS_MAX {
            return Err(MemoryError::TooMany(self.regions.len()));
        }
        self.regions.push((region, Window::map(file, offset, length)?));
        Ok(())
    }

    /// Removes a region. Windows on it stay.
    pub fn remove(&mut self, region: Region) -> Result<(), MemoryError> {
        let at = self.regions.iter().position(|(other, _)| *other == region);
        self.regions.swap_remove(at.ok_or(MemoryError::Unknown(region))?);
        Ok(())
    }

    /// Where something is that the process which shares the memory has at an address: within one region.
    pub fn window_of_user(&self, user: u64, length: u64) -> Option<Window> {
        let within =
            |(region, window): &(Region, Window)| window.slice(user.checked_sub(region.user)?, length);
        self.regions.iter().find_map(within)
    }

    /// Copies bytes out. An error leaves some of `to` changed.
    pub fn read(&self, guest: u64, to: &mut [u8]) -> Result<(), MemoryError> {
        let mut done = 0;
        while done < to.len() {
            let (window, place, length) = self.run(guest, done, to.len())?;
            window.read(place, &mut to[done..done + length]);
            done += length;
        }
        Ok(())
    }

    /// Copies bytes in. An error leaves some of them written.
    pub fn write(&self, guest: u64, from: &[u8]) -> Result<(), MemoryError> {
        let mut done = 0;
        while done < from.len() {
            let (window, place, length) = self.run(guest, done, from.len())?;
            window.write(place, &from[done..done + length]);
            done += length;
        }
        Ok(())
    }

    /// Has the guest all these bytes?
    pub fn contains(&self, guest: u64, length: u64) -> bool {
        let Ok(total) = usize::try_from(length) else { return false };
        let mut done = 0;
        while done < total {
            let Ok((_, _, length)) = self.run(guest, done, total) else { return false };
            done += length;
        }
        true
    }

    /// Where the bytes from `done` to `total` of those at an address are, as far as they are in one region.
    #[inline]
    fn run(&self, guest: u64, done: usize, total: usize) -> Result<(&Window, usize, usize), MemoryError> {
        let not_there = MemoryError::NotThere { address: guest, length: total };
        let Some(at) = guest.checked_add(done as u64) else { return Err(not_there) };
        let within = |(region, window): &'_ &(Region, Window)| {
            at.checked_sub(region.guest).is_some_and(|place| place < window.len() as u64)
        };
        let Some((region, window)) = self.regions.iter().find(within) else { return Err(not_there) };
        let place = (at - region.guest) as usize;
        Ok((window, place, (total - done).min(window.len() - place)))
    }
}
