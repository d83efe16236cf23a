//! What an image and its snapshots may show.

use super::history::{History, Moment, ZEROS};
use std::ops::Range;

/// Bytes of a block, which is written whole.
pub(crate) const BLOCK: u64 = 8 << 10;

/// Blocks of an image at most, in twelve objects, and when it is made.
pub(crate) const MAX_BLOCKS: usize = 96;
pub(crate) const FIRST_BLOCKS: usize = 64;

/// An image.
#[derive(Debug)]
pub(crate) struct ImageModel {
    pub(crate) name: String,
    pub(crate) blocks: Vec<History>,
    /// Its size in bytes.
    pub(crate) size: History,
    pub(crate) snapshots: Vec<SnapshotModel>,
    pub(crate) is_clone: bool,
    /// Clones between it and the first image.
    pub(crate) depth: usize,
    /// The client that became the owner of its lock last.
    pub(crate) owner: Option<u32>,
}

/// A snapshot, also one that is being made or that was removed.
#[derive(Debug)]
pub(crate) struct SnapshotModel {
    pub(crate) name: String,
    pub(crate) begun: Moment,
    /// It is known to be there.
    pub(crate) made: Option<Moment>,
    /// It is certain that it is not there, and never was.
    pub(crate) is_refused: bool,
    /// Somebody began to remove it.
    pub(crate) removal: Option<Moment>,
    pub(crate) is_removed: bool,
    /// Its size in bytes, and what its blocks show, once somebody has read them.
    pub(crate) size: Option<u64>,
    pub(crate) blocks: Vec<Option<u64>>,
}

impl SnapshotModel {
    pub(crate) fn new(name: String, begun: Moment) -> Self {
        Self {
            name,
            begun,
            made: None,
            is_refused: false,
            removal: None,
            is_removed: false,
            size: None,
            blocks: vec![None; MAX_BLOCKS],
        }
    }

    /// Is it there, for all that anybody knows?
    pub(crate) fn is_there(&self) -> bool {
        self.made.is_some() && self.removal.is_none()
    }

    /// What it shows, behind its end zeros, if all of it was read.
    pub(crate) fn content(&self) -> Option<(u64, Vec<u64>)> {
        let size = self.size?;
        let end = (size / BLOCK) as usize;
        let shown = self.blocks[..end].iter().copied().collect::<Option<Vec<u64>>>()?;
        let behind = vec![ZEROS; MAX_BLOCKS - end];
        Some((size, [shown, behind].concat()))
    }
}

impl ImageModel {
    /// An image of that size that shows these stamps.
    pub(crate) fn new(name: String, size: u64, stamps: &[u64], depth: usize, now: Moment) -> Self {
        Self {
            name,
            blocks: stamps.iter().map(|stamp| History::new(*stamp, now)).collect(),
            size: History::new(size, now),
            snapshots: Vec::new(),
            is_clone: depth > 0,
            depth,
            owner: None,
        }
    }

    /// All its histories.
    pub(crate) fn histories(&mut self) -> impl Iterator<Item = &mut History> {
        self.blocks.iter_mut().chain([&mut self.size])
    }

    /// Fails unless a read of blocks that lasted from `begun` to `now` may have given these bytes.
    pub(crate) fn check(
        &self,
        blocks: Range<usize>,
        bytes: &[u8],
        begun: Moment,
        now: Moment,
    ) -> Result<(), String> {
        for (block, stamp) in blocks.zip(stamps(bytes)?) {
            if !self.blocks[block].may_show(stamp, begun, now) {
                let history = &self.blocks[block];
                return Err(format!("block {block} of {} shows {stamp:#x}: {history:#x?}", self.name));
            }
        }
        Ok(())
    }

    /// Fails unless a snapshot may show these bytes, which it shows from now on.
    pub(crate) fn check_snapshot(&mut self, index: usize, bytes: &[u8]) -> Result<(), String> {
        let Self { name, blocks, size, snapshots, .. } = self;
        let snapshot = &mut snapshots[index];
        let made = snapshot.made.ok_or("it is not known to be there")?;
        let length = bytes.len() as u64;
        if snapshot.size.is_none() && size.may_show(length, snapshot.begun, made) {
            snapshot.size = Some(length);
        }
        if snapshot.size != Some(length) {
            return Err(format!("{name}@{} has {length} bytes: {snapshot:?}, {size:?}", snapshot.name));
        }
        for (block, stamp) in stamps(bytes)?.into_iter().enumerate() {
            let known = &mut snapshot.blocks[block];
            if known.is_none() && blocks[block].may_show(stamp, snapshot.begun, made) {
                *known = Some(stamp);
            }
            if *known != Some(stamp) {
                let (history, begun) = (&blocks[block], snapshot.begun);
                return Err(format!(
                    "block {block} of {name}@{}, made from {begun} to {made}, shows {stamp:#x} and not {known:#x?}: {history:#x?}",
                    snapshot.name
                ));
            }
        }
        Ok(())
    }
}

/// The stamps of blocks, each of which is whole.
fn stamps(bytes: &[u8]) -> Result<Vec<u64>, String> {
    let stamp_of = |block: &[u8]| {
        let stamp = u64::from_le_bytes(block[..8].try_into().expect("eight bytes"));
        let is_whole = block.chunks(8).all(|word| word == stamp.to_le_bytes());
        is_whole.then_some(stamp).ok_or_else(|| format!("a block with {stamp:#x} is torn"))
    };
    bytes.chunks(BLOCK as usize).map(stamp_of).collect()
}
