//! The virtio block device: its features, its configuration, and its requests (virtio 5.2).

use super::error::QueueError;
use super::features::virtio;
use super::limits::{DISCARD_SECTORS_MAX, SEGMENTS_MAX};
use super::queue::{Chain, Span};
use onego_block::{Device, Flags, Geometry, Null, Op};
use onego_buf::{List, Pool};
use onego_guest_memory::GuestMemory;
use smallvec::SmallVec;
use std::rc::Rc;

/// Bytes of a sector, whatever the blocks of the device are.
pub(super) const SECTOR: u64 = 512;

/// Bytes of the configuration space up to the last field that is known here.
const CONFIGURATION_LEN: usize = 60;
/// Where the configuration has the byte that says whether writes may be cached.
pub(super) const WRITE_CACHE_AT: u32 = 32;

/// Bytes of a request's header (virtio 5.2.6): type, reserved, sector.
const HEADER_LEN: usize = 16;
/// Bytes of a range to be discarded or made zeros: sector, sectors, flags.
const RANGE_LEN: u64 = 16;
/// The flag of such a range that space may be freed.
const UNMAP: u32 = 1;
/// Bytes of the device's name.
const ID_LEN: usize = 20;

/// A disk to be served.
#[derive(Clone)]
pub struct Disk {
    /// The device. Its size may change while it is served: the guest is told.
    pub device: Rc<dyn Device>,
    /// The guest may not change it.
    pub read_only: bool,
    /// What the guest sees as the disk's serial number: its first 20 bytes.
    pub serial: String,
    /// Most queues that the guest may use, from 1 to 64.
    pub queues: u16,
}

/// The last byte of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Ok = 0,
    Failed = 1,
    Unsupported = 2,
}

/// What is to be done for a request.
#[derive(Debug)]
pub(super) enum Task {
    /// The device carries it out.
    Submit { offset: u64, op: Op, flags: Flags },
    /// The name of the disk is written, and that is all.
    Id,
    /// It ends here.
    Refuse(Status),
}

/// A request of a guest.
#[derive(Debug)]
pub(super) struct DiskRequest {
    pub(super) task: Task,
    /// Where the status goes.
    pub(super) status: u64,
    /// Where data for the guest goes.
    pub(super) into: SmallVec<[Span; 4]>,
}

impl Disk {
    /// What a server has until it serves a disk.
    pub(super) fn empty() -> Self {
        let device = Rc::new(Null::new(Geometry::new(0)));
        Self { device, read_only: true, serial: String::new(), queues: 1 }
    }

    /// What the device is for the guest.
    pub(super) fn geometry(&self) -> Geometry {
        let mut geometry = self.device.geometry();
        geometry.read_only |= self.read_only;
        geometry
    }

    /// What the guest may use (virtio 5.2.3).
    pub(super) fn features(&self) -> u64 {
        let geometry = self.geometry();
        let mut features = virtio::VERSION_1
            | virtio::INDIRECT_DESC
            | virtio::EVENT_IDX
            | virtio::PROTOCOL_FEATURES
            | virtio::SEG_MAX
            | virtio::BLK_SIZE
            | virtio::TOPOLOGY
            | virtio::FLUSH
            | virtio::CONFIG_WCE
            | virtio::MQ;
        if geometry.read_only {
            features |= virtio::RO;
        } else {
            features |= virtio::WRITE_ZEROES;
            if geometry.trim_granularity.is_some() {
                features |= virtio::DISCARD;
            }
        }
        features
    }

    /// The configuration space (virtio 5.2.4).
    pub(super) fn configuration(&self, write_cache: bool) -> [u8; CONFIGURATION_LEN] {
        let geometry = self.geometry();
        let block = u64::from(geometry.block).max(SECTOR);
        let per_preferred = (u64::from(geometry.preferred) / block).max(1);
        let mut space = [0; CONFIGURATION_LEN];
        let mut put = |at: usize, bytes: &[u8]| space[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &(geometry.size / SECTOR).to_le_bytes());
        put(12, &SEGMENTS_MAX.to_le_bytes());
        put(20, &(block as u32).to_le_bytes());
        put(24, &[per_preferred.ilog2() as u8]);
        put(26, &(per_preferred.min(u16::MAX.into()) as u16).to_le_bytes());
        put(28, &((geometry.boundary.unwrap_or_default() / block) as u32).to_le_bytes());
        put(WRITE_CACHE_AT as usize, &[u8::from(write_cache)]);
        put(34, &self.queues.to_le_bytes());
        // One range a request, each of which may begin anywhere.
        let granularity = u64::from(geometry.trim_granularity.unwrap_or(1)).max(block) / SECTOR;
        put(36, &DISCARD_SECTORS_MAX.to_le_bytes());
        put(40, &1_u32.to_le_bytes());
        put(44, &(granularity as u32).to_le_bytes());
        put(48, &DISCARD_SECTORS_MAX.to_le_bytes());
        put(52, &1_u32.to_le_bytes());
        put(56, &[1]);
        space
    }

    /// The name of the disk, as a request asks for it.
    pub(super) fn id(&self) -> [u8; ID_LEN] {
        let mut id = [0; ID_LEN];
        let length = self.serial.len().min(ID_LEN);
        id[..length].copy_from_slice(&self.serial.as_bytes()[..length]);
        id
    }
}

impl DiskRequest {
    /// Reads a request: the data of a write is copied, so that what is sent and summed up cannot change any more. An error:
    /// there is nowhere to put the status. `durable`: a write has to be when it completes.
    pub(super) fn read(
        mut chain: Chain,
        memory: &GuestMemory,
        disk: &Disk,
        pool: &Pool,
        durable: bool,
    ) -> Result<Self, QueueError> {
        let status = take_status(&mut chain.writable, memory).ok_or(QueueError::NoStatus)?;
        let task = task(&chain, memory, disk, pool, durable).unwrap_or_else(Task::Refuse);
        Ok(Self { task, status, into: chain.writable })
    }
}

/// The last byte that the device may write.
fn take_status(writable: &mut SmallVec<[Span; 4]>, memory: &GuestMemory) -> Option<u64> {
    while writable.last()?.length == 0 {
        writable.pop();
    }
    let last = writable.last_mut()?;
    last.length -= 1;
    let status = last.address.checked_add(last.length.into())?;
    memory.contains(status, 1).then_some(status)
}

fn total(spans: &[Span]) -> u64 {
    spans.iter().map(|span| u64::from(span.length)).sum()
}

/// Copies bytes out of what the guest has given, beginning at the byte `skip` of it.
fn gather(memory: &GuestMemory, spans: &[Span], skip: u64, mut to: &mut [u8]) -> Result<(), Status> {
    let mut skip = skip;
    for span in spans {
        let length = u64::from(span.length);
        let here = (length.saturating_sub(skip)).min(to.len() as u64) as usize;
        let (now, later) = to.split_at_mut(here);
        if here > 0 {
            memory.read(span.address.wrapping_add(skip), now).map_err(|_| Status::Failed)?;
        }
        to = later;
        skip = skip.saturating_sub(length);
    }
    if to.is_empty() { Ok(()) } else { Err(Status::Failed) }
}

fn task(
    chain: &Chain,
    memory: &GuestMemory,
    disk: &Disk,
    pool: &Pool,
    durable: bool,
) -> Result<Task, Status> {
    let mut header = [0; HEADER_LEN];
    gather(memory, &chain.readable, 0, &mut header)?;
    let [a, b, c, d, _, _, _, _, sector @ ..] = header;
    let offset = || u64::from_le_bytes(sector).checked_mul(SECTOR).ok_or(Status::Failed);
    let geometry = disk.geometry();
    let flags = Flags { fua: durable, ..Flags::default() };
    match u32::from_le_bytes([a, b, c, d]) {
        0 => {
            let length = data_length(total(&chain.writable), &geometry)?;
            Ok(Task::Submit { offset: offset()?, op: Op::Read { length }, flags: Flags::default() })
        }
        1 => {
            let length = total(&chain.readable) - HEADER_LEN as u64;
            let length = data_length(length, &geometry)?;
            writable(&geometry)?;
            let mut data = pool.get(length as usize);
            gather(memory, &chain.readable, HEADER_LEN as u64, &mut data)?;
            let data = List::from(data.freeze());
            Ok(Task::Submit { offset: offset()?, op: Op::Write { data }, flags })
        }
        4 => Ok(Task::Submit { offset: 0, op: Op::Flush, flags: Flags::default() }),
        8 => Ok(Task::Id),
        kind @ (11 | 13) => {
            let (offset, length, range_flags) = range(chain, memory)?;
            writable(&geometry)?;
            let discard = kind == 11;
            if range_flags & !UNMAP != 0
                || (discard && (range_flags != 0 || geometry.trim_granularity.is_none()))
            {
                return Err(Status::Unsupported);
            }
            let op = if discard { Op::Trim { length } } else { Op::Zero { length } };
            let flags = Flags { no_hole: !discard && range_flags & UNMAP == 0, ..flags };
            Ok(Task::Submit { offset, op, flags })
        }
        _ => Err(Status::Unsupported),
    }
}

fn writable(geometry: &Geometry) -> Result<(), Status> {
    if geometry.read_only { Err(Status::Failed) } else { Ok(()) }
}

/// Bytes of a read or a write (virtio 5.2.6.1), if they are neither too many nor part of a sector.
fn data_length(length: u64, geometry: &Geometry) -> Result<u64, Status> {
    let is_good = length > 0 && length.is_multiple_of(SECTOR) && length <= geometry.max_io;
    if is_good { Ok(length) } else { Err(Status::Failed) }
}

/// The one range of a discard or of zeroes: its first byte, bytes, flags.
fn range(chain: &Chain, memory: &GuestMemory) -> Result<(u64, u64, u32), Status> {
    if total(&chain.readable) != HEADER_LEN as u64 + RANGE_LEN {
        return Err(Status::Failed);
    }
    let mut bytes = [0; RANGE_LEN as usize];
    gather(memory, &chain.readable, HEADER_LEN as u64, &mut bytes)?;
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes;
    let sector = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    let sectors = u32::from_le_bytes([i, j, k, l]);
    if sectors == 0 || sectors > DISCARD_SECTORS_MAX {
        return Err(Status::Failed);
    }
    let offset = sector.checked_mul(SECTOR).ok_or(Status::Failed)?;
    Ok((offset, u64::from(sectors) * SECTOR, u32::from_le_bytes([m, n, o, p])))
}
