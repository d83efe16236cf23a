//! Recorded conversations of the kernel's NFS client and server, in which a connection takes either side: it accepts
//! the peer's bytes, and sends what the kernel sent, byte for byte.

use crate::support::{End, config, raw};
use onego_buf::{List, SegmentMut};
use onego_rdma::iwarp::{Config, Event};
use onego_rdma::{CompletedWork, Key, Memory, QueuePair, Remote, SendFlags, Status};
use std::collections::{BTreeMap, VecDeque};

const CONVERSATIONS: [&str; 2] = [include_str!("../data/nfs.txt"), include_str!("../data/null.txt")];

/// FPDU size of the recorded peers, which fits a packet.
const FPDU: usize = 1448;

const WRITE: u8 = 0;
const READ_REQUEST: u8 = 1;
const READ_RESPONSE: u8 = 2;
const SEND_INVALIDATE: u8 = 4;

#[derive(Clone)]
struct Line {
    by_client: bool,
    bytes: Vec<u8>,
    payload: Option<usize>,
}

impl Line {
    fn parse(line: &str) -> Self {
        let mut words = line.split(' ');
        let by_client = words.next() == Some("C");
        let digits = words.next().unwrap();
        let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        let bytes = (0..digits.len()).step_by(2).map(byte).collect();
        Self { by_client, bytes, payload: words.next().map(|len| len[1..].parse().unwrap()) }
    }

    fn opcode(&self) -> u8 {
        self.bytes[3] & 0xf
    }

    fn last(&self) -> bool {
        self.bytes[2] & 0x40 != 0
    }

    fn be32(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.bytes[at..at + 4].try_into().unwrap())
    }

    fn be64(&self, at: usize) -> u64 {
        u64::from_be_bytes(self.bytes[at..at + 8].try_into().unwrap())
    }

    fn set_key(&mut self, at: usize, key: u32) {
        self.bytes[at..at + 4].copy_from_slice(&key.to_be_bytes());
    }

    fn set_offset(&mut self, at: usize, offset: u64) {
        self.bytes[at..at + 8].copy_from_slice(&offset.to_be_bytes());
    }

    fn fpdu(&self) -> Vec<u8> {
        let payload = pattern(self.payload.unwrap());
        raw::fpdu(&[&self.bytes[2..], &payload].concat(), false)
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| at as u8).collect()
}

fn lines(recording: &str) -> VecDeque<Line> {
    recording.lines().filter(|line| !line.starts_with('#')).map(Line::parse).collect()
}

/// Regions of the client: key, first offset, and the end of the highest range used.
fn regions(lines: &VecDeque<Line>) -> BTreeMap<u32, (u64, u64)> {
    let mut regions = BTreeMap::new();
    let mut add = |key, start: u64, len: u64| {
        let region = regions.entry(key).or_insert((start, start + len));
        *region = (region.0.min(start), region.1.max(start + len));
    };
    for line in lines.iter().filter(|line| !line.by_client && line.payload.is_some()) {
        match line.opcode() {
            WRITE => add(line.be32(4), line.be64(8), line.payload.unwrap() as u64),
            READ_REQUEST => add(line.be32(36), line.be64(40), u64::from(line.be32(32))),
            _ => {}
        }
    }
    for line in lines.iter().filter(|line| line.payload.is_some() && line.opcode() == SEND_INVALIDATE) {
        regions.entry(line.be32(4)).or_insert((0, 1));
    }
    regions
}

fn post(end: &mut End, line: &Line, whole: usize, to: impl Fn(u32) -> u32) {
    // The payload of a message of several segments starts over in each.
    let mut bytes = List::new();
    let mut left = whole;
    while left > 0 {
        let len = left.min(FPDU - 20);
        bytes.push(onego_buf::Segment::from(pattern(len)));
        left -= len;
    }
    let connection = &mut end.connection;
    match line.opcode() {
        WRITE => {
            let remote = Remote { key: Key(to(line.be32(4))), offset: line.be64(8) };
            connection.post_write(1, bytes, remote).unwrap();
        }
        READ_REQUEST => {
            let remote = Remote { key: Key(to(line.be32(36))), offset: line.be64(40) };
            connection.post_read(2, SegmentMut::zeroed(line.be32(32) as usize), remote).unwrap();
        }
        // Sent automatically.
        READ_RESPONSE => {}
        opcode => {
            let invalidate = (opcode == SEND_INVALIDATE).then(|| Key(to(line.be32(4))));
            connection.post_send(3, bytes, SendFlags { invalidate, solicited: false }).unwrap();
        }
    }
}

/// Takes the lines of the message that begins with the first. Lines of the other side in between stay.
fn message(lines: &mut VecDeque<Line>) -> Vec<Line> {
    let by_client = lines[0].by_client;
    let mut message: Vec<Line> = Vec::new();
    while message.last().is_none_or(|line| !line.last()) {
        let next = lines.iter().position(|line| line.by_client == by_client).unwrap();
        message.extend(lines.remove(next));
    }
    message
}

fn feed(end: &mut End, bytes: &[u8]) {
    end.incoming.extend(bytes);
    while end.feed(usize::MAX) > 0 {}
    assert_eq!(end.fault(), None);
}

fn settings() -> Config {
    Config { fpdu: FPDU, ord: 0, ..config() }
}

fn check(end: &mut End) {
    for completion in std::mem::take(&mut end.completions) {
        assert_eq!(completion.status, Status::Success);
        match completion.done {
            CompletedWork::Received { buffer, len, .. } => {
                assert_eq!(buffer[..len], pattern(len));
                end.connection.post_receive(0, buffer).unwrap();
            }
            CompletedWork::Read(sink) => {
                sink.chunks(FPDU - 20).for_each(|segment| assert_eq!(segment, pattern(segment.len())));
            }
            _ => {}
        }
    }
}

#[test]
fn the_client_sends_the_bytes_of_the_kernels_client() {
    for recording in CONVERSATIONS {
        let mut lines = lines(recording);
        let regions = regions(&lines);
        let (request, reply) = (lines.pop_front().unwrap(), lines.pop_front().unwrap());
        let mut end = End::client(settings(), &request.bytes[24..]);
        assert_eq!(end.output(usize::MAX).to_vec(), request.bytes);
        feed(&mut end, &reply.bytes);
        assert!(
            matches!(&end.events[..], [Event::Established(how)] if how.private_data == reply.bytes[24..])
        );

        // Keys of the recording, and the corresponding keys of this run.
        let mut keys = BTreeMap::new();
        let sources: Vec<u32> =
            lines.iter().filter(|line| line.opcode() == READ_REQUEST).map(|line| line.be32(36)).collect();
        for (key, (start, stop)) in regions {
            let len = (stop - start) as usize;
            let memory = if sources.contains(&key) {
                // All segments of the response must have the same payload.
                Memory::Source((0..len).map(|at| (at % (FPDU - 20)) as u8).collect::<Vec<_>>().into())
            } else {
                Memory::Sink(SegmentMut::zeroed(len))
            };
            keys.insert(key, end.connection.register_at(memory, start).unwrap().0);
        }
        for _ in 0..8 {
            end.connection.post_receive(0, SegmentMut::zeroed(4096)).unwrap();
        }
        while !lines.is_empty() {
            let message = message(&mut lines);
            if message[0].by_client {
                let whole = message.iter().filter_map(|line| line.payload).sum();
                post(&mut end, &message[0], whole, |key| key);
                let said = end.output(usize::MAX).to_vec();
                assert_eq!(said, message.iter().flat_map(Line::fpdu).collect::<Vec<u8>>());
            } else {
                for mut line in message {
                    match line.opcode() {
                        WRITE | SEND_INVALIDATE => line.set_key(4, keys[&line.be32(4)]),
                        READ_REQUEST => line.set_key(36, keys[&line.be32(36)]),
                        _ => {}
                    }
                    feed(&mut end, &line.fpdu());
                }
            }
            check(&mut end);
        }
    }
}

#[test]
fn the_server_sends_the_bytes_of_the_kernels_server() {
    for recording in CONVERSATIONS {
        let mut lines = lines(recording);
        let (request, reply) = (lines.pop_front().unwrap(), lines.pop_front().unwrap());
        let mut end = End::server(Config { ord: 128, ..settings() });
        feed(&mut end, &request.bytes);
        assert_eq!(end.events, [Event::Requested(request.bytes[24..].to_vec())]);
        end.connection.accept(&reply.bytes[24..]).unwrap();
        assert_eq!(end.output(usize::MAX).to_vec(), reply.bytes);
        for _ in 0..8 {
            end.connection.post_receive(0, SegmentMut::zeroed(4096)).unwrap();
        }
        // Sink of a read in the recording, and its key in this run.
        let mut sinks = BTreeMap::new();
        while !lines.is_empty() {
            let mut message = message(&mut lines);
            if message[0].by_client {
                for mut line in message {
                    if line.opcode() == READ_RESPONSE {
                        let (start, key) = sinks[&line.be32(4)];
                        line.set_offset(8, line.be64(8) - start);
                        line.set_key(4, key);
                    }
                    feed(&mut end, &line.fpdu());
                }
            } else {
                let whole = message.iter().filter_map(|line| line.payload).sum();
                post(&mut end, &message[0], whole, |key| key);
                let said = end.output(usize::MAX).to_vec();
                if message[0].opcode() == READ_REQUEST {
                    let key = u32::from_be_bytes(said[20..24].try_into().unwrap());
                    sinks.insert(message[0].be32(20), (message[0].be64(24), key));
                    message[0].set_key(20, key);
                    message[0].set_offset(24, 0);
                }
                assert_eq!(said, message.iter().flat_map(Line::fpdu).collect::<Vec<u8>>());
            }
            check(&mut end);
        }
    }
}
