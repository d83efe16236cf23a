//! Memory for work, which the device reads messages from and writes them to.
//!
//! Registering memory is a system call that pins its pages. Blocks of a [registrable](onego_buf::Pool::registrable)
//! pool are cut from slabs, each of which is registered once; other memory is registered for one piece of work.

use crate::ffi::*;
use crate::objects::{Domain, Region};
use libc::c_int;
use onego_buf::{List, Segment, SegmentMut, Slab};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// Maximum number of slabs that a connection registers: 512 MiB of the usual size.
const SLABS: usize = 256;

pub(crate) type Regions = SmallVec<[Region; 1]>;

pub(crate) type Pieces = SmallVec<[ibv_sge; 8]>;

/// Memory registered with the device.
#[derive(Debug)]
pub(crate) struct Memories {
    domain: Arc<Domain>,
    /// Registrations by the ids of slabs. They pin a slab's pages until this value is dropped, even if the slab is
    /// gone.
    slabs: HashMap<u64, Region>,
    most: usize,
    is_iwarp: bool,
}

impl Memories {
    pub(crate) fn new(domain: Arc<Domain>, is_iwarp: bool) -> Self {
        Self { domain, slabs: HashMap::new(), most: SLABS, is_iwarp }
    }

    /// Returns the pieces of a list to send, at most `most`: further segments are copied into the last piece.
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

    pub(crate) fn buffer(&mut self, buffer: &mut SegmentMut) -> io::Result<(ibv_sge, Regions)> {
        self.sink_with(buffer, IBV_ACCESS_LOCAL_WRITE)
    }

    /// Returns the piece that an RDMA Read fills. With iWARP the peer writes it, so a slab must not be registered as a
    /// whole.
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
                // SAFETY: the peer has access only where the caller requested it, for a sink: then the work holds both,
                // and the sink is not used otherwise until the work is complete.
                let region = unsafe { Region::new(&self.domain, bytes.as_ptr(), bytes.len(), access)? };
                let key = region.local_key();
                regions.push(region);
                key
            }
        };
        let addr = bytes.as_ptr().expose_provenance() as u64;
        Ok(ibv_sge { addr, length: bytes.len() as u32, lkey })
    }

    /// Returns the key of a slab; `None` if there are too many, or if no more memory may be pinned.
    fn slab(&mut self, slab: &Arc<Slab>) -> Option<u32> {
        if let Some(region) = self.slabs.get(&slab.id()) {
            return Some(region.local_key());
        }
        if self.slabs.len() >= self.most {
            return None;
        }
        // SAFETY: the peer has no access rights.
        match unsafe { Region::new(&self.domain, slab.as_ptr(), slab.len(), IBV_ACCESS_LOCAL_WRITE) } {
            Ok(region) => {
                let key = region.local_key();
                self.slabs.insert(slab.id(), region);
                Some(key)
            }
            Err(error) => {
                tracing::warn!(%error, "cannot register a whole slab of memory (see `ulimit -l`): RDMA costs more");
                self.most = self.slabs.len();
                None
            }
        }
    }
}
