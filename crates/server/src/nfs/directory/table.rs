//! Which handles name which files: an open descriptor for each file that was used lately, and for the others the way
//! by which they were found.
//!
//! A descriptor holds on to its file wherever it is moved, by whomever. There may be far fewer of them than files, so
//! that those which were not used for the longest time are closed; such a file is found again by its name in its
//! directory, if it is still the same file there.

use super::system::{self, Identity};
use onego_nfs::v3::Status;
use rustix::fd::OwnedFd;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Files that are known at a time. The handles of those that are forgotten are stale.
const KNOWN_MAX: usize = 1 << 20;

/// Directories on the way to a file: as many as the longest path can name.
const DEPTH_MAX: usize = 2048;

/// Where a file was found last.
#[derive(Debug, Clone)]
pub(super) struct Way {
    pub(super) parent: Identity,
    pub(super) name: Vec<u8>,
}

/// A file that is known.
#[derive(Debug)]
struct Known {
    /// Opened as a place only, neither to read nor to write.
    fd: Option<Arc<OwnedFd>>,
    way: Way,
    /// It was used since the queue came by last.
    used: bool,
    /// What came with the exclusive CREATE that has made it.
    verifier: Option<[u8; 8]>,
}

/// The files that are known.
#[derive(Debug)]
pub(super) struct Table {
    root: Identity,
    root_fd: Arc<OwnedFd>,
    known: HashMap<Identity, Known>,
    /// Those with a descriptor, the next to be closed first.
    open: VecDeque<Identity>,
    open_max: usize,
    /// All, the oldest first; some may be gone.
    order: VecDeque<Identity>,
}

/// How to get to a file.
pub(super) enum Found {
    /// By its descriptor.
    Open(Arc<OwnedFd>),
    /// From an open directory by these names, each with the file that it must be.
    Names(Arc<OwnedFd>, Vec<(Vec<u8>, Identity)>),
}

impl Table {
    pub(super) fn new(root: Identity, root_fd: Arc<OwnedFd>, open_max: usize) -> Self {
        let (known, open, order) = Default::default();
        Self { root, root_fd, known, open, open_max, order }
    }

    #[cfg(test)]
    pub(super) fn limit(&mut self, open_max: usize) {
        self.open_max = open_max;
    }

    /// How to get to the file.
    pub(super) fn find(&mut self, file: Identity) -> Result<Found, Status> {
        let (mut names, mut at) = (Vec::new(), file);
        while names.len() < DEPTH_MAX {
            if at == self.root {
                return Ok(Self::found(Arc::clone(&self.root_fd), names));
            }
            let known = self.known.get_mut(&at).ok_or(Status::Stale)?;
            known.used = true;
            if let Some(fd) = &known.fd {
                return Ok(Self::found(Arc::clone(fd), names));
            }
            names.push((known.way.name.clone(), at));
            at = known.way.parent;
        }
        Err(Status::Stale)
    }

    fn found(fd: Arc<OwnedFd>, mut names: Vec<(Vec<u8>, Identity)>) -> Found {
        names.reverse();
        if names.is_empty() { Found::Open(fd) } else { Found::Names(fd, names) }
    }

    /// Where a file was found last; the root: nowhere.
    pub(super) fn way(&self, file: Identity) -> Option<&Way> {
        self.known.get(&file).map(|known| &known.way)
    }

    /// A file was found: keeps its descriptor.
    pub(super) fn keep(&mut self, file: Identity, fd: Arc<OwnedFd>, way: Option<Way>) {
        if file == self.root {
            return;
        }
        match (self.known.get_mut(&file), way) {
            (Some(known), way) => {
                known.way = way.unwrap_or_else(|| known.way.clone());
                known.used = true;
                if known.fd.is_some() {
                    return;
                }
                known.fd = Some(fd);
            }
            (None, Some(way)) => {
                self.known.insert(file, Known { fd: Some(fd), way, used: true, verifier: None });
                self.order.push_back(file);
            }
            (None, None) => return,
        }
        self.open.push_back(file);
        self.make_room();
    }

    fn make_room(&mut self) {
        while self.open.len() > self.open_max
            && let Some(file) = self.open.pop_front()
        {
            let Some(known) = self.known.get_mut(&file) else { continue };
            if std::mem::take(&mut known.used) {
                self.open.push_back(file);
            } else {
                known.fd = None;
            }
        }
        while self.order.len() > KNOWN_MAX
            && let Some(file) = self.order.pop_front()
        {
            self.known.remove(&file);
        }
    }

    /// A file is gone.
    pub(super) fn forget(&mut self, file: Identity) {
        self.known.remove(&file);
    }

    pub(super) fn set_verifier(&mut self, file: Identity, verifier: Option<[u8; 8]>) {
        if let Some(known) = self.known.get_mut(&file) {
            known.verifier = verifier;
        }
    }

    pub(super) fn verifier(&self, file: Identity) -> Option<[u8; 8]> {
        self.known.get(&file)?.verifier
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
