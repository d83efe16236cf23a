//! A guest: the memory that it shares, and its driver's side of the queues.

use onego_export::vhost_user::codec::{MemoryRange, RingAddresses};
use onego_guest_memory::Window;
use onego_testkit::{signal, take_signals};
use rand::Rng as _;
use rand::rngs::SmallRng;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// Where the front end has the guest's memory, which begins at address 0 of the guest.
const USER: u64 = 1 << 40;
/// Bytes of a queue: its rings, and then a slot for each request.
const QUEUE_SPACE: u64 = RINGS + SLOTS as u64 * SLOT;
const RINGS: u64 = 4096;
/// Where a ring of at most 32 descriptors has its parts.
const AVAILABLE: u64 = 1024;
const USED: u64 = 2048;
/// Requests of a queue that are in flight, and bytes of each: a header, a status, a table of descriptors, data.
const SLOTS: usize = 12;
const SLOT: u64 = 40 << 10;
const STATUS: u64 = 64;
const TABLE: u64 = 128;
const DATA: u64 = 4096;
/// Pieces that data is cut to at most.
const PIECES: usize = 6;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// What the driver makes use of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DriverOptions {
    pub(crate) queue_size: u16,
    pub(crate) event_index: bool,
    pub(crate) indirect: bool,
}

/// Memory and queues.
pub(crate) struct Guest {
    pub(crate) options: DriverOptions,
    pub(crate) memory: Window,
    pub(crate) file: OwnedFd,
    pub(crate) queues: Vec<DriverQueue>,
}

/// The driver's side of a queue.
pub(crate) struct DriverQueue {
    /// Where its space begins.
    at: u64,
    pub(crate) kick: OwnedFd,
    pub(crate) call: OwnedFd,
    free: Vec<u16>,
    slots: Vec<u64>,
    /// By first descriptor.
    chains: BTreeMap<u16, Chain>,
    /// Chains that were made available, and those that the device may know of.
    available: u16,
    announced: u16,
    /// Chains that the driver has taken back.
    pub(crate) used: u16,
}

/// A request in the queue.
struct Chain {
    descriptors: Vec<u16>,
    slot: u64,
    /// Bytes that the device is to write, without the status.
    reads: usize,
}

/// A range of the guest's memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GuestSpan {
    pub(crate) address: u64,
    pub(crate) length: u32,
    pub(crate) flags: u16,
    pub(crate) next: u16,
}

/// What a request moves.
pub(crate) enum Data {
    /// To the device.
    Out(Vec<u8>),
    /// From the device: that many bytes.
    In(usize),
}

/// A request that has come back.
pub(crate) struct UsedRequest {
    pub(crate) head: u16,
    pub(crate) status: u8,
    /// What the device has written before the status.
    pub(crate) data: Vec<u8>,
}

impl GuestSpan {
    fn encode(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.length.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.flags.to_le_bytes());
        bytes[14..].copy_from_slice(&self.next.to_le_bytes());
        bytes
    }
}

impl Guest {
    pub(crate) fn new(options: DriverOptions, queues: usize) -> Self {
        let (file, memory) = Window::create("guest", queues as u64 * QUEUE_SPACE).unwrap();
        let queues =
            (0..queues as u64).map(|n| DriverQueue::new(n * QUEUE_SPACE, options.queue_size)).collect();
        Self { options, memory, file, queues }
    }

    /// Its memory in two ranges, whose border is in the data of a request.
    pub(crate) fn regions(&self) -> Vec<MemoryRange> {
        let (whole, border) = (self.memory.len() as u64, RINGS + 5 * SLOT + DATA + 700);
        [(0, border), (border, whole - border)]
            .map(|(guest, length)| MemoryRange { guest, length, user: USER + guest, offset: guest })
            .to_vec()
    }

    pub(crate) fn ring(&self, queue: usize) -> RingAddresses {
        let at = USER + self.queues[queue].at;
        RingAddresses { descriptors: at, available: at + AVAILABLE, used: at + USED }
    }

    fn put(&self, address: u64, bytes: &[u8]) {
        self.memory.write(address as usize, bytes);
    }

    fn get(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory.read(address as usize, &mut bytes);
        bytes
    }

    fn word(&self, address: u64) -> u16 {
        self.memory.load_u16(address as usize)
    }

    fn set_word(&self, address: u64, value: u16) {
        self.memory.store_u16(address as usize, value);
    }

    pub(crate) fn descriptor(&self, queue: usize, index: u16, piece: GuestSpan) {
        self.put(self.queues[queue].at + 16 * u64::from(index), &piece.encode());
    }

    /// Requests of a queue that are in flight.
    pub(crate) fn in_flight(&self, queue: usize) -> usize {
        self.queues[queue].chains.len()
    }

    /// Is there room for a request, however it is cut?
    pub(crate) fn has_room(&self, queue: usize) -> bool {
        let queue = &self.queues[queue];
        !queue.slots.is_empty() && queue.free.len() >= 3
    }

    /// Makes a request available: its first descriptor. The device knows of it once it is [announced](Self::announce).
    pub(crate) fn offer(
        &mut self,
        random: &mut SmallRng,
        queue: usize,
        kind: u32,
        sector: u64,
        data: &Data,
    ) -> u16 {
        let slot = self.queues[queue].slots.pop().expect("there is room");
        self.put(slot, &[&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat());
        self.put(slot + STATUS, &[0xff]);
        let (length, reads, flags) = match data {
            Data::Out(bytes) => {
                self.put(slot + DATA, bytes);
                (bytes.len(), 0, 0)
            }
            Data::In(length) => {
                self.put(slot + DATA, &vec![0xee; *length]);
                (*length, *length, WRITE)
            }
        };
        let free = self.queues[queue].free.len();
        let in_table = self.options.indirect && random.random_bool(0.5);
        let most = if in_table { PIECES } else { PIECES.min(free - 2) };
        let mut pieces = vec![GuestSpan { address: slot, length: 16, flags: 0, next: 0 }];
        pieces.extend(cut(random, slot + DATA, length, most).map(|(address, length)| GuestSpan {
            address,
            length,
            flags,
            next: 0,
        }));
        pieces.push(GuestSpan { address: slot + STATUS, length: 1, flags: WRITE, next: 0 });
        let descriptors = self.link(queue, in_table.then_some(slot + TABLE), pieces);
        let head = descriptors[0];
        self.make_available(queue, head);
        self.queues[queue].chains.insert(head, Chain { descriptors, slot, reads });
        head
    }

    /// Writes pieces as a chain of free descriptors, or as a table at an address that one descriptor names.
    fn link(&mut self, queue: usize, table: Option<u64>, mut pieces: Vec<GuestSpan>) -> Vec<u16> {
        if let Some(address) = table {
            let last = pieces.len() - 1;
            for (n, piece) in pieces.iter_mut().enumerate() {
                let more = if n < last { NEXT } else { 0 };
                *piece = GuestSpan { flags: piece.flags | more, next: n as u16 + 1, ..*piece };
                self.put(address + 16 * n as u64, &piece.encode());
            }
            pieces = vec![GuestSpan { address, length: 16 * pieces.len() as u32, flags: INDIRECT, next: 0 }];
        }
        let free = &mut self.queues[queue].free;
        let descriptors = free.split_off(free.len() - pieces.len());
        for (n, piece) in pieces.into_iter().enumerate() {
            let next = descriptors.get(n + 1);
            let flags = piece.flags | if next.is_some() { NEXT } else { 0 };
            let next = next.copied().unwrap_or(0);
            self.descriptor(queue, descriptors[n], GuestSpan { flags, next, ..piece });
        }
        descriptors
    }

    pub(crate) fn make_available(&mut self, queue: usize, head: u16) {
        let place = u64::from(self.queues[queue].available % self.options.queue_size);
        let at = self.queues[queue].at + AVAILABLE;
        self.put(at + 4 + 2 * place, &head.to_le_bytes());
        self.queues[queue].available = self.queues[queue].available.wrapping_add(1);
        self.set_word(at + 2, self.queues[queue].available);
    }

    /// Says that more is available, if the device wants to know (virtio 2.7.7, 2.7.10). `true`: it did.
    pub(crate) fn announce(&mut self, queue: usize) -> bool {
        let size = u64::from(self.options.queue_size);
        let used = self.queues[queue].at + USED;
        let DriverQueue { available, announced, .. } = self.queues[queue];
        let wants = if self.options.event_index {
            let event = self.word(used + 4 + 8 * size);
            available.wrapping_sub(event).wrapping_sub(1) < available.wrapping_sub(announced)
        } else {
            available != announced && self.word(used) & 1 == 0
        };
        self.queues[queue].announced = available;
        if wants {
            signal(&self.queues[queue].kick);
        }
        wants
    }

    /// Was the driver told that something is used?
    pub(crate) fn was_called(&self, queue: usize) -> bool {
        take_signals(&self.queues[queue].call) > 0
    }

    /// Asks to be told when one more chain than `skip` is used. `true`: something is used already.
    pub(crate) fn want_call(&self, queue: usize, skip: u16) -> bool {
        let queue = &self.queues[queue];
        if self.options.event_index {
            let event = queue.used.wrapping_add(skip);
            self.set_word(queue.at + AVAILABLE + 4 + 2 * u64::from(self.options.queue_size), event);
        }
        self.word(queue.at + USED + 2) != queue.used
    }

    /// Takes the next request back that is used.
    pub(crate) fn take_used(&mut self, queue: usize) -> Option<UsedRequest> {
        let at = self.queues[queue].at + USED;
        let used = self.queues[queue].used;
        if self.word(at + 2) == used {
            return None;
        }
        let entry = self.get(at + 4 + 8 * u64::from(used % self.options.queue_size), 8);
        let head = u16::from_le_bytes([entry[0], entry[1]]);
        assert_eq!(entry[2..4], [0, 0]);
        let written = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]) as usize;
        let state = &mut self.queues[queue];
        state.used = used.wrapping_add(1);
        let chain = state.chains.remove(&head).expect("a chain that is in flight comes back, once");
        state.free.extend(chain.descriptors);
        state.slots.push(chain.slot);
        let status = self.get(chain.slot + STATUS, 1)[0];
        let data = self.get(chain.slot + DATA, chain.reads);
        assert!(written == 1 || written == chain.reads + 1, "{written} bytes are said to be written");
        assert!(status != 0 || written == chain.reads + 1, "a read is not whole, and said to be");
        Some(UsedRequest { head, status, data })
    }

    /// Says that `count` more are available than there are.
    pub(crate) fn overstate(&mut self, queue: usize, count: u16) {
        let state = &self.queues[queue];
        self.set_word(state.at + AVAILABLE + 2, state.available.wrapping_add(count));
    }

    /// Where a request of a liar has its memory: a header of that type and sector, and data behind it.
    pub(crate) fn lie(&self, queue: usize, kind: u32, sector: u64, data: &[u8]) -> (u64, u64, u64) {
        let slot = self.queues[queue].at + RINGS;
        self.put(slot, &[&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat());
        self.put(slot + DATA, data);
        (slot, slot + DATA, slot + STATUS)
    }
}

impl DriverQueue {
    fn new(at: u64, size: u16) -> Self {
        let event = || eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap();
        Self {
            at,
            kick: event(),
            call: event(),
            free: (0..size).rev().collect(),
            slots: (0..SLOTS as u64).map(|n| at + RINGS + n * SLOT).collect(),
            chains: BTreeMap::new(),
            available: 0,
            announced: 0,
            used: 0,
        }
    }
}

/// Cuts a range to at most that many pieces, at any places.
fn cut(
    random: &mut SmallRng,
    at: u64,
    length: usize,
    most: usize,
) -> impl Iterator<Item = (u64, u32)> + use<> {
    let pieces = if length == 0 { 0 } else { random.random_range(1..=most.min(length)) };
    let mut cuts: Vec<usize> = (1..pieces).map(|_| random.random_range(0..=length)).collect();
    cuts.sort_unstable();
    if pieces > 0 {
        cuts.push(length);
    }
    let mut from = 0;
    cuts.into_iter().map(move |to| {
        let piece = (at + from as u64, (to - from) as u32);
        from = to;
        piece
    })
}
