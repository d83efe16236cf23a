use super::policy::{Access, Policy, Shape};
use super::request::Transfer;
use io_uring::Submitter;
use onego_buf::{List, Slab};
use std::io;
use std::sync::{Arc, Weak};

/// Maximum number of slabs that one ring registers: with slabs of 2 MiB, 128 MiB of pinned memory.
const MAX_SLABS: u32 = 64;

struct RegistryEntry {
    id: u64,
    slab: Weak<Slab>,
}

/// Slabs registered with a ring on demand: sends from them need no page look-up each time.
///
/// The kernel keeps a registered slab's pages until its index is reused, even if they have no other user; names of
/// slabs are never reused, so such pages are never sent from.
#[derive(Default)]
pub struct Registry {
    entries: Vec<RegistryEntry>,
    table: Table,
}

#[derive(Default, PartialEq)]
enum Table {
    #[default]
    None,
    There,
    Refused,
}

impl Registry {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    #[inline]
    pub(crate) fn transfer(
        &mut self,
        policy: &mut Policy,
        ring: &Submitter<'_>,
        list: &List,
    ) -> (Transfer, usize) {
        let mut index = None;
        let memory = || {
            index = self.index_of(ring, list);
            if index.is_some() { Access::Registered } else { Access::Ring }
        };
        match policy.decide(Shape::of(list), memory) {
            0 => (Transfer::Copy, list.len()),
            bytes => (index.map_or(Transfer::ZeroCopy, Transfer::Registered), bytes),
        }
    }

    /// Returns the index of the slab that contains all segments of a list, registering it if necessary: a request names
    /// one registered buffer. Returns `None` if there is no such slab, or if it cannot be registered.
    #[inline]
    pub fn index_of(&mut self, ring: &Submitter<'_>, list: &List) -> Option<u16> {
        let mut segments = list.segments();
        let slab = segments.next()?.slab()?;
        let same = |other: &Arc<Slab>| other.id() == slab.id();
        if !segments.all(|segment| segment.slab().is_some_and(same)) {
            return None;
        }
        match self.entries.iter().position(|entry| entry.id == slab.id()) {
            Some(index) => Some(index as u16),
            None => self.register(ring, slab),
        }
    }

    #[cold]
    fn register(&mut self, ring: &Submitter<'_>, slab: &Arc<Slab>) -> Option<u16> {
        if self.table == Table::Refused {
            return None;
        }
        match self.try_register(ring, slab) {
            Ok(index) => index,
            Err(error) => {
                let needs = "the kernel's io_uring 5.19, and RLIMIT_MEMLOCK for the slabs";
                tracing::warn!(%error, "cannot register memory for sending, which needs {needs}");
                self.table = Table::Refused;
                None
            }
        }
    }

    /// Returns `None` if the table is full of slabs in use.
    fn try_register(&mut self, ring: &Submitter<'_>, slab: &Arc<Slab>) -> io::Result<Option<u16>> {
        if self.table == Table::None {
            ring.register_buffers_sparse(MAX_SLABS)?;
            self.table = Table::There;
        }
        let index = match self.entries.iter().position(|entry| entry.slab.strong_count() == 0) {
            Some(index) => index,
            None if self.entries.len() < MAX_SLABS as usize => self.entries.len(),
            None => return Ok(None),
        };
        let vector = libc::iovec { iov_base: slab.as_ptr().cast_mut().cast(), iov_len: slab.len() };
        // SAFETY: the slab is mapped now. Should it be unmapped later, the kernel holds its pages, and `index_of` finds
        // the index only by the name of that slab.
        unsafe { ring.register_buffers_update(index as u32, &[vector], None)? };
        let entry = RegistryEntry { id: slab.id(), slab: Arc::downgrade(slab) };
        match self.entries.get_mut(index) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
        Ok(Some(index as u16))
    }

    /// Returns the number of registered slabs.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether no slab is registered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
