//! Two ends that exchange random operations, by seed, over a stream that is split at random: messages arrive in order,
//! memory holds exactly the bytes written and read, and everything comes back exactly once.
//!
//! [`onego_testkit::seeds`] documents how to run more seeds, or to repeat one.

use crate::support::{End, carry, config, filled, noise, pair, rng, scattered, settle};
use onego_buf::{Pool, Segment, SegmentMut};
use onego_rdma::iwarp::{Config, ReadyToReceive};
use onego_rdma::{CompletedWork, Completion, Key, Memory, QueuePair, Remote, SendFlags, Status};
use onego_testkit::seeds::Seeds;
use rand::Rng;
use rand::rngs::SmallRng;
use std::collections::{BTreeMap, VecDeque};

const STEPS: usize = 400;

const SEEDS: Seeds = Seeds { short: 200, long: 10_000 };
const UNTOUCHED: u8 = 0x5a;

struct Region {
    base: u64,
    bytes: Vec<u8>,
    sink: bool,
    /// Bytes that the other end does not write are undefined.
    loose: bool,
}

struct Coming {
    message: Vec<u8>,
    region: Option<(u32, Region)>,
    solicited: bool,
}

enum Expected {
    Sent,
    Written,
    Read(Vec<u8>),
}

struct Side {
    end: End,
    regions: BTreeMap<u32, Region>,
    work: BTreeMap<u64, Expected>,
    reads: VecDeque<u64>,
    receives: VecDeque<u64>,
    /// Receives for which the other side has not sent a message yet.
    credits: usize,
    messages: VecDeque<Coming>,
    next: u64,
    foresees_writes: bool,
    succeeded: [usize; 3],
}

impl Side {
    fn new(end: End, foresees_writes: bool) -> Self {
        Self {
            end,
            regions: BTreeMap::new(),
            work: BTreeMap::new(),
            reads: VecDeque::new(),
            receives: VecDeque::new(),
            credits: 0,
            messages: VecDeque::new(),
            next: 0,
            foresees_writes,
            succeeded: [0; 3],
        }
    }

    fn id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn receive(&mut self, rng: &mut SmallRng) {
        let id = self.id();
        let len = rng.random_range(20_000..30_000);
        if self.end.connection.post_receive(id, filled(len, 0)).is_ok() {
            self.receives.push_back(id);
            self.credits += 1;
        }
    }

    fn register(&mut self, rng: &mut SmallRng) {
        let len = size(rng) * 4;
        let base = [0, 1 << 40, (u64::MAX - len as u64).wrapping_add(1)][rng.random_range(0..3)];
        let sink = rng.random_bool(0.5);
        let is_fresh = sink && rng.random_bool(0.3);
        let bytes = if sink { vec![UNTOUCHED; len] } else { noise(len, rng) };
        let memory = match sink {
            true if is_fresh => Memory::Fresh(Pool::new(1 << 20), len),
            true => Memory::Sink(SegmentMut::from(bytes.clone())),
            false => Memory::Source(scattered(&bytes, rng)),
        };
        if let Ok(Key(key)) = self.end.connection.register_at(memory, base) {
            let region = Region { base, bytes, sink, loose: self.foresees_writes || is_fresh };
            assert!(self.regions.insert(key, region).is_none(), "a key is used twice");
        }
    }

    fn check(&mut self) {
        for completion in std::mem::take(&mut self.end.completions) {
            self.completed(completion);
        }
    }

    fn completed(&mut self, Completion { id, status, done }: Completion) {
        let whole = status == Status::Success;
        match done {
            CompletedWork::Sent => {
                assert!(matches!(self.work.remove(&id), Some(Expected::Sent)));
                self.succeeded[0] += usize::from(whole);
            }
            CompletedWork::Written => {
                assert!(matches!(self.work.remove(&id), Some(Expected::Written)));
                self.succeeded[1] += usize::from(whole);
            }
            CompletedWork::Read(sink) => {
                self.succeeded[2] += usize::from(whole);
                assert!(!whole || self.reads.pop_front() == Some(id), "reads complete in their order");
                let Some(Expected::Read(bytes)) = self.work.remove(&id) else { panic!("{id} is no read") };
                assert_eq!(sink.len(), bytes.len());
                assert!(!whole || *sink == bytes, "a read brought something else");
            }
            CompletedWork::Received { buffer, len, solicited, invalidated } => {
                assert_eq!(self.receives.pop_front(), Some(id), "receives complete in their order");
                if !whole {
                    return;
                }
                let coming = self.messages.pop_front().expect("a message was sent");
                assert!(buffer[..len] == coming.message, "another message came");
                assert!(buffer[len..].iter().all(|byte| *byte == 0), "more than the message was written");
                assert_eq!(solicited, coming.solicited);
                match (coming.region, invalidated) {
                    (None, None) => {}
                    (Some((key, region)), Some((Key(of), memory))) => {
                        assert_eq!(key, of);
                        check_memory(&memory, &region);
                    }
                    _ => panic!("the wrong thing was invalidated"),
                }
            }
            CompletedWork::Released(Key(key), memory) => {
                assert_eq!((status, id), (Status::Flushed, u64::from(key)));
                let region = self.regions.remove(&key);
                let invalidated = self.messages.iter_mut().find_map(|coming| match &mut coming.region {
                    Some((of, _)) if *of == key => coming.region.take().map(|(_, region)| region),
                    _ => None,
                });
                assert_eq!(memory.len(), region.or(invalidated).expect("a registered region").bytes.len());
            }
        }
    }

    fn invalidate_all(&mut self) {
        for (key, region) in std::mem::take(&mut self.regions) {
            let memory = self.end.connection.invalidate(Key(key)).unwrap().expect("nothing is under way");
            check_memory(&memory, &region);
        }
    }

    fn assert_settled(&self) {
        assert_eq!(self.end.fault(), None);
        assert!(self.work.is_empty() && self.messages.is_empty(), "something did not complete");
    }
}

fn check_memory(memory: &Memory, region: &Region) {
    match memory {
        Memory::Sink(sink) => {
            assert!(region.sink && sink.len() == region.bytes.len());
            let is_right = |(held, due): (&u8, &u8)| held == due || (region.loose && *due == UNTOUCHED);
            assert!(sink.iter().zip(&region.bytes).all(is_right), "a sink holds something else");
        }
        Memory::Fresh(_, len) => {
            assert!(region.sink && *len == region.bytes.len());
            assert!(region.bytes.iter().all(|byte| *byte == UNTOUCHED), "a write found no memory");
        }
        Memory::Source(list) => assert!(!region.sink && list.to_vec() == region.bytes),
    }
}

fn size(rng: &mut SmallRng) -> usize {
    match rng.random_range(0..4) {
        0 => rng.random_range(0..4),
        1 => rng.random_range(0..300),
        _ => rng.random_range(0..20_000),
    }
}

/// Selects a region of that kind of the other side, and a range in it.
fn target(of: &Side, sink: bool, rng: &mut SmallRng) -> Option<(u32, usize, usize)> {
    let keys: Vec<u32> = of.regions.iter().filter(|(_, at)| at.sink == sink).map(|(key, _)| *key).collect();
    let key = *keys.get(rng.random_range(0..keys.len().max(1)))?;
    let len = of.regions[&key].bytes.len();
    let start = rng.random_range(0..=len);
    Some((key, start, rng.random_range(0..=len - start)))
}

fn send(from: &mut Side, to: &mut Side, rng: &mut SmallRng) {
    if to.credits == 0 {
        return;
    }
    // A region with no read in flight.
    let region =
        if from.reads.is_empty() && rng.random_bool(0.3) { to.regions.keys().next().copied() } else { None };
    let message = {
        let len = size(rng);
        noise(len, rng)
    };
    let flags = SendFlags { invalidate: region.map(Key), solicited: rng.random_bool(0.2) };
    let id = from.id();
    if from.end.connection.post_send(id, scattered(&message, rng), flags).is_ok() {
        from.work.insert(id, Expected::Sent);
        to.credits -= 1;
        let region = region.and_then(|key| Some((key, to.regions.remove(&key)?)));
        to.messages.push_back(Coming { message, region, solicited: flags.solicited });
    }
}

fn write(from: &mut Side, to: &mut Side, rng: &mut SmallRng) {
    let Some((key, start, len)) = target(to, true, rng) else { return };
    let bytes = noise(len, rng);
    let region = to.regions.get_mut(&key).unwrap();
    let remote = Remote { key: Key(key), offset: region.base.wrapping_add(start as u64) };
    let id = from.id();
    if from.end.connection.post_write(id, scattered(&bytes, rng), remote).is_ok() {
        region.bytes[start..start + len].copy_from_slice(&bytes);
        from.work.insert(id, Expected::Written);
    }
}

fn read(from: &mut Side, to: &Side, rng: &mut SmallRng) {
    let Some((key, start, len)) = target(to, false, rng) else { return };
    let region = &to.regions[&key];
    let remote = Remote { key: Key(key), offset: region.base.wrapping_add(start as u64) };
    let id = from.id();
    if from.end.connection.post_read(id, SegmentMut::zeroed(len), remote).is_ok() {
        from.work.insert(id, Expected::Read(region.bytes[start..start + len].to_vec()));
        from.reads.push_back(id);
    }
}

fn random_config(rng: &mut SmallRng) -> Config {
    Config {
        crc: rng.random_bool(0.5),
        fpdu: [64, 100, 1448, 5000, 61_460, usize::MAX][rng.random_range(0..6)],
        foresee_writes: rng.random_bool(0.5),
        ird: rng.random_range(1..4),
        ord: rng.random_range(1..4),
        send_queue: rng.random_range(1..20),
        receive_queue: rng.random_range(1..10),
        regions: rng.random_range(1..10),
        ..config()
    }
}

/// Returns how many sends, writes and reads have succeeded.
fn run(seed: u64) -> [usize; 3] {
    let mut rng = rng(seed);
    let (mut client, server) = (random_config(&mut rng), random_config(&mut rng));
    client.ird = client.ird.max(server.ord);
    client.peer_to_peer = rng.random_bool(0.5).then_some(ReadyToReceive {
        write: rng.random_bool(0.3),
        read: rng.random_bool(0.3),
        send: true,
    });
    let foresees = [client.foresee_writes, server.foresee_writes];
    let (a, b) = pair(client, server, &mut rng);
    let mut sides = [Side::new(a, foresees[0]), Side::new(b, foresees[1])];
    for _ in 0..rng.random_range(0..STEPS) {
        let which = rng.random_range(0..2);
        let [a, b] = &mut sides;
        let (from, to) = if which == 0 { (a, b) } else { (b, a) };
        match rng.random_range(0..10) {
            0 | 1 => from.receive(&mut rng),
            2 => from.register(&mut rng),
            3 => send(from, to, &mut rng),
            4 => write(from, to, &mut rng),
            5 => read(from, to, &mut rng),
            _ => {
                carry(&mut from.end, &mut to.end, &mut rng);
            }
        }
        sides.iter_mut().for_each(Side::check);
    }
    let [a, b] = &mut sides;
    if rng.random_bool(0.7) {
        // Outside of peer-to-peer mode the server waits for the client's first message.
        b.receive(&mut rng);
        send(a, b, &mut rng);
        settle(&mut a.end, &mut b.end, &mut rng);
        sides.iter_mut().for_each(Side::check);
        sides.iter().for_each(Side::assert_settled);
        sides.iter_mut().for_each(Side::invalidate_all);
    }
    for side in &mut sides {
        side.end.connection.closed();
        side.end.collect();
        side.check();
        assert!(
            side.work.is_empty() && side.receives.is_empty() && side.regions.is_empty(),
            "something is lost"
        );
        assert!(side.messages.iter().all(|coming| coming.region.is_none()));
    }
    let [a, b] = sides.map(|side| side.succeeded);
    std::array::from_fn(|kind| a[kind] + b[kind])
}

#[test]
fn random_work_does_what_it_should() {
    let seen = SEEDS.each("-p onego-rdma --test it simulation::", run);
    let Some(seen) = seen else { return };
    for (kind, name) in ["sends", "writes", "reads"].into_iter().enumerate() {
        let done: usize = seen.iter().map(|done| done[kind]).sum();
        assert!(done > 1000, "only {done} {name} have succeeded");
    }
}

/// A stream with all kinds of segments has the same effect whole and split in two at any byte.
#[test]
fn a_cut_at_any_byte_changes_nothing() {
    for crc in [false, true] {
        let (stream, expected) = effects(crc, None);
        for cut in 0..=stream.len() {
            assert_eq!(effects(crc, Some(cut)).1, expected, "cut at byte {cut}");
        }
    }
}

/// Returns what a client sends, and the server's resulting state if it arrives in two pieces.
fn effects(crc: bool, cut: Option<usize>) -> (Vec<u8>, Vec<String>) {
    let mut rng = rng(4);
    let settings = Config { crc, fpdu: 300, ..config() };
    let (mut client, mut server) = pair(settings.clone(), settings, &mut rng);
    let key = server.connection.register_at(Memory::Sink(filled(2000, UNTOUCHED)), 0).unwrap();
    let source = server.connection.register_at(Memory::Source(noise(1000, &mut rng).into()), 0).unwrap();
    server.connection.post_receive(0, filled(1000, 0)).unwrap();
    server.connection.post_receive(1, filled(1000, 0)).unwrap();
    let post = &mut client.connection;
    post.post_write(0, noise(333, &mut rng).into(), Remote { key, offset: 17 }).unwrap();
    post.post_read(1, SegmentMut::zeroed(500), Remote { key: source, offset: 400 }).unwrap();
    post.post_send(2, noise(700, &mut rng).into(), SendFlags::default()).unwrap();
    post.post_write(3, noise(700, &mut rng).into(), Remote { key, offset: 1000 }).unwrap();
    let flags = SendFlags { invalidate: Some(key), solicited: true };
    post.post_send(4, Segment::from_static(b"end").into(), flags).unwrap();
    let stream = client.output(usize::MAX).to_vec();
    let (first, second) = stream.split_at(cut.unwrap_or(stream.len()));
    for piece in [first, second] {
        server.incoming.extend(piece);
        while server.feed(usize::MAX) > 0 {}
    }
    let mut effects = vec![format!("{:?} {:x?}", server.fault(), server.output(usize::MAX).to_vec())];
    for Completion { id, status, done } in server.completions {
        let CompletedWork::Received { buffer, len, invalidated, .. } = done else { panic!("{done:?}") };
        let sink = match invalidated {
            Some((_, Memory::Sink(sink))) => sink.to_vec(),
            _ => Vec::new(),
        };
        effects.push(format!("{id} {status:?} {len} {:x?} {sink:x?}", &*buffer));
    }
    assert_eq!(effects.len(), 3);
    (stream, effects)
}
