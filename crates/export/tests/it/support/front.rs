//! A front end of vhost-user and the driver of its guest, on the test's thread, and the server that both use.

use onego_block::Device;
use onego_engine::{Epoll, Pump, Wait};
use onego_export::vhost_user::{Disk, DiskServer};
use onego_guest_memory::Window;
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::rc::Rc;

/// Bytes of the guest's memory. It begins at address 0 of the guest.
pub(crate) const MEMORY: u64 = 8 << 20;
/// Where the front end has it.
const USER: u64 = 1 << 40;
pub(crate) const QUEUE_SIZE: u16 = 16;
/// Bytes of a queue's rings.
const RINGS: u64 = 4096;
/// Where data begins.
pub(crate) const DATA: u64 = 1 << 20;

pub(crate) const NEXT: u16 = 1;
pub(crate) const WRITE: u16 = 2;
pub(crate) const INDIRECT: u16 = 4;

pub(crate) const FEATURES: u64 =
    (1 << 32) | (1 << 30) | (1 << 28) | (1 << 14) | (1 << 13) | (1 << 12) | (1 << 11) | (1 << 9);

/// A server of a disk, on a path that is removed at once.
pub(crate) struct Served {
    pub(crate) pump: Pump<Epoll, DiskServer>,
    path: std::path::PathBuf,
}

impl Served {
    pub(crate) fn new(device: Rc<dyn Device>) -> Self {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("onego-vhost-{}-{count}.sock", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let mut server = DiskServer::default();
        let disk = Disk { device, read_only: false, serial: "a disk".into(), queues: 2 };
        server.serve(disk, listener.into()).unwrap();
        let mut pump = Pump::new(Epoll::open().unwrap(), server);
        pump.turn(Wait::Poll).unwrap();
        Self { pump, path }
    }

    pub(crate) fn connect(&mut self) -> UnixStream {
        UnixStream::connect(&self.path).unwrap()
    }

    /// Does what there is to do.
    pub(crate) fn turn(&mut self) {
        for _ in 0..20 {
            self.pump.turn(Wait::Poll).unwrap();
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A guest: what stays when its server goes.
pub(crate) struct GuestSide {
    pub(crate) memory: Window,
    file: OwnedFd,
    queues: Vec<DriverQueue>,
    pub(crate) record: Option<(OwnedFd, Vec<u8>)>,
}

/// The driver's side of a queue.
pub(crate) struct DriverQueue {
    kick: OwnedFd,
    call: OwnedFd,
    available: u16,
    used: u16,
}

/// A piece of a chain.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) address: u64,
    pub(crate) length: u32,
    pub(crate) flags: u16,
    pub(crate) next: u16,
}

impl GuestSide {
    pub(crate) fn new() -> Self {
        let (file, memory) = Window::create("guest", MEMORY).unwrap();
        let event = || eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let queue = || DriverQueue { kick: event(), call: event(), available: 0, used: 0 };
        Self { memory, file, queues: vec![queue(), queue()], record: None }
    }

    fn rings(index: usize) -> u64 {
        RINGS * index as u64
    }

    pub(crate) fn put(&self, address: u64, bytes: &[u8]) {
        self.memory.write(address as usize, bytes);
    }

    pub(crate) fn get(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory.read(address as usize, &mut bytes);
        bytes
    }

    pub(crate) fn encode(piece: Piece) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&piece.address.to_le_bytes());
        bytes[8..12].copy_from_slice(&piece.length.to_le_bytes());
        bytes[12..14].copy_from_slice(&piece.flags.to_le_bytes());
        bytes[14..].copy_from_slice(&piece.next.to_le_bytes());
        bytes
    }

    pub(crate) fn descriptor(&self, queue: usize, index: u16, piece: Piece) {
        self.put(Self::rings(queue) + 16 * u64::from(index), &Self::encode(piece));
    }

    /// Makes the chain available that begins there, and kicks.
    pub(crate) fn offer(&mut self, queue: usize, head: u16) {
        let available = Self::rings(queue) + 16 * u64::from(QUEUE_SIZE);
        let state = &mut self.queues[queue];
        let place = u64::from(state.available % QUEUE_SIZE);
        self.memory.write((available + 4 + 2 * place) as usize, &head.to_le_bytes());
        state.available = state.available.wrapping_add(1);
        self.memory.store_u16(available as usize + 2, state.available);
        rustix::io::write(&state.kick, &1_u64.to_ne_bytes()).unwrap();
    }

    /// A request of a header, data and a status at fixed places, by three descriptors from `head` on.
    pub(crate) fn request(&mut self, queue: usize, head: u16, kind: u32, sector: u64, data: Piece) {
        let header = DATA + 64 * (u64::from(head) + 32 * queue as u64);
        self.put(header, &kind.to_le_bytes());
        self.put(header + 4, &0_u32.to_le_bytes());
        self.put(header + 8, &sector.to_le_bytes());
        self.put(header + 16, &[0xff]);
        let status = Piece { address: header + 16, length: 1, flags: WRITE, next: 0 };
        let first = if data.length == 0 { head + 2 } else { head + 1 };
        self.descriptor(queue, head, Piece { address: header, length: 16, flags: NEXT, next: first });
        self.descriptor(queue, head + 1, Piece { flags: data.flags | NEXT, next: head + 2, ..data });
        self.descriptor(queue, head + 2, status);
        self.offer(queue, head);
    }

    pub(crate) fn status(&self, queue: usize, head: u16) -> u8 {
        self.get(DATA + 64 * (u64::from(head) + 32 * queue as u64) + 16, 1)[0]
    }

    /// The next used chain: its first descriptor, and bytes written.
    pub(crate) fn used(&mut self, queue: usize) -> Option<(u16, u32)> {
        let used = Self::rings(queue) + 2048;
        let state = &mut self.queues[queue];
        if self.memory.load_u16(used as usize + 2) == state.used {
            return None;
        }
        let place = u64::from(state.used % QUEUE_SIZE);
        state.used = state.used.wrapping_add(1);
        let entry = self.get(used + 4 + 8 * place, 8);
        let word = |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().unwrap());
        Some((word(0) as u16, word(4)))
    }

    /// How often the driver was told, since it was asked.
    pub(crate) fn calls(&self, queue: usize) -> u64 {
        let mut count = [0; 8];
        match rustix::io::read(&self.queues[queue].call, &mut count) {
            Ok(_) => u64::from_ne_bytes(count),
            Err(_) => 0,
        }
    }
}

/// A front end.
pub(crate) struct FrontEnd {
    pub(crate) stream: UnixStream,
}

impl FrontEnd {
    pub(crate) fn send(&self, request: u32, flags: u32, payload: &[u8], descriptors: &[&OwnedFd]) {
        let mut bytes = Vec::new();
        for word in [request, 1 | flags, payload.len() as u32] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(payload);
        let descriptors: Vec<_> = descriptors.iter().map(|descriptor| descriptor.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        }
        // The server may have closed.
        let _ = sendmsg(&self.stream, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL);
    }

    /// The reply that has come: request, flags, payload, descriptors.
    pub(crate) fn reply(&self) -> Option<(u32, u32, Vec<u8>, Vec<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 4096];
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let received = recvmsg(&self.stream, &mut slices, &mut control, RecvFlags::DONTWAIT).ok()?;
        if received.bytes < 12 {
            return None;
        }
        let descriptors = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors.collect()),
            _ => None,
        });
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(word(8) as usize + 12, received.bytes, "one reply at a time");
        Some((word(0), word(4), bytes[12..received.bytes].to_vec(), descriptors.unwrap_or_default()))
    }

    /// Sends a message, and gives the payload of its reply.
    pub(crate) fn ask(&self, served: &mut Served, request: u32, payload: &[u8]) -> Vec<u8> {
        self.send(request, 0, payload, &[]);
        served.turn();
        let (of, flags, payload, _) = self.reply().expect("there is a reply");
        assert_eq!((of, flags), (request, 1 | 4));
        payload
    }

    /// Sends a message, and gives whether the server says that it is done.
    pub(crate) fn tell(
        &self,
        served: &mut Served,
        request: u32,
        payload: &[u8],
        descriptors: &[&OwnedFd],
    ) -> bool {
        self.send(request, 8, payload, descriptors);
        served.turn();
        self.reply().is_some_and(|(_, _, payload, _)| payload == 0_u64.to_le_bytes())
    }

    /// Connects, agrees on features, and shares the memory of the guest.
    pub(crate) fn begin(served: &mut Served, guest: &GuestSide) -> Self {
        let this = Self { stream: served.connect() };
        let offered = u64::from_le_bytes(this.ask(served, 1, &[]).try_into().unwrap());
        assert_eq!(offered & FEATURES, FEATURES);
        let protocol = this.ask(served, 15, &[]);
        this.send(16, 0, &protocol, &[]);
        assert!(this.tell(served, 2, &FEATURES.to_le_bytes(), &[]));
        let table = [1_u64, 0, MEMORY, USER, 0].map(u64::to_le_bytes);
        assert!(this.tell(served, 5, table.as_flattened(), &[&guest.file]));
        this
    }

    /// Asks for a record of requests in flight, which the guest's owner keeps, or gives the one that is kept.
    pub(crate) fn record(&self, served: &mut Served, guest: &mut GuestSide) {
        let wanted = [0_u8; 16].into_iter().chain([2, 0, QUEUE_SIZE as u8, 0, 0, 0, 0, 0]);
        if guest.record.is_none() {
            self.send(31, 0, &wanted.collect::<Vec<_>>(), &[]);
            served.turn();
            let (_, _, description, mut files) = self.reply().expect("there is a record");
            guest.record = Some((files.pop().unwrap(), description));
        }
        let (file, description) = guest.record.as_ref().unwrap();
        assert!(self.tell(served, 32, description, &[file]));
    }

    /// Starts a queue.
    pub(crate) fn start(&self, served: &mut Served, guest: &GuestSide, index: usize, base: u16) {
        let state = &guest.queues[index];
        let pair = |value: u32| [index as u32, value].map(u32::to_le_bytes).as_flattened().to_vec();
        let word = |value: u64| value.to_le_bytes();
        let rings = USER + GuestSide::rings(index);
        let (available, used) = (rings + 16 * u64::from(QUEUE_SIZE), rings + 2048);
        let addresses = [index as u64, rings, used, available, 0].map(u64::to_le_bytes);
        assert!(self.tell(served, 8, &pair(QUEUE_SIZE.into()), &[]));
        assert!(self.tell(served, 10, &pair(base.into()), &[]));
        assert!(self.tell(served, 9, addresses.as_flattened(), &[]));
        assert!(self.tell(served, 13, &word(index as u64), &[&state.call]));
        assert!(self.tell(served, 12, &word(index as u64), &[&state.kick]));
        assert!(self.tell(served, 18, &pair(1), &[]));
    }
}
