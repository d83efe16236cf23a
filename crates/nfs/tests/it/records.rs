//! Record marking on a fragmented stream: messages survive a round trip, wherever pieces and fragments end.

use onego_buf::{Arena, List, Pool, Segment, SegmentMut};
use onego_nfs::rpc::{
    Call, Credential, Procedure, Record, RecordError, RecordReader, Split, Splitter, put_record,
};
use onego_nfs::v3::{self, Handle, ReadArgs, Stability, WriteArgs, split_call};
use onego_nfs::xdr::{Body, Reader, Writer, Xdr, padding};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const BOUND: usize = 1 << 20;
const FRONT_MAX: usize = 64 << 10;
const LAST: u32 = 1 << 31;

/// A server's splitter; payloads from `places_from` bytes on get a buffer.
struct Calls {
    places_from: usize,
    placed: usize,
}

impl Splitter for Calls {
    fn split(&mut self, start: &[u8]) -> Split {
        split_call(start)
    }

    fn place(&mut self, _: &[u8], payload: usize) -> Option<SegmentMut> {
        (payload >= self.places_from).then(|| {
            self.placed += 1;
            SegmentMut::zeroed(payload)
        })
    }
}

fn handle() -> Handle {
    Handle::new(&[7; 24]).unwrap()
}

fn message<P: Procedure>(xid: u32, args: &P::Args) -> (Vec<u8>, List) {
    let (mut w, mut payload) = (Writer::new(), List::new());
    Call::new(xid, v3::PROGRAM, v3::VERSION, P::NUMBER, Credential::None).encode(&mut w);
    args.write(&mut w, &mut payload);
    (w.as_slice().to_vec(), payload)
}

fn random_message(random: &mut SmallRng, xid: u32) -> (Vec<u8>, List) {
    if random.random_bool(0.3) {
        return message::<v3::Read>(xid, &ReadArgs { file: handle(), offset: 5, count: 4096 });
    }
    let len = match random.random_range(0..3) {
        0 => random.random_range(0..10),
        1 => random.random_range(0..5_000),
        _ => random.random_range(0..200_000),
    };
    let data: Vec<u8> = (0..len).map(|_| random.random()).collect();
    let data = List::from(Segment::from(data));
    message::<v3::Write>(xid, &WriteArgs { file: handle(), offset: 9, stable: Stability::Unstable, data })
}

/// Encodes a message as a record with fragments of random lengths.
fn fragments(random: &mut SmallRng, message: &[u8]) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), message);
    loop {
        let len = if random.random_bool(0.5) { rest.len() } else { random.random_range(0..=rest.len()) };
        let mark = len as u32 | if len == rest.len() { LAST } else { 0 };
        bytes.extend(mark.to_be_bytes());
        bytes.extend(&rest[..len]);
        rest = &rest[len..];
        if rest.is_empty() && mark & LAST != 0 {
            return bytes;
        }
    }
}

/// Feeds a stream to a reader in random pieces, as a driver would, and returns the records.
fn read(random: &mut SmallRng, stream: &[u8], calls: &mut Calls) -> Result<Vec<Record>, RecordError> {
    read_by(RecordReader::new(BOUND), random, stream, calls)
}

fn read_by(
    mut reader: RecordReader,
    random: &mut SmallRng,
    stream: &[u8],
    calls: &mut Calls,
) -> Result<Vec<Record>, RecordError> {
    let (mut records, mut rest) = (Vec::new(), stream);
    while !rest.is_empty() {
        let landing = reader.landing();
        if let Some(mut place) = landing.place {
            let n = random.random_range(0..=place.len()).min(rest.len());
            place[..n].copy_from_slice(&rest[..n]);
            rest = &rest[n..];
            reader.landed(place, n);
        }
        let most = [3, 300, landing.ahead][random.random_range(0..3)];
        let n = random.random_range(0..=most).min(rest.len());
        let mut bytes = Segment::copy_from(&rest[..n]);
        rest = &rest[n..];
        while let Some(record) = reader.next(&mut bytes, calls)? {
            records.push(record);
        }
        assert!(bytes.is_empty(), "all input is consumed");
    }
    Ok(records)
}

fn payload_of(record: &Record) -> Vec<u8> {
    match &record.placed {
        Some(placed) => placed.to_vec(),
        None => record.payload.to_vec(),
    }
}

#[test]
fn messages_survive_a_round_trip() {
    let mut placed = 0;
    for seed in 0..200 {
        let random = &mut SmallRng::seed_from_u64(seed);
        let messages: Vec<_> =
            (0..random.random_range(1..8)).map(|xid| random_message(random, xid)).collect();
        let mut stream = Vec::new();
        for (front, payload) in &messages {
            let fill = vec![0; padding(payload.len())];
            stream.extend(fragments(random, &[&front[..], &payload.to_vec(), &fill].concat()));
        }
        let mut calls = Calls { places_from: 1000, placed: 0 };
        let records =
            read(random, &stream, &mut calls).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(records.len(), messages.len(), "seed {seed}");
        for (record, (front, payload)) in records.iter().zip(&messages) {
            assert!(record.front[..] == front[..], "seed {seed}");
            assert!(payload_of(record) == payload.to_vec(), "seed {seed}");
            assert_eq!(record.placed.is_some(), payload.len() >= 1000, "seed {seed}");
        }
        placed += calls.placed;
    }
    assert!(placed > 100, "{placed}");
}

#[test]
fn put_record_writes_one_fragment() {
    let random = &mut SmallRng::seed_from_u64(1);
    let (mut arena, mut out) = (Arena::new(Pool::new(1 << 20)), List::new());
    let messages: Vec<_> = (0..50).map(|xid| random_message(random, xid)).collect();
    for (front, payload) in &messages {
        put_record(front, payload.clone(), &mut arena, &mut out);
    }
    arena.flush(&mut out);
    let mut calls = Calls { places_from: usize::MAX, placed: 0 };
    let records = read(random, &out.to_vec(), &mut calls).unwrap();
    assert_eq!(records.len(), messages.len());
    for (record, (front, payload)) in records.iter().zip(&messages) {
        assert!(record.front[..] == front[..] && payload_of(record) == payload.to_vec());
        let mut r = Reader::new(&record.front);
        Call::decode(&mut r).unwrap();
    }
}

#[test]
fn wrong_lengths_end_the_connection() {
    let random = &mut SmallRng::seed_from_u64(2);
    let mut calls = Calls { places_from: 1, placed: 0 };
    let data = List::from(Segment::from(vec![1; 100]));
    let args = WriteArgs { file: handle(), offset: 0, stable: Stability::Unstable, data };
    let (front, payload) = message::<v3::Write>(1, &args);
    let whole = [&front[..], &payload.to_vec()].concat();
    let record = |message: &[u8]| [&(LAST | message.len() as u32).to_be_bytes(), message].concat();

    let short = record(&whole[..whole.len() - 1]);
    assert!(matches!(read(random, &short, &mut calls), Err(RecordError::Length { .. })));
    let long = record(&[&whole[..], &[0; 4]].concat());
    assert!(matches!(read(random, &long, &mut calls), Err(RecordError::Length { .. })));
    let mut huge = whole.clone();
    let at = front.len() - 4;
    huge[at..at + 4].copy_from_slice(&u32::MAX.to_be_bytes());
    assert!(matches!(read(random, &record(&huge), &mut calls), Err(RecordError::Length { .. })));
    assert_eq!(calls.placed, 0, "no memory is allocated for an impossible payload");

    let beyond = (LAST | (BOUND as u32 + 1)).to_be_bytes();
    let error = read(random, &beyond, &mut calls).unwrap_err();
    assert_eq!(error, RecordError::TooLong { len: BOUND + 1, bound: BOUND });
    let half = (BOUND as u32 / 2 + 1).to_be_bytes();
    let fill = vec![0; BOUND / 2 + 1];
    let twice = [&half[..], &fill, &half].concat();
    assert!(matches!(read(random, &twice, &mut calls), Err(RecordError::TooLong { .. })));
}

#[test]
fn a_server_accepts_records_with_wrong_lengths_and_later_ones() {
    let mut broken = 0;
    for seed in 0..300 {
        let random = &mut SmallRng::seed_from_u64(seed);
        let mut stream = Vec::new();
        let messages: Vec<_> = (0..6)
            .map(|xid| {
                let (front, payload) = random_message(random, xid);
                let mut message = [&front[..], &payload.to_vec(), &vec![0; padding(payload.len())]].concat();
                let lies = !payload.is_empty() && random.random_bool(0.5);
                if lies {
                    let told = match random.random_range(0..3) {
                        0 => random.random(),
                        1 => payload.len() as u32 + 4 * random.random_range(1..100),
                        _ => (payload.len() as u32).saturating_sub(4 * random.random_range(1..100)),
                    };
                    message[front.len() - 4..front.len()].copy_from_slice(&told.to_be_bytes());
                }
                stream.extend(fragments(random, &message));
                (message[..front.len()].to_vec(), payload.to_vec(), lies)
            })
            .collect();
        let mut calls = Calls { places_from: 1000, placed: 0 };
        let records =
            read_by(RecordReader::for_server(BOUND, FRONT_MAX), random, &stream, &mut calls).unwrap();
        assert_eq!(records.len(), messages.len(), "seed {seed}");
        for (record, (front, payload, lies)) in records.iter().zip(&messages) {
            assert_eq!(record.broken, *lies, "seed {seed}");
            assert!(record.front[..] == front[..], "seed {seed}");
            assert!(payload_of(record) == if *lies { &[][..] } else { payload }, "seed {seed}");
            broken += usize::from(*lies);
        }
    }
    assert!(broken > 300, "{broken}");
}

fn fragment(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

#[test]
fn a_front_in_fragments_of_one_byte_keeps_no_receive_buffers() {
    let mut reader = RecordReader::for_server(BOUND, FRONT_MAX);
    let mut calls = Calls { places_from: 1000, placed: 0 };
    let (front, _) = message::<v3::Read>(1, &ReadArgs { file: handle(), offset: 5, count: 4096 });
    let pool = Pool::new(1 << 20);
    for byte in &front[..front.len() - 1] {
        // Each byte is received separately into a large block that others would share.
        let mut block = pool.get(1 << 18);
        block[..5].copy_from_slice(&fragment(&[*byte]));
        assert!(reader.next(&mut block.freeze().slice(..5), &mut calls).unwrap().is_none());
        let unfinished = reader.unfinished().unwrap();
        assert!(unfinished.held > 0 && unfinished.held <= front.len());
        assert_eq!(pool.stats().idle_bytes, 1 << 18, "the block has returned to the pool");
    }
    let mut end = Segment::from([&(LAST | 1).to_be_bytes()[..], &front[front.len() - 1..]].concat());
    let record = reader.next(&mut end, &mut calls).unwrap().unwrap();
    assert_eq!((&record.front[..], reader.unfinished()), (&front[..], None));
}

#[test]
fn a_server_rejects_an_overlong_front() {
    let mut calls = Calls { places_from: 1000, placed: 0 };
    let (front, _) = message::<v3::Read>(7, &ReadArgs { file: handle(), offset: 5, count: 4096 });
    let long = [&front[..], &vec![1; BOUND - front.len()]].concat();
    for len in [1, 1000, BOUND] {
        let mut reader = RecordReader::for_server(BOUND, FRONT_MAX);
        let last = long.len().div_ceil(len) - 1;
        let mut records = Vec::new();
        for (n, part) in long.chunks(len).enumerate() {
            let mark = part.len() as u32 | if n == last { LAST } else { 0 };
            let mut bytes = Segment::from([&mark.to_be_bytes()[..], part].concat());
            records.extend(reader.next(&mut bytes, &mut calls).unwrap());
            assert!(reader.unfinished().is_none_or(|unfinished| unfinished.held <= FRONT_MAX));
        }
        assert_eq!(records.len(), 1);
        assert!(records[0].broken && records[0].front.starts_with(&front) && records[0].payload.is_empty());
        let mut next = Segment::from([&(LAST | front.len() as u32).to_be_bytes()[..], &front].concat());
        assert_eq!(&reader.next(&mut next, &mut calls).unwrap().unwrap().front[..], &front[..]);
    }
}

#[test]
fn no_input_causes_a_panic() {
    for seed in 0..300 {
        let random = &mut SmallRng::seed_from_u64(seed);
        let (front, payload) = random_message(random, 1);
        let mut stream = fragments(random, &[&front[..], &payload.to_vec()].concat());
        for _ in 0..random.random_range(1..6) {
            let at = random.random_range(0..stream.len().min(150));
            stream[at] = random.random();
        }
        let mut calls = Calls { places_from: 1, placed: 0 };
        if let Ok(records) = read(random, &stream, &mut calls) {
            for record in records {
                let mut r = Reader::new(&record.front);
                let _ =
                    Call::decode(&mut r).and_then(|_| WriteArgs::read(&mut r, &mut record.payload.clone()));
            }
        }
    }
}
