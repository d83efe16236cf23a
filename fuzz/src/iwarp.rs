//! A connection of iWARP in memory, and what a fuzzer sends on it.

use arbitrary::Arbitrary;
use onego_buf::{List, Pool, SegmentMut, crc32c};
use onego_rdma::iwarp::{Config, Connection, Event};
use onego_rdma::{CompletedWork, Completion, Key, Memory, QueuePair, Remote, SendFlags};
use onego_testkit::{Delivery, Pipe};
use onego_wire::Time;
use std::sync::Arc;

/// Bytes of memory that the peer may not touch are full of these.
const UNTOUCHED: u8 = 0x5a;
/// Bytes of each region, sink and receive.
const SIZE: usize = 10_000;

fn config() -> Config {
    // As few bytes a segment as there can be, so that little makes many.
    Config { ird: 3, ord: 3, fpdu: 64, foresee_writes: true, ..Config::new(Pool::new(1 << 20)) }
}

fn entropy() -> Box<dyn FnMut() -> u64 + Send> {
    let mut state = 1_u64;
    Box::new(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 16
    })
}

/// The server's end of a connection.
pub fn server() -> Connection {
    Connection::serve(Time::default(), Arc::new(config()), entropy())
}

/// The client's end.
pub fn client() -> Connection {
    let mut client = Connection::connect(Time::default(), Arc::new(config()), entropy(), b"hello").unwrap();
    client.opened(Time::default());
    client
}

/// Gives bytes to a connection, at most `cut` at a time, as its driver would; lets it answer; accepts every client.
pub fn talk(connection: &mut Connection, bytes: &[u8], cut: usize) {
    let mut pipe = Pipe::from(bytes);
    while !pipe.is_empty() {
        let delivered = pipe.deliver(connection.landing(), cut, |delivery| match delivery {
            Delivery::Landed(place, n) => connection.landed(Time::default(), place, n),
            Delivery::Received(bytes) => connection.received(Time::default(), bytes),
        });
        while let Some(event) = connection.event() {
            if let Event::Requested(_) = event {
                connection.accept(b"welcome").unwrap();
            }
        }
        if delivered.bytes() == 0 {
            break;
        }
    }
    connection.transmit(&mut List::new(), usize::MAX);
}

/// A segment as a fuzzer describes it: right in all that it does not say otherwise.
#[derive(Debug, Arbitrary)]
pub struct Item<'a> {
    opcode: u8,
    last: bool,
    /// Bits of the control fields to turn.
    control: u16,
    key: u8,
    /// What is added to the key.
    key_error: u8,
    offset: u16,
    /// What is added to the number of the message and to its offset.
    msn_error: i8,
    mo_error: i8,
    queue_error: u8,
    len: u16,
    /// What the length claims beyond what there is.
    lie: i16,
    tail: &'a [u8],
}

/// A server with memory of all kinds, whose client is the fuzzer.
pub struct Session {
    server: Connection,
    crc: bool,
    keys: [u32; 3],
    msn: [u32; 3],
    mo: u32,
}

impl Session {
    pub fn new(crc: bool) -> Self {
        let mut server = server();
        let request = [&b"MPA ID Req Frame"[..], &[if crc { 0x40 } else { 0 }, 1, 0, 0]].concat();
        talk(&mut server, &request, usize::MAX);
        let filled = || SegmentMut::from(vec![UNTOUCHED; SIZE]);
        let Key(sink) = server.register_at(Memory::Sink(filled()), 0).unwrap();
        let Key(source) = server.register_at(Memory::Source(filled().into()), 0).unwrap();
        for id in 0..10 {
            server.post_receive(id, filled()).unwrap();
        }
        for id in 0..4 {
            server.post_read(id, filled(), Remote { key: Key(1), offset: 0 }).unwrap();
            server.post_send(id, vec![1; 200].into(), SendFlags::default()).unwrap();
        }
        let mut this = Self { server, crc, keys: [sink, source, 0], msn: [1; 3], mo: 0 };
        // The server says nothing before the client has, so its reads come now.
        this.send(&this.fpdu(&this.untagged(0x4143, 0, 0, 0, b""), 0), usize::MAX);
        this.msn[0] = 2;
        let mut out = List::new();
        this.server.transmit(&mut out, usize::MAX);
        this
    }

    fn send(&mut self, bytes: &[u8], cut: usize) {
        talk(&mut self.server, bytes, cut);
    }

    fn untagged(&self, control: u16, key: u32, queue: u32, mo: u32, payload: &[u8]) -> Vec<u8> {
        let msn = self.msn.get(queue as usize).copied().unwrap_or(1);
        let fields = [key, queue, msn, mo].map(u32::to_be_bytes).concat();
        [&control.to_be_bytes()[..], &fields, payload].concat()
    }

    fn fpdu(&self, segment: &[u8], lie: i16) -> Vec<u8> {
        let len = (segment.len() as u16).wrapping_add_signed(lie);
        let mut bytes = [&len.to_be_bytes()[..], segment].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let sum = if self.crc { !crc32c(u32::MAX, &bytes) } else { 0 };
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    /// Sends what the item says.
    pub fn item(&mut self, item: &Item<'_>, cut: usize) {
        let opcode = u16::from(item.opcode % 8);
        let tagged = matches!(opcode, 0 | 2);
        let control = 0x0140 | opcode | u16::from(tagged) << 15 | u16::from(item.last) << 14;
        // Most of them are to be right.
        let control = control ^ if item.control.is_multiple_of(16) { item.control } else { 0 };
        let key = self.keys[usize::from(item.key % 3)].wrapping_add(u32::from(item.key_error));
        let payload = [&vec![7; usize::from(item.len) % 5000][..], item.tail].concat();
        let segment = if tagged {
            let fields = [&key.to_be_bytes()[..], &u64::from(item.offset).to_be_bytes()].concat();
            [&control.to_be_bytes()[..], &fields, &payload].concat()
        } else {
            self.message(control, opcode, key, item, &payload)
        };
        let bytes = self.fpdu(&segment, item.lie);
        self.send(&bytes, cut);
    }

    fn message(&mut self, control: u16, opcode: u16, key: u32, item: &Item<'_>, payload: &[u8]) -> Vec<u8> {
        let queue: u32 = match opcode {
            1 => 1,
            7 => 2,
            _ => 0,
        };
        let at = queue as usize;
        let mo = if queue == 0 { self.mo } else { 0 };
        let read = [&[0; 12][..], &u32::from(item.len).to_be_bytes(), &key.to_be_bytes(), &[0; 6]].concat();
        let read = [&read[..], &item.offset.to_be_bytes()].concat();
        let payload = if opcode == 1 { &read[..] } else { payload };
        let msn = self.msn[at];
        self.msn[at] = msn.wrapping_add_signed(i32::from(item.msn_error));
        let mo = mo.wrapping_add_signed(i32::from(item.mo_error));
        let queue = queue.wrapping_add(u32::from(item.queue_error));
        let segment = self.untagged(control, key, queue, mo, payload);
        self.msn[at] = if item.last { msn + 1 } else { msn };
        self.mo = if item.last { 0 } else { mo.wrapping_add(payload.len() as u32) };
        segment
    }

    /// Ends the connection: everything comes back.
    pub fn end(mut self) {
        self.server.closed();
        let (mut receives, mut reads, mut regions) = (0, 0, 0);
        while let Some(Completion { done, .. }) = self.server.poll() {
            match done {
                CompletedWork::Received { buffer, len, invalidated, .. } => {
                    assert!(len <= buffer.len() && buffer.len() == SIZE);
                    receives += 1;
                    regions += usize::from(invalidated.is_some());
                }
                CompletedWork::Read(sink) => {
                    assert_eq!(sink.len(), SIZE);
                    reads += 1;
                }
                CompletedWork::Released(_, memory) => {
                    assert_eq!(memory.len(), SIZE);
                    if let Memory::Source(list) = memory {
                        assert!(list.to_vec().iter().all(|byte| *byte == UNTOUCHED));
                    }
                    regions += 1;
                }
                CompletedWork::Sent | CompletedWork::Written => {}
            }
        }
        assert_eq!((receives, reads, regions), (10, 4, 2), "everything comes back once");
    }
}
