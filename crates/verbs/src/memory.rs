//! Memory for work: what the device reads messages from, and puts them into.
//!
//! To register memory is a system call that pins its pages. Blocks of a [registrable](onego_buf::Pool::registrable) pool
//! are cut from slabs, each of which is registered once; other memory is registered for the one piece of work that has it.

use crate::ffi::*;
use crate::objects::{Domain, Region};
use libc::c_int;
use onego_buf::{List, Segment, SegmentMut, Slab};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// Slabs that one connection has registered, at the most: 512 MiB of usual ones.
const SLABS: usize = 256;

/// What work has registered for itself.
pub(crate) type Regions = SmallVec<[Region; 1]>;

/// A list of pieces for the device.
pub(crate) type Pieces = SmallVec<[ibv_sge; 8]>;

/// Memory that the device knows.
#[derive(Debug)]
pub(crate) struct Memories {
    domain: Arc<Domain>,
    /// By the names of slabs. A slab may be gone, and its pages are pinned all the same, until this goes.
    slabs: HashMap<u64, Region>,
    /// As many of them as there may be.
    most: usize,
    is_iwarp: bool,
}

impl Memories {
    pub(crate) fn new(domain: Arc<Domain>, is_iwarp: bool) -> Self {
        Self { domain, slabs: HashMap::new(), most: SLABS, is_iwarp }
    }

    /// The pieces of what is to be sent, at most `most` of them: what is in more lies in one copy behind the others.
    pub(crate) fn list(&mut self, bytes: &mut List, most: usize) -> io::Result<(Pieces, Regions)> {
        if bytes.segments().len() > most {
            let kept = bytes.segments().take(most - 1).map(|segment| segment.len()).sum();
            let rest = bytes.split_to(kept);
            let copied = Segment::from(bytes.to_vec());
            *bytes = rest;
            bytes.push(copied);
        }
        let (mut pieces, mut regions) = (Pieces::new(), Regions::new());
        for segment in bytes.segments() {
            pieces.push(self.piece(segment, segment.slab(), 0, &mut regions)?);
        }
        Ok((pieces, regions))
    }

    /// The piece of what a message of the peer is to be put into.
    pub(crate) fn buffer(&mut self, buffer: &mut SegmentMut) -> io::Result<(ibv_sge, Regions)> {
        self.sink_with(buffer, IBV_ACCESS_LOCAL_WRITE)
    }

    /// The piece of what an RDMA Read is to fill. With iWARP it is memory that the peer writes: there a slab must not be
    /// registered as a whole.
    pub(crate) fn sink(&mut self, sink: &mut SegmentMut) -> io::Result<(ibv_sge, Regions)> {
        let remote = if self.is_iwarp { IBV_ACCESS_REMOTE_WRITE } else { 0 };
        self.sink_with(sink, IBV_ACCESS_LOCAL_WRITE | remote)
    }

    fn sink_with(&mut self, sink: &mut SegmentMut, access: c_int) -> io::Result<(ibv_sge, Regions)> {
        let mut regions = Regions::new();
        let slab = sink.slab().filter(|_| access == IBV_ACCESS_LOCAL_WRITE).cloned();
        // Through the exclusive reference: the device writes there.
        let bytes = &mut **sink;
        let piece = self.piece(bytes, slab.as_ref(), access, &mut regions)?;
        Ok((ibv_sge { addr: bytes.as_mut_ptr().expose_provenance() as u64, ..piece }, regions))
    }

    fn piece(
        &mut self,
        bytes: &[u8],
        slab: Option<&Arc<Slab>>,
        access: c_int,
        regions: &mut Regions,
    ) -> io::Result<ibv_sge> {
        let lkey = match slab.and_then(|slab| self.slab(slab)) {
            Some(key) => key,
            None if bytes.is_empty() => 0,
            None => {
                // SAFETY: the peer gets at it only where the caller asked for that, for a sink: then work holds both, and
                // nobody else touches the sink until it is complete.
                let region = unsafe { Region::new(&self.domain, bytes.as_ptr(), bytes.len(), access)? };
                let key = region.local_key();
                regions.push(region);
                key
            }
        };
        let addr = bytes.as_ptr().expose_provenance() as u64;
        Ok(ibv_sge { addr, length: bytes.len() as u32, lkey })
    }

    /// The key of a slab; none if there are too many of them, or if so much memory may not be pinned.
    fn slab(&mut self, slab: &Arc<Slab>) -> Option<u32> {
        if let Some(region) = self.slabs.get(&slab.id()) {
            return Some(region.local_key());
        }
        if self.slabs.len() >= self.most {
            return None;
        }
        // SAFETY: the peer has no rights to it.
        match unsafe { Region::new(&self.domain, slab.as_ptr(), slab.len(), IBV_ACCESS_LOCAL_WRITE) } {
            Ok(region) => {
                let key = region.local_key();
                self.slabs.insert(slab.id(), region);
                Some(key)
            }
            Err(error) => {
                tracing::warn!(%error, "RDMA costs more: no more memory can be registered at once (see `ulimit -l`)");
                self.most = self.slabs.len();
                None
            }
        }
    }
}
