//! What a request changes, as something that can be done again elsewhere: on the other OSDs of a placement group, and
//! after a restart.
//!
//! A request is carried out once, by the primary, through an [`Editor`] that notes each change. What depends on time,
//! on who asks, or on what an object is, has been decided by then: to apply a [`Transaction`] needs none of it and
//! cannot fail. Source of the idea: ceph `src/os/Transaction.h`, `src/osd/osd_types.h` (`pg_log_entry_t`).

use super::duplicates::Done;
use super::store::Name;
use super::store::object::State;
use onego_buf::{List, Segment};
use onego_ceph::types::{EVersion, PgId, ReqId, Utime};
use std::ops::Deref;

/// One change to an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Mutation {
    Create,
    Delete,
    Write {
        offset: u64,
        data: List,
    },
    GrowTo {
        size: u64,
    },
    Truncate {
        size: u64,
    },
    Zero {
        offset: u64,
        len: u64,
    },
    SetXattr {
        name: Vec<u8>,
        value: Vec<u8>,
    },
    RemoveXattr {
        name: Vec<u8>,
    },
    OmapSet {
        key: Vec<u8>,
        value: Vec<u8>,
    },
    OmapRemove {
        key: Vec<u8>,
    },
    OmapRemoveRange {
        from: Vec<u8>,
        to: Vec<u8>,
    },
    OmapSetHeader {
        header: Vec<u8>,
    },
    OmapClear,
    Stamp {
        version: u64,
    },
    Touch {
        mtime: Utime,
    },
    /// A clone is made of what the object is.
    MakeClone {
        id: u64,
        snaps: Vec<u64>,
    },
    /// The newest snapshot that writes knew of.
    SnapSeq {
        seq: u64,
    },
    /// The object becomes what a clone is.
    RollBack {
        id: u64,
    },
    /// Snapshots are gone.
    Trim {
        snaps: Vec<u64>,
    },
}

/// All that a write, or what an OSD does to an object by itself, does to a placement group.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    pub(crate) pg: PgId,
    pub(crate) object: Name,
    /// The group's version from then on; none: nothing has changed, there is but an outcome to remember.
    pub(crate) version: Option<EVersion>,
    pub(crate) mutations: Vec<Mutation>,
    /// The request and what became of it; none: no client asked for this.
    pub(crate) outcome: Option<(ReqId, Done)>,
}

/// An object that is being changed.
pub(crate) struct Editor<'a> {
    state: &'a mut State,
    /// What was done. `None`: it is not noted.
    notes: Option<&'a mut Vec<Mutation>>,
}

impl Deref for Editor<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        self.state
    }
}

impl<'a> Editor<'a> {
    pub(crate) fn new(state: &'a mut State, notes: Option<&'a mut Vec<Mutation>>) -> Self {
        Self { state, notes }
    }

    /// The same, for a while.
    pub(crate) fn reborrow(&mut self) -> Editor<'_> {
        Editor { state: self.state, notes: self.notes.as_deref_mut() }
    }

    #[inline]
    fn note(&mut self, mutation: impl FnOnce() -> Mutation) {
        if let Some(notes) = &mut self.notes {
            notes.push(mutation());
        }
    }

    /// Nothing of what was done counts: the object is what it was before.
    pub(crate) fn undo(&mut self, before: State) {
        *self.state = before;
        if let Some(notes) = &mut self.notes {
            notes.clear();
        }
    }

    pub(crate) fn create(&mut self) {
        if !self.state.exists {
            self.note(|| Mutation::Create);
            self.state.create();
        }
    }

    pub(crate) fn delete(&mut self) {
        self.note(|| Mutation::Delete);
        self.state.delete();
    }

    pub(crate) fn write(&mut self, offset: u64, data: List) {
        self.note(|| Mutation::Write { offset, data: data.clone() });
        self.state.write(offset, data);
    }

    pub(crate) fn grow_to(&mut self, size: u64) {
        self.note(|| Mutation::GrowTo { size });
        self.state.grow_to(size);
    }

    pub(crate) fn truncate(&mut self, size: u64) {
        self.note(|| Mutation::Truncate { size });
        self.state.truncate(size);
    }

    pub(crate) fn zero(&mut self, offset: u64, len: u64) {
        self.note(|| Mutation::Zero { offset, len });
        self.state.zero(offset, len);
    }

    pub(crate) fn set_xattr(&mut self, name: Vec<u8>, value: Vec<u8>) {
        self.note(|| Mutation::SetXattr { name: name.clone(), value: value.clone() });
        self.state.set_xattr(name, value);
    }

    pub(crate) fn remove_xattr(&mut self, name: &[u8]) {
        self.note(|| Mutation::RemoveXattr { name: name.to_owned() });
        self.state.remove_xattr(name);
    }

    pub(crate) fn omap_set(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.note(|| Mutation::OmapSet { key: key.clone(), value: value.clone() });
        self.state.omap_set(key, value);
    }

    pub(crate) fn omap_remove(&mut self, key: &[u8]) {
        self.note(|| Mutation::OmapRemove { key: key.to_vec() });
        self.state.omap_remove(key);
    }

    pub(crate) fn omap_remove_range(&mut self, from: &[u8], to: &[u8]) {
        self.note(|| Mutation::OmapRemoveRange { from: from.to_vec(), to: to.to_vec() });
        self.state.omap_remove_range(from, to);
    }

    pub(crate) fn omap_set_header(&mut self, header: Vec<u8>) {
        self.note(|| Mutation::OmapSetHeader { header: header.clone() });
        self.state.omap_set_header(header);
    }

    pub(crate) fn omap_clear(&mut self) {
        self.note(|| Mutation::OmapClear);
        self.state.omap_clear();
    }

    /// Makes the object what `source` is now. Its clones stay, and so do the snapshots that it knows of.
    pub(crate) fn copy(&mut self, source: &State, zeros: &Segment) {
        self.delete();
        self.create();
        for (offset, len) in source.runs(0, source.size) {
            self.write(offset, source.read(offset, len, zeros));
        }
        self.grow_to(source.size);
        let meta = source.meta();
        meta.xattrs().iter().for_each(|(name, value)| self.set_xattr(name.clone(), value.clone()));
        meta.omap().iter().for_each(|(key, value)| self.omap_set(key.clone(), value.clone()));
        if !meta.header().is_empty() {
            self.omap_set_header(meta.header().to_owned());
        }
    }

    pub(crate) fn make_clone(&mut self, id: u64, snaps: Vec<u64>) {
        self.note(|| Mutation::MakeClone { id, snaps: snaps.clone() });
        self.state.make_clone(id, snaps);
    }

    /// A write knew of this snapshot.
    pub(crate) fn set_snap_seq(&mut self, seq: u64) {
        self.note(|| Mutation::SnapSeq { seq });
        self.state.snap_seq = seq;
    }

    /// These snapshots are gone.
    pub(crate) fn trim(&mut self, snaps: Vec<u64>) {
        self.state.trim(&snaps);
        self.note(|| Mutation::Trim { snaps });
    }

    pub(crate) fn roll_back(&mut self, id: u64) {
        self.note(|| Mutation::RollBack { id });
        self.state.roll_back(id);
    }

    /// The object has this version now.
    pub(crate) fn stamp(&mut self, version: u64) {
        self.note(|| Mutation::Stamp { version });
        self.state.version = version;
    }

    /// The object was changed at this time.
    pub(crate) fn touch(&mut self, mtime: Utime) {
        self.note(|| Mutation::Touch { mtime });
        self.state.mtime = mtime;
    }
}

impl State {
    /// Does again what an [`Editor`] has noted.
    pub(crate) fn apply(&mut self, mutation: &Mutation) {
        match mutation {
            Mutation::Create => self.create(),
            Mutation::Delete => self.delete(),
            Mutation::Write { offset, data } => self.write(*offset, data.clone()),
            Mutation::GrowTo { size } => self.grow_to(*size),
            Mutation::Truncate { size } => self.truncate(*size),
            Mutation::Zero { offset, len } => self.zero(*offset, *len),
            Mutation::SetXattr { name, value } => self.set_xattr(name.clone(), value.clone()),
            Mutation::RemoveXattr { name } => self.remove_xattr(name),
            Mutation::OmapSet { key, value } => self.omap_set(key.clone(), value.clone()),
            Mutation::OmapRemove { key } => self.omap_remove(key),
            Mutation::OmapRemoveRange { from, to } => self.omap_remove_range(from, to),
            Mutation::OmapSetHeader { header } => self.omap_set_header(header.clone()),
            Mutation::OmapClear => self.omap_clear(),
            Mutation::Stamp { version } => self.version = *version,
            Mutation::Touch { mtime } => self.mtime = *mtime,
            Mutation::MakeClone { id, snaps } => self.make_clone(*id, snaps.clone()),
            Mutation::SnapSeq { seq } => self.snap_seq = *seq,
            Mutation::RollBack { id } => self.roll_back(*id),
            Mutation::Trim { snaps } => self.trim(snaps),
        }
    }
}
