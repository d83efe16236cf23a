//! A range of shared memory.

use crate::mapping::{MapError, Mapping};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};

/// A range of memory that another process changes at any time. It stays mapped as long as any window on it is there.
///
/// Places are bytes from the start of the window.
#[derive(Debug, Clone)]
pub struct Window {
    mapping: Rc<Mapping>,
    start: usize,
    length: usize,
}

impl Window {
    /// Maps a range of a file. Fails if the file is shorter.
    pub fn map(file: impl AsFd, offset: u64, length: u64) -> Result<Self, MapError> {
        let (mapping, start) = Mapping::new(file, offset, length)?;
        let length = usize::try_from(length).expect("it is mapped");
        Ok(Self { mapping: Rc::new(mapping), start, length })
    }

    /// Makes a file of zeros in memory, which has no name and keeps its length, and maps it.
    pub fn create(name: &str, length: u64) -> Result<(OwnedFd, Self), MapError> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create(name, flags).map_err(io::Error::from)?;
        ftruncate(&file, length).map_err(io::Error::from)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&file, seals).map_err(io::Error::from)?;
        let window = Self::map(&file, 0, length)?;
        Ok((file, window))
    }

    /// Bytes.
    #[allow(clippy::len_without_is_empty, reason = "none is empty")]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Are values at even places not aligned?
    pub fn is_misaligned(&self) -> bool {
        !self.at(0, 0).cast::<u16>().is_aligned()
    }

    /// A range of it. `None`: it is not all there.
    pub fn slice(&self, place: u64, length: u64) -> Option<Self> {
        let end = place.checked_add(length)?;
        if end > self.length as u64 {
            return None;
        }
        let (place, length) = (place as usize, length as usize);
        Some(Self { mapping: Rc::clone(&self.mapping), start: self.start + place, length })
    }

    /// Copies bytes out. What changes meanwhile may be copied in part.
    ///
    /// # Panics
    /// If the window does not have them all.
    #[inline]
    pub fn read(&self, place: usize, to: &mut [u8]) {
        let from = self.at(place, to.len());
        // SAFETY: both are valid for the length, and do not overlap: the buffer is this process's alone. The source may change
        // under the copy, which is a byte-wise copy by a raw pointer: nothing is assumed of what it finds.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
    }

    /// Copies bytes in.
    ///
    /// # Panics
    /// If the window does not have room for them all.
    #[inline]
    pub fn write(&self, place: usize, from: &[u8]) {
        let to = self.at(place, from.len());
        // SAFETY: both are valid for the length, and do not overlap: the bytes are this process's alone.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    }

    /// Loads a value: what was written by others before they stored it is seen from now on.
    ///
    /// # Panics
    /// If the window does not have it, or it is not aligned.
    #[inline]
    pub fn load_u16(&self, place: usize) -> u16 {
        self.atomic(place).load(Ordering::Acquire)
    }

    /// Stores a value: others that load it see what was written before.
    ///
    /// # Panics
    /// If the window does not have it, or it is not aligned.
    #[inline]
    pub fn store_u16(&self, place: usize, value: u16) {
        self.atomic(place).store(value, Ordering::Release);
    }

    fn atomic(&self, place: usize) -> &AtomicU16 {
        let at = self.at(place, 2).cast::<u16>();
        assert!(at.is_aligned(), "a value that is not aligned");
        // SAFETY: it is in the mapping, which lives as long as this window, and it is aligned. All others access it atomically, or
        // are other processes.
        unsafe { AtomicU16::from_ptr(at) }
    }

    fn at(&self, place: usize, length: usize) -> *mut u8 {
        let end = place.checked_add(length);
        assert!(end.is_some_and(|end| end <= self.length), "a place outside of the window");
        self.mapping.at(self.start + place, length)
    }
}
