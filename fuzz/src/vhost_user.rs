//! A whole server of a disk by vhost-user, and what a fuzzer does as its front end and as the guest.

use arbitrary::Arbitrary;
use onego_block::{Faults, Faulty, Geometry, Memory};
use onego_export::vhost_user::codec::{
    FrontRequest, HEADER_LEN, Header, InflightDescription, MemoryRange, QueueEvent, RingAddresses,
};
use onego_export::vhost_user::{Disk, DiskServer};
use onego_guest_memory::Window;
use onego_testkit::{DrivenServer, Who, signal};
use onego_wire::ListenerId;
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{AddressFamily, SocketType, socket};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

/// Bytes of the device, and most bytes that its requests carry at a time: there are requests of several parts.
const SIZE: u64 = 64 << 10;
const MAX_IO: u64 = 10_000;
const QUEUES: u16 = 2;
const QUEUE_SIZE: u16 = 8;

/// Bytes of the guest's memory that are shared, and those behind them in the same file, which nobody may touch.
const MEMORY: u64 = 64 << 10;
const BEHIND: usize = 4096;
/// Where the front end has the memory, and where a queue's rings and its requests are in it.
const USER: u64 = 1 << 40;
const RINGS: u64 = 1024;
const AVAILABLE: u64 = 256;
const USED: u64 = 512;
const REQUESTS: u64 = 4096;
const DATA: u64 = 16 << 10;

/// The longest that the device holds a request back.
const DELAY: Duration = Duration::from_millis(30);

/// What the fuzzer does.
#[derive(Debug, Arbitrary)]
pub struct Input<'a> {
    /// Connects by itself and starts the queues, so that requests follow.
    shakes: bool,
    event_index: bool,
    /// Bytes that are carried at a time.
    cut: u8,
    items: Vec<FrontAction<'a>>,
}

/// One thing that it does.
#[derive(Debug, Arbitrary)]
pub enum FrontAction<'a> {
    /// Sends a message of any payload.
    Message { request: u8, needs_reply: bool, payload: &'a [u8], files: Vec<FileKind> },
    /// Sends one about a queue.
    Queue { what: u8, index: u8, value: u16, place: u8, file: Option<FileKind> },
    /// Sends one about memory of the guest.
    Region { remove: bool, place: u8, length: u16, offset: u16, file: FileKind },
    /// Asks for a record of requests in flight, and gives one back.
    Record { queues: u8, queue_size: u8, offset: u8, file: FileKind },
    /// Sends any bytes.
    Bytes { bytes: &'a [u8], files: Vec<FileKind> },
    /// Writes a descriptor of a queue, or of a table of indirect ones.
    Descriptor { queue: u8, index: u8, place: Place, length: u32, flags: u8, next: u8 },
    /// Writes into the guest's memory.
    Put { at: u16, bytes: &'a [u8] },
    /// Makes chains available, and kicks.
    Offer { queue: u8, head: u8, more: u8 },
    /// Makes a request available that is whole.
    Request { queue: u8, head: u8, kind: u8, sector: u8, sectors: u8, in_table: bool },
    /// Hangs up, and comes again.
    Reconnect { shakes: bool },
    /// The device holds requests back from now on, or not.
    Delay(bool),
    /// Time passes.
    Pass(u8),
}

/// A descriptor of a file.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum FileKind {
    /// The guest's memory.
    Guest,
    /// Memory of the fuzzer's own.
    Other,
    /// The last record of requests in flight that the server has made.
    Record,
    Event,
    Socket,
}

/// An address of the guest.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum Place {
    Header(u8),
    Data(u16),
    /// Near the end of the memory.
    End(i8),
    Any(u64),
}

impl Place {
    fn address(self) -> u64 {
        match self {
            Self::Header(n) => REQUESTS + 32 * u64::from(n),
            Self::Data(n) => DATA + u64::from(n),
            Self::End(n) => MEMORY.wrapping_add_signed(n.into()),
            Self::Any(address) => address,
        }
    }
}

/// A server with one front end, and the guest of that.
struct ServedDisk {
    server: DrivenServer<DiskServer>,
    device: Rc<Faulty<Memory>>,
    who: Option<Who>,
    memory: Window,
    guest: OwnedFd,
    other: OwnedFd,
    record: Option<OwnedFd>,
    kicks: [OwnedFd; QUEUES as usize],
    available: [u16; QUEUES as usize],
    used: [u16; QUEUES as usize],
}

fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap()
}

fn stream() -> OwnedFd {
    socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap()
}

fn faults(delays: bool) -> Faults {
    Faults { failing: 0.0, delay: if delays { DELAY } else { Duration::ZERO } }
}

/// The descriptor's sixteen bytes (virtio 2.7.5).
fn descriptor(address: u64, length: u32, flags: u16, next: u16) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&address.to_le_bytes());
    bytes[8..12].copy_from_slice(&length.to_le_bytes());
    bytes[12..14].copy_from_slice(&flags.to_le_bytes());
    bytes[14..].copy_from_slice(&next.to_le_bytes());
    bytes
}

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

impl ServedDisk {
    fn new(cut: u8) -> Self {
        let mut geometry = Geometry::new(SIZE);
        geometry.max_io = MAX_IO;
        let mut number = 1_u64;
        let random = move || {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            number
        };
        let device = Rc::new(Faulty::new(Memory::new(geometry), random, faults(false)));
        let disk = Disk {
            device: Rc::clone(&device) as _,
            read_only: false,
            serial: "fuzzed".into(),
            queues: QUEUES,
        };
        let mut server = DiskServer::default();
        server.serve(disk, stream()).expect("the size is whole sectors");
        let mut server = DrivenServer::new(server);
        server.cut = usize::from(cut).max(1);
        let (guest, memory) = Window::create("guest", MEMORY + BEHIND as u64).unwrap();
        memory.write(MEMORY as usize, &[0xa5; BEHIND]);
        let (other, _) = Window::create("other", MEMORY).unwrap();
        let (record, kicks) = (None, [event(), event()]);
        Self {
            server,
            device,
            who: None,
            memory,
            guest,
            other,
            record,
            kicks,
            available: [0; 2],
            used: [0; 2],
        }
    }

    fn file(&self, kind: FileKind) -> OwnedFd {
        let file = match kind {
            FileKind::Guest => &self.guest,
            FileKind::Other => &self.other,
            FileKind::Record => self.record.as_ref().unwrap_or(&self.other),
            FileKind::Event => return event(),
            FileKind::Socket => return stream(),
        };
        file.try_clone().unwrap()
    }

    fn connect(&mut self) {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        self.who = self.server.accept(ListenerId(0), nowhere, nowhere);
        self.server.turn();
    }

    fn disconnect(&mut self) {
        if let Some(who) = self.who.take() {
            self.server.disconnect(who);
        }
    }

    fn send(&mut self, bytes: &[u8], files: Vec<OwnedFd>) {
        let Some(who) = self.who else { return };
        if !bytes.is_empty() {
            self.server.send_with(who, bytes, files);
        }
        self.server.turn();
        if let Some(record) = self.server.files_came(who).pop() {
            self.record = Some(record);
        }
        if self.server.is_closed(who) {
            self.who = None;
        }
    }

    /// Sends a message that the server has to carry out.
    fn tell(&mut self, request: &FrontRequest, files: Vec<OwnedFd>) {
        let who = self.who.expect("there is a connection");
        self.server.came(who).clear();
        self.send(&request.encode(true), files);
        let came = self.server.came(who);
        let reply = came.first_chunk::<HEADER_LEN>().map(Header::decode).expect("there is a reply");
        assert_eq!(reply.request, request.number());
        assert_eq!(came[HEADER_LEN..], [0; 8], "{request:?} is refused");
    }

    fn ring(queue: u16) -> RingAddresses {
        let at = USER + RINGS * u64::from(queue);
        RingAddresses { descriptors: at, available: at + AVAILABLE, used: at + USED }
    }

    /// Agrees on all features, shares the memory, and starts the queues.
    fn shake_hands(&mut self, event_index: bool) {
        let bits = [32_u32, 30, 28, 14, 13, 12, 11, 9].into_iter().chain(event_index.then_some(29));
        // What is acknowledged is asked for by a feature of the protocol.
        self.send(
            &FrontRequest::SetProtocolFeatures(1 << 3 | 1 << 9 | 1 << 12 | 1 << 15).encode(false),
            Vec::new(),
        );
        self.tell(&FrontRequest::SetFeatures(bits.fold(0, |all, bit| all | 1 << bit)), Vec::new());
        let range = MemoryRange { guest: 0, length: MEMORY, user: USER, offset: 0 };
        self.tell(&FrontRequest::SetMemTable(vec![range]), vec![self.file(FileKind::Guest)]);
        for queue in 0..QUEUES {
            let index = queue.into();
            let event = QueueEvent { index, is_there: true };
            // The queue begins anew.
            self.memory.write((RINGS * u64::from(queue)) as usize, &[0; RINGS as usize]);
            (self.available[usize::from(queue)], self.used[usize::from(queue)]) = (0, 0);
            self.tell(&FrontRequest::SetVringNum { index, size: QUEUE_SIZE.into() }, Vec::new());
            self.tell(&FrontRequest::SetVringBase { index, base: 0 }, Vec::new());
            self.tell(&FrontRequest::SetVringAddr { index, ring: Self::ring(queue) }, Vec::new());
            let kick = self.kicks[usize::from(queue)].try_clone().unwrap();
            self.tell(&FrontRequest::SetVringKick(event), vec![kick]);
            self.tell(&FrontRequest::SetVringEnable { index, enable: true }, Vec::new());
        }
    }

    fn put(&mut self, address: u64, bytes: &[u8]) {
        let Ok(at) = usize::try_from(address) else { return };
        let Some(room) = (MEMORY as usize).checked_sub(at) else { return };
        self.memory.write(at, &bytes[..bytes.len().min(room)]);
    }

    fn put_descriptor(&mut self, queue: u16, index: u16, bytes: &[u8; 16]) {
        self.put(RINGS * u64::from(queue) + 16 * u64::from(index), bytes);
    }

    /// Makes the chain at `head` available, and says that `more` others are.
    fn offer(&mut self, queue: u16, head: u16, more: u16) {
        let at = RINGS * u64::from(queue) + AVAILABLE;
        let available = &mut self.available[usize::from(queue)];
        let place = u64::from(*available % QUEUE_SIZE);
        *available = available.wrapping_add(1).wrapping_add(more);
        let available = *available;
        self.memory.write((at + 4 + 2 * place) as usize, &head.to_le_bytes());
        self.memory.store_u16(at as usize + 2, available);
        signal(&self.kicks[usize::from(queue)]);
        self.server.turn();
    }

    /// A request with a header, data and a status, by three descriptors or a table of them.
    fn request(&mut self, queue: u16, head: u16, request: WholeRequest, in_table: bool) {
        let WholeRequest { kind, sector, length } = request;
        let header = REQUESTS + 64 * (u64::from(head) + u64::from(QUEUE_SIZE * queue));
        self.put(header, &[&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes(), &[0xff]].concat());
        if matches!(kind, 11 | 13) {
            self.put(DATA, &[&sector.to_le_bytes()[..], &2_u32.to_le_bytes(), &[0; 4]].concat());
        }
        let flags = if matches!(kind, 0 | 8) { WRITE } else { 0 };
        let table = 2048 + 64 * (u64::from(head) + u64::from(QUEUE_SIZE * queue));
        let [first, second, third] = if in_table { [0, 1, 2] } else { [head, head + 1, head + 2] };
        let second_or_third = if length == 0 { third } else { second };
        let pieces = [
            (first, descriptor(header, 16, NEXT, second_or_third)),
            (second, descriptor(DATA, length, flags | NEXT, third)),
            (third, descriptor(header + 16, 1, WRITE, 0)),
        ];
        for (index, bytes) in pieces {
            if in_table {
                self.put(table + 16 * u64::from(index), &bytes);
            } else {
                self.put_descriptor(queue, index, &bytes);
            }
        }
        if in_table {
            self.put_descriptor(queue, head, &descriptor(table, 48, INDIRECT, 0));
        }
        self.offer(queue, head, 0);
    }

    /// The status of a request, if it is used now.
    fn status(&mut self, queue: u16, head: u16) -> Option<u8> {
        let used = &mut self.used[usize::from(queue)];
        let at = (RINGS * u64::from(queue) + USED) as usize;
        if self.memory.load_u16(at + 2) == *used {
            return None;
        }
        *used = used.wrapping_add(1);
        assert_eq!(self.memory.load_u16(at + 2), *used, "one is used");
        let mut status = [0];
        let header = REQUESTS + 64 * (u64::from(head) + u64::from(QUEUE_SIZE * queue));
        self.memory.read(header as usize + 16, &mut status);
        Some(status[0])
    }

    fn pass(&mut self, time: Duration) {
        self.server.pass(time);
        if self.who.is_some_and(|who| self.server.is_closed(who)) {
            self.who = None;
        }
    }

    /// The front end is gone, and another one comes: it is served, whatever the last one did, and nothing is left of that.
    fn end(mut self) {
        self.disconnect();
        self.device.set_faults(faults(false));
        self.pass(2 * DELAY);
        assert_eq!(self.server.machine.in_flight(), 0);
        let mut behind = [0; BEHIND];
        self.memory.read(MEMORY as usize, &mut behind);
        assert!(behind == [0xa5; BEHIND], "memory that is not shared was written");
        self.connect();
        self.shake_hands(false);
        for queue in 0..QUEUES {
            self.request(queue, 0, WholeRequest { kind: 4, sector: 0, length: 0 }, false);
            assert_eq!(self.status(queue, 0), Some(0));
        }
    }
}

/// A request of the right form: its type, and bytes of data.
#[derive(Debug, Clone, Copy)]
struct WholeRequest {
    kind: u32,
    sector: u64,
    length: u32,
}

impl WholeRequest {
    /// One of small numbers, and whether it has to succeed.
    fn small(kind: u8, sector: u8, sectors: u8) -> (Self, bool) {
        let kind = [0, 1, 4, 8, 11, 13][usize::from(kind) % 6];
        let (sector, sectors) = (u64::from(sector), u64::from(sectors % 40));
        let fits = |sectors: u64| (sector + sectors) * 512 <= SIZE;
        let (length, succeeds) = match kind {
            0 | 1 => (sectors as u32 * 512, sectors > 0 && fits(sectors)),
            4 => (0, true),
            8 => (20, true),
            _ => (16, fits(2)),
        };
        (Self { kind, sector, length }, succeeds)
    }
}

/// A server, and what is known of what comes of the fuzzer's requests.
struct FuzzedDisk {
    served: ServedDisk,
    event_index: bool,
    /// Nobody knows what the server makes of the guest once the fuzzer has sent messages, or put chains, of its own.
    spoilt: bool,
    /// The device holds answers back, on each connection.
    delays: bool,
}

impl FuzzedDisk {
    fn connect(&mut self, shakes: bool) {
        self.served.disconnect();
        self.served.pass(2 * DELAY);
        self.served.connect();
        self.spoilt = !shakes || self.delays;
        if shakes {
            self.served.shake_hands(self.event_index);
        }
    }

    fn queue_message(what: u8, index: u8, value: u16, place: u8, is_there: bool) -> FrontRequest {
        let index = u32::from(index % 4);
        let event = QueueEvent { index, is_there };
        let at = USER + 16 * u64::from(place);
        let ring = RingAddresses { descriptors: at, available: at + AVAILABLE, used: at + USED };
        match what % 9 {
            0 => FrontRequest::SetVringNum { index, size: value.into() },
            1 => FrontRequest::SetVringBase { index, base: value.into() },
            2 => FrontRequest::SetVringAddr { index, ring },
            3 => FrontRequest::GetVringBase { index },
            4 => FrontRequest::SetVringKick(event),
            5 => FrontRequest::SetVringCall(event),
            6 => FrontRequest::SetVringErr(event),
            7 => FrontRequest::SetVringEnable { index, enable: value & 1 == 0 },
            _ => FrontRequest::ResetDevice,
        }
    }

    /// Does one thing; the fuzzer's own things spoil what is known.
    fn act(&mut self, item: &FrontAction<'_>) {
        let files = |served: &ServedDisk, kinds: &[FileKind]| -> Vec<OwnedFd> {
            kinds.iter().take(12).map(|kind| served.file(*kind)).collect()
        };
        match item {
            FrontAction::Request { queue, head, kind, sector, sectors, in_table } => {
                return self.request((*queue, *head), (*kind, *sector, *sectors), *in_table);
            }
            FrontAction::Reconnect { shakes } => return self.connect(*shakes),
            FrontAction::Pass(millis) => return self.served.pass(Duration::from_millis((*millis).into())),
            FrontAction::Delay(delays) => {
                self.served.device.set_faults(faults(*delays));
                self.delays = *delays;
            }
            FrontAction::Message { request, needs_reply, payload, files: kinds } => {
                let mut bytes = FrontRequest::Unknown((request % 45).into()).encode(*needs_reply);
                bytes[8..12].copy_from_slice(&(payload.len() as u32).to_le_bytes());
                bytes.extend_from_slice(payload);
                self.served.send(&bytes, files(&self.served, kinds));
            }
            FrontAction::Queue { what, index, value, place, file } => {
                let message = Self::queue_message(*what, *index, *value, *place, file.is_some());
                let files = file.map(|kind| self.served.file(kind)).into_iter().collect();
                self.served.send(&message.encode(true), files);
            }
            FrontAction::Region { remove, place, length, offset, file } => {
                let base = u64::from(*place) << 12;
                let (length, offset) = (u64::from(*length), u64::from(*offset));
                let range = MemoryRange { guest: base, length, user: USER + base, offset };
                // That nothing is written behind the guest's memory holds for the region that is shared by itself.
                let file = if matches!(file, FileKind::Guest) { FileKind::Other } else { *file };
                let message =
                    if *remove { FrontRequest::RemMemReg(range) } else { FrontRequest::AddMemReg(range) };
                self.served.send(&message.encode(true), vec![self.served.file(file)]);
            }
            FrontAction::Record { queues, queue_size, offset, file } => {
                let (queues, queue_size) = (u16::from(queues % 4), u16::from(*queue_size));
                let wanted = InflightDescription { length: 0, offset: 0, queues, queue_size };
                self.served.send(&FrontRequest::GetInflightFd(wanted).encode(false), Vec::new());
                let given = InflightDescription { length: MEMORY, offset: u64::from(*offset), ..wanted };
                let file = vec![self.served.file(*file)];
                self.served.send(&FrontRequest::SetInflightFd(given).encode(true), file);
            }
            FrontAction::Bytes { bytes, files: kinds } => self.served.send(bytes, files(&self.served, kinds)),
            FrontAction::Descriptor { queue, index, place, length, flags, next } => {
                let (index, flags, next) =
                    (u16::from(index % 16), u16::from(flags & 7), u16::from(next % 10));
                let bytes = descriptor(place.address(), *length, flags, next);
                self.served.put_descriptor(u16::from(queue % 2), index, &bytes);
            }
            FrontAction::Put { at, bytes } => self.served.put((*at).into(), bytes),
            FrontAction::Offer { queue, head, more } => {
                self.served.offer(u16::from(queue % 2), u16::from(head % 10), u16::from(more % 12));
            }
        }
        self.spoilt = true;
    }

    fn request(&mut self, (queue, head): (u8, u8), (kind, sector, sectors): (u8, u8, u8), in_table: bool) {
        let (queue, head) = (u16::from(queue % 2), u16::from(head) % (QUEUE_SIZE - 2));
        let (request, succeeds) = WholeRequest::small(kind, sector, sectors);
        self.served.request(queue, head, request, in_table);
        if !self.spoilt {
            let status = self.served.status(queue, head);
            let status = status.expect("a device that holds nothing back answers at once");
            assert_eq!(status == 0, succeeds, "{request:?} has the status {status}");
        }
    }
}

/// Does what the input says.
pub fn run(input: &Input<'_>) {
    let served = ServedDisk::new(input.cut);
    let mut world = FuzzedDisk { served, event_index: input.event_index, spoilt: true, delays: false };
    world.connect(input.shakes);
    for item in &input.items {
        world.act(item);
    }
    world.served.end();
}

/// Checks that every request can succeed: a harness in which none does finds nothing.
pub fn check_floor() {
    for event_index in [false, true] {
        let mut world =
            FuzzedDisk { served: ServedDisk::new(u8::MAX), event_index, spoilt: true, delays: false };
        world.connect(true);
        for in_table in [false, true] {
            for kind in 0..6 {
                let (request, succeeds) = WholeRequest::small(kind, 8, 4);
                assert!(succeeds, "{request:?}");
                world.request((1, 3), (kind, 8, 4), in_table);
            }
        }
        world.served.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_succeeds_with_and_without_tables_of_descriptors() {
        check_floor();
    }
}
