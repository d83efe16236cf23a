//! Connections with compressed frames.

use crate::support::*;
use onego_buf::{Segment, crc32c};
use onego_msgr::{
    Blame, Compression, Config, Connection, Error, Event, Limits, Message, Method, NoPlacer, Tag,
};
use proptest::prelude::*;

const METHODS: [Method; 4] = [Method::Snappy, Method::Zlib, Method::Zstd, Method::Lz4];

const FLAGS_AT: usize = 26;

fn compressing(config: Config, method: Method, min_size: u32) -> Config {
    Config { compression: Some(Compression { methods: vec![method], min_size, secure: false }), ..config }
}

fn ready_by(method: Method) -> (Connection, Connection) {
    let ends = [client_config(), server_config()].map(|config| compressing(config, method, 1024));
    let [client, server] = ends;
    let (client, server, of_client, of_server) = ready_with(client, server);
    assert_eq!((of_client.compression, of_server.compression), (Some(method), Some(method)));
    (client, server)
}

/// Mostly compressible message.
fn compressible(tid: u64, data: usize) -> Message {
    let mut message = message(tid, 300, 0);
    message.data = vec![tid as u8; data].into();
    message
}

fn compressed_frame(tag: Tag, segments: &[&[u8]]) -> Vec<u8> {
    let lens: Vec<u32> = segments.iter().map(|segment| segment.len() as u32).collect();
    let mut bytes = preamble(tag as u8, &lens);
    bytes[FLAGS_AT] = 1;
    let crc = crc32c(0, &bytes[..28]);
    bytes[28..].copy_from_slice(&crc.to_le_bytes());
    let (first, rest) = segments.split_first().unwrap();
    bytes.extend_from_slice(first);
    bytes.extend(crc32c(u32::MAX, first).to_le_bytes());
    if !rest.is_empty() {
        rest.iter().for_each(|segment| bytes.extend_from_slice(segment));
        bytes.push(0xe);
        for i in 0..3 {
            let crc = rest.get(i).map_or(0, |segment| crc32c(u32::MAX, segment));
            bytes.extend(crc.to_le_bytes());
        }
    }
    bytes
}

/// Returns a snappy segment with a single literal.
fn snappy(bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 128 && !bytes.is_empty());
    let mut segment = vec![bytes.len() as u8, 60 << 2, bytes.len() as u8 - 1];
    segment.extend_from_slice(bytes);
    segment
}

fn header() -> [u8; 41] {
    let mut header = [0; 41];
    (header[0], header[16], header[20]) = (1, 42, 8);
    header
}

#[test]
fn frames_at_or_above_the_threshold_are_compressed_both_ways() {
    for method in METHODS {
        let (mut client, mut server) = ready_by(method);
        for (from, to) in [(0, 1), (1, 0)] {
            let ends = [&mut client, &mut server];
            let mut ends = ends.map(Some);
            let (from, to) = (ends[from].take().unwrap(), ends[to].take().unwrap());
            from.send(compressible(1, 1024 - 41 - 300 - 1));
            let small = output(from);
            assert_eq!((small[FLAGS_AT], small.len()), (0, 32 + 41 + 4 + 300 + 682 + 13));
            from.send(compressible(2, 1024 - 41 - 300));
            let large = output(from);
            assert_eq!(large[FLAGS_AT], 1);
            assert!(large.len() < 700, "{method}: {}", large.len());
            deliver_whole(to, &[small, large].concat());
            let events = events(to);
            let [Event::Message(one), Event::Message(two)] = &events[..] else { panic!("{events:?}") };
            assert_eq!((one.header.tid, two.header.tid, two.header.seq), (1, 2, 2));
            assert_eq!((&two.front[..], payload(two)), (&pattern(1, 300)[..], vec![2; 683]));
        }
    }
}

#[test]
fn compression_never_enlarges_a_frame() {
    let mut noise = vec![0u8; 5000];
    let mut state = 1u32;
    noise.fill_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    });
    for method in METHODS {
        let (mut client, mut server) = ready_by(method);
        let mut message = message(1, 10, 0);
        message.data = noise.clone().into();
        client.send(message);
        let bytes = output(&mut client);
        // Some methods gain as much on the header as they lose on the rest; lz4 does not.
        assert!(bytes.len() <= 32 + 41 + 4 + 10 + 5000 + 13, "{method}: {}", bytes.len());
        assert!(method != Method::Lz4 || bytes[FLAGS_AT] == 0);
        deliver_whole(&mut server, &bytes);
        let events = events(&mut server);
        assert!(matches!(&events[..], [Event::Message(got)] if payload(got) == noise));
    }
}

#[test]
fn compression_by_one_side_only_is_not_used_and_costs_no_round_trip() {
    let with = |config| compressing(config, Method::Snappy, 1024);
    for (client, server) in
        [(with(client_config()), server_config()), (client_config(), with(server_config()))]
    {
        let (mut client, mut server, of_client, of_server) = ready_with(client, server);
        assert_eq!((of_client.compression, of_server.compression), (None, None));
        client.send(compressible(1, 5000));
        let bytes = output(&mut client);
        assert_eq!(bytes[FLAGS_AT], 0);
        deliver_whole(&mut server, &bytes);
        assert!(matches!(&events(&mut server)[..], [Event::Message(_)]));
    }
    // Both sides compress, but with different methods.
    let (client, server) = (with(client_config()), compressing(server_config(), Method::Lz4, 1024));
    let (_, _, of_client, of_server) = ready_with(client, server);
    assert_eq!((of_client.compression, of_server.compression), (None, None));
}

#[test]
fn control_frames_are_compressed_too_without_a_threshold() {
    let many = (0..40).map(|i| format!("v2:10.0.0.1:{}/5", 6800 + i)).collect::<Vec<_>>().join(",");
    let mut config = compressing(server_config(), Method::Zstd, 0);
    config.addrs = format!("[{many}]").parse().unwrap();
    let (mut client, mut server) = {
        let client = client(compressing(client_config(), Method::Zstd, 0), target());
        (client, server(config))
    };
    let mut idents = 0;
    while client.has_output() || server.has_output() {
        let bytes = output(&mut client);
        deliver_whole(&mut server, &bytes);
        let bytes = output(&mut server);
        idents += usize::from(bytes.first() == Some(&(Tag::ServerIdent as u8)) && bytes[FLAGS_AT] == 1);
        deliver_whole(&mut client, &bytes);
    }
    assert_eq!(idents, 1, "the server's identification was compressed");
    let events = events(&mut client);
    assert!(matches!(&events[..], [Event::Ready(peer)] if peer.addrs.0.len() == 40), "{events:?}");
}

#[test]
fn compression_that_was_not_negotiated_is_refused() {
    let frame = compressed_frame(Tag::Message, &[&snappy(&header()), &snappy(b"front")]);
    let (_, mut server) = ready();
    deliver_whole(&mut server, &frame);
    let error = fault(&mut server);
    assert_eq!((&error, error.blame()), (&Error::NotAgreed, Blame::Peer));
    // The same frame on a connection with negotiated compression.
    let (_, mut server) = ready_by(Method::Snappy);
    deliver_whole(&mut server, &frame);
    let events = events(&mut server);
    assert!(matches!(&events[..], [Event::Message(got)] if &got.front[..] == b"front"), "{events:?}");
}

/// Returns the error for a frame with these segments, with limits of a few bytes.
fn refused(segments: &[&[u8]]) -> Error {
    let limits = Limits { control: 1000, front: 100, middle: 50, data: 60, unpacked: u32::MAX, discard: 0 };
    let config = Config { limits, ..compressing(server_config(), Method::Snappy, 0) };
    let (_, mut server, ..) = ready_with(compressing(client_config(), Method::Snappy, 0), config);
    deliver_whole(&mut server, &compressed_frame(Tag::Message, segments));
    fault(&mut server)
}

#[test]
fn excessive_lengths_are_refused_before_memory_is_allocated() {
    let header = snappy(&header());
    let bomb = b"\xff\xff\xff\xff\x0f\0a".as_slice();
    let too_long = |what, len, bound| Error::TooLong { what, len, bound };
    assert_eq!(refused(&[bomb]), too_long("a message's header", u32::MAX.into(), 41));
    assert_eq!(refused(&[&header, bomb]), too_long("a message's front", u32::MAX.into(), 100));
    assert_eq!(refused(&[&header, &[], bomb]), too_long("a message's middle", u32::MAX.into(), 50));
    assert_eq!(refused(&[&header, &[], &[], bomb]), too_long("a message's payload", u32::MAX.into(), 60));
    assert_eq!(refused(&[&header, &[], &[], &snappy(&[1; 61])]), too_long("a message's payload", 61, 60));
    // The compressed size may exceed the limit by a little.
    let wire = refused(&[&header, &[], &[], &[0; 60 + 10 + 64 + 1]]);
    assert_eq!(wire, too_long("message payload", 135, 134));
}

#[test]
fn a_payload_that_decompresses_beyond_its_limit_is_discarded_compressed() {
    const BOUND: u32 = 100_000;
    for method in METHODS {
        let limits = Limits { unpacked: BOUND, discard: u32::MAX, ..Limits::default() };
        let server = Config { limits, ..compressing(server_config(), method, 1024) };
        let (mut client, mut server, ..) = ready_with(compressing(client_config(), method, 1024), server);
        for (tid, len) in [(1, BOUND), (2, BOUND + 1), (3, 40 * BOUND), (4, 2000)] {
            client.send(compressible(tid, len as usize));
            let bytes = output(&mut client);
            assert_eq!(bytes[FLAGS_AT], 1, "{method}: sent compressed");
            // Placing it would take memory.
            server.received(START, Segment::copy_from(&bytes), &mut PlaceFrom(BOUND as usize + 1));
            let events = events(&mut server);
            let [Event::Message(got)] = &events[..] else { panic!("{method}, {len} bytes: {events:?}") };
            let (kept, discarded) = if len <= BOUND { (len, 0) } else { (0, len) };
            assert!(got.placed.is_none() && got.header.tid == tid && !got.front.is_empty());
            assert_eq!(got.data.len(), kept as usize, "{method}");
            // zlib does not state the length: decompression ends at the limit.
            let least = if method == Method::Zlib { discarded.min(BOUND + 1) } else { discarded };
            assert_eq!(got.discarded, least as usize, "{method}");
        }
    }
}

#[test]
fn messages_that_arrive_together_are_decompressed_a_few_at_a_time() {
    let (mut client, mut server) = ready_by(Method::Zstd);
    for tid in 1..=40 {
        client.send(compressible(tid, 2 << 20));
    }
    let bytes = output(&mut client);
    assert!(bytes.len() < 100_000);
    deliver_whole(&mut server, &bytes);
    assert_eq!(server.events(), 8, "with fronts, they exceed 16 MiB");
    for tid in 1..=40 {
        assert!(server.has_event());
        let Some(Event::Message(got)) = server.poll() else { panic!("message {tid} is missing") };
        assert_eq!((got.header.tid, got.data.len()), (tid, 2 << 20));
        assert!(server.events() <= 8);
        // Bytes that arrive meanwhile are queued after the rest.
        if tid == 20 {
            client.send(compressible(41, 2000));
            let bytes = output(&mut client);
            deliver_whole(&mut server, &bytes);
        }
    }
    let Some(Event::Message(last)) = server.poll() else { panic!("the last message is missing") };
    assert_eq!(last.header.tid, 41);
    assert!(server.poll().is_none() && !server.has_event());
}

#[test]
fn long_payloads_are_sent_uncompressed() {
    let (mut client, mut server) = ready_by(Method::Zstd);
    for (tid, len, is_compressed) in [(1, 16 << 20, 1), (2, (16 << 20) + 1, 0)] {
        client.send(compressible(tid, len));
        let bytes = output(&mut client);
        assert_eq!(bytes[FLAGS_AT], is_compressed, "{len} bytes");
        deliver_whole(&mut server, &bytes);
        let events = events(&mut server);
        assert!(matches!(&events[..], [Event::Message(got)] if payload(got).len() == len));
    }
}

#[test]
fn corruption_without_a_checksum_error_is_refused() {
    let packed = snappy(&header());
    let broken = |error: Error, what| {
        assert!(matches!(error, Error::Compressed { what: found, .. } if found == what), "{error}");
        assert_eq!(error.blame(), Blame::Peer);
    };
    broken(refused(&[&packed[..20]]), "a message's header");
    broken(refused(&[&packed, b"\x05\x10abc"]), "a message's front");
    broken(refused(&[&packed, &[], &[], b"\x05\x10abcdefgh"]), "a message's payload");
    assert!(matches!(refused(&[&snappy(&header()[..40])]), Error::BadFrame(_)));
}

#[test]
fn a_place_is_returned_when_its_payload_cannot_be_decompressed() {
    let (_, mut server) = ready_by(Method::Snappy);
    // The stated length is 100 bytes; there are three.
    let bytes = compressed_frame(Tag::Message, &[&snappy(&header()), &[], &[], b"\x64\x08abc"]);
    server.received(START, Segment::copy_from(&bytes), &mut PlaceFrom(1));
    let events = events(&mut server);
    let [Event::Unplaced(header, place), Event::Fault(Error::Compressed { .. })] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((header.seq, header.kind, place.len()), (1, 42, 100));
}

#[test]
fn a_client_leaves_a_server_that_chooses_a_method_it_did_not_offer() {
    let mut client = client(compressing(client_config(), Method::Snappy, 0), target());
    let mut server = server(compressing(server_config(), Method::Snappy, 0));
    // Banners, then HELLO and AUTH_REQUEST; then the signature, followed by the request.
    for _ in 0..2 {
        exchange(&mut client, &mut server);
    }
    let bytes = output(&mut client);
    let request = frame(Tag::CompressionRequest, &[1, 1, 0, 0, 0, 1, 0, 0, 0]);
    assert!(bytes.ends_with(&request), "{bytes:?}");
    deliver_whole(&mut client, &frame(Tag::CompressionDone, &[1, 2, 0, 0, 0]));
    assert_eq!(fault(&mut client), Error::CompressionMethod(2));
}

#[test]
fn an_unexpected_negotiation_of_compression_is_refused() {
    for tag in [Tag::CompressionRequest, Tag::CompressionDone] {
        let (_, mut server) = ready();
        deliver_whole(&mut server, &frame(tag, &[0; 9]));
        assert!(matches!(fault(&mut server), Error::Unexpected { tag: found, .. } if found == tag));
    }
    // A client that has the feature but skips the negotiation.
    let config = |config| compressing(config, Method::Snappy, 0);
    let (mut client, mut server) =
        (client(config(client_config()), target()), server(config(server_config())));
    for _ in 0..2 {
        exchange(&mut client, &mut server);
    }
    let bytes = output(&mut client);
    deliver_whole(&mut server, &bytes[..32 + 32 + 4]);
    deliver_whole(&mut server, &frame(Tag::ClientIdent, &[0; 60]));
    assert!(matches!(fault(&mut server), Error::Unexpected { tag: Tag::ClientIdent, .. }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is sent and however it is cut, it arrives unchanged, in its place if it has one.
    #[test]
    fn messages_arrive_compressed_however_they_are_cut(
        plans in plans(),
        method in prop::sample::select(&METHODS[..]),
        min_size in prop_oneof![Just(0u32), Just(1024), Just(20_000)],
        place_from in prop_oneof![Just(0usize), Just(5000), Just(usize::MAX)],
        cuts in prop::collection::vec(1..9000usize, 1..20),
    ) {
        let [client, server] = [client_config(), server_config()].map(|it| compressing(it, method, min_size));
        let (mut client, mut server, _, _) = ready_with(client, server);
        for (tid, plan) in plans.iter().enumerate() {
            client.send(planned(tid, plan));
        }
        let bytes = output(&mut client);
        let mut cut = cuts.iter().cycle();
        deliver(&mut server, &bytes, &mut PlaceFrom(place_from), || *cut.next().unwrap());
        arrived(&mut server, &plans, place_from)?;
    }
}

#[test]
fn an_aborted_compressed_message_is_ignored() {
    let (mut client, mut server) = ready_by(Method::Lz4);
    client.send(compressible(1, 5000));
    let mut given_up = output(&mut client);
    let status = given_up.len() - 13;
    given_up[status] = 1;
    deliver_whole(&mut server, &given_up);
    client.send(compressible(2, 5000));
    let bytes = output(&mut client);
    server.received(START, Segment::copy_from(&bytes), &mut NoPlacer);
    let events = events(&mut server);
    assert!(matches!(&events[..], [Event::Message(got)] if got.header.tid == 2), "{events:?}");
}
