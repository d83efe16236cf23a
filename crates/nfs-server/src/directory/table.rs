//! The descriptors of files that were used lately.
//!
//! A descriptor stays with its file wherever others move it. There may be far fewer descriptors than files, so the least
//! recently used are closed. Their files are opened again by their handles; where
//! handles do not last, by their names in their directories, if they are still the same files there.

use super::system::{self, Identity};
use crate::procedures::inodes::Access;
use onego_nfs::v3::Status;
use rustc_hash::FxHashMap;
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::sync::Arc;

/// Files whose names are known at a time. The handles of those that are forgotten are stale.
const KNOWN_MAX: usize = 1 << 20;

/// Directories on the way to a file: as many as the longest path can name.
pub(super) const DEPTH_MAX: usize = 2048;

/// Where a file was found last.
#[derive(Debug, Clone)]
pub(super) struct Way {
    pub(super) parent: Identity,
    pub(super) name: Vec<u8>,
}

/// A file that is known.
#[derive(Debug, Default)]
struct Known {
    /// Opened as a place only, neither to read nor to write.
    place: Option<Arc<OwnedFd>>,
    /// Opened to be read, and to be written.
    data: [Option<Arc<OwnedFd>>; 2],
    /// Where handles do not last.
    way: Option<Way>,
    /// It was used since the last look at its queue, or the last sweep.
    used: bool,
}

/// The files that are known.
#[derive(Debug)]
pub(super) struct Table {
    root: Identity,
    root_fd: Arc<OwnedFd>,
    known: FxHashMap<Identity, Known>,
    /// Those with a descriptor, the next to be closed first; some may be gone.
    open: VecDeque<Identity>,
    /// Those that are open for their bytes, likewise.
    open_data: VecDeque<(Identity, Access)>,
    /// How many there may be of either.
    open_max: usize,
    /// Those whose names are known, the oldest first; some may be gone.
    order: VecDeque<Identity>,
}

/// How to get to a file.
pub(super) enum Found {
    /// By its descriptor.
    Open(Arc<OwnedFd>),
    /// From an open directory by these names, each with the file that it must be.
    Names(Arc<OwnedFd>, Vec<(Vec<u8>, Identity)>),
    /// It is not known here.
    Nothing,
}

impl Table {
    pub(super) fn new(root: Identity, root_fd: Arc<OwnedFd>, open_max: usize) -> Self {
        let (known, open, open_data, order) = Default::default();
        Self { root, root_fd, known, open, open_data, open_max, order }
    }

    #[cfg(test)]
    pub(super) fn limit(&mut self, open_max: usize) {
        self.open_max = open_max;
    }

    /// How to get to the file.
    pub(super) fn find(&mut self, file: Identity) -> Found {
        let (mut names, mut at) = (Vec::new(), file);
        while names.len() < DEPTH_MAX {
            if at == self.root {
                return Self::found(Arc::clone(&self.root_fd), names);
            }
            let Some(known) = self.known.get_mut(&at) else { return Found::Nothing };
            known.used = true;
            if let Some(fd) = &known.place {
                return Self::found(Arc::clone(fd), names);
            }
            let Some(way) = &known.way else { return Found::Nothing };
            names.push((way.name.clone(), at));
            at = way.parent;
        }
        Found::Nothing
    }

    fn found(fd: Arc<OwnedFd>, mut names: Vec<(Vec<u8>, Identity)>) -> Found {
        names.reverse();
        if names.is_empty() { Found::Open(fd) } else { Found::Names(fd, names) }
    }

    /// A file was found: keeps its descriptor, and where it was found if it has to be found there again.
    pub(super) fn keep(&mut self, file: Identity, fd: Arc<OwnedFd>, way: Option<Way>) {
        if file == self.root {
            return;
        }
        let known = self.known.entry(file).or_default();
        known.used = true;
        if let Some(way) = way
            && known.way.replace(way).is_none()
        {
            self.order.push_back(file);
        }
        if known.place.is_none() {
            known.place = Some(fd);
            self.open.push_back(file);
        }
        self.make_room();
    }

    /// The descriptor by which a file is read or written.
    pub(super) fn data(&self, file: Identity, access: Access) -> Option<Arc<OwnedFd>> {
        self.known.get(&file)?.data[access as usize].clone()
    }

    /// A known file was opened to be read or written: keeps the descriptor.
    pub(super) fn keep_data(&mut self, file: Identity, access: Access, fd: Arc<OwnedFd>) {
        if let Some(known) = self.known.get_mut(&file)
            && known.data[access as usize].replace(fd).is_none()
        {
            self.open_data.push_back((file, access));
            self.make_room();
        }
    }

    /// The data of a file is durable: closes the descriptor for writing, with which nobody could execute the file.
    pub(super) fn written(&mut self, file: Identity) {
        if let Some(known) = self.known.get_mut(&file) {
            known.data[Access::Write as usize] = None;
        }
    }

    fn make_room(&mut self) {
        while self.open.len() > self.open_max
            && let Some(file) = self.open.pop_front()
        {
            let Some(known) = self.known.get_mut(&file) else { continue };
            if std::mem::take(&mut known.used) {
                self.open.push_back(file);
            } else if known.way.is_some() {
                (known.place, known.data) = Default::default();
            } else {
                self.known.remove(&file);
            }
        }
        while self.open_data.len() > self.open_max
            && let Some((file, access)) = self.open_data.pop_front()
        {
            if let Some(known) = self.known.get_mut(&file) {
                known.data[access as usize] = None;
            }
        }
        while self.order.len() > KNOWN_MAX
            && let Some(file) = self.order.pop_front()
        {
            self.known.remove(&file);
        }
    }

    /// Takes out the descriptors that were not used since the last call. A file that others have removed is freed only
    /// then. Where handles do not last, a descriptor is how a file is found that was moved: it stays.
    pub(super) fn sweep(&mut self) -> Vec<Arc<OwnedFd>> {
        let mut closed = Vec::new();
        self.known.retain(|_, known| {
            if !std::mem::take(&mut known.used) {
                closed.extend(known.data.iter_mut().filter_map(Option::take));
                if known.way.is_none() {
                    closed.extend(known.place.take());
                }
            }
            known.place.is_some() || known.way.is_some()
        });
        let known = &self.known;
        self.open.retain(|file| known.get(file).is_some_and(|known| known.place.is_some()));
        self.open_data.retain(|(file, access)| {
            known.get(file).is_some_and(|known| known.data[*access as usize].is_some())
        });
        closed
    }

    /// A file is gone.
    pub(super) fn forget(&mut self, file: Identity) {
        self.known.remove(&file);
    }
}

/// Goes to a file by names, each of which must lead to the file that it led to before.
pub(super) fn walk(start: Arc<OwnedFd>, names: Vec<(Vec<u8>, Identity)>) -> Result<Arc<OwnedFd>, Status> {
    names.into_iter().try_fold(start, |dir, (name, expected)| {
        let fd = system::open_entry(&dir, &name).map_err(|_| Status::Stale)?;
        let is_same = system::stat(&fd).is_ok_and(|stat| stat.identity == expected);
        if is_same { Ok(Arc::new(fd)) } else { Err(Status::Stale) }
    })
}
