//! Recordings of real peers are decoded completely and encoded back to the same bytes.

use super::banner::Banner;
use super::control::{AuthDone, AuthRequest, Hello, NO_SIGNATURE};
use super::frame::Framing;
use super::input::Frame;
use super::pack::Packer;
use super::receive::Receiver;
use super::send::Sender;
use super::unpack::Unpacker;
use crate::claim::Ident;
use crate::compression::Method;
use crate::config::Limits;
use crate::message::{Message, NoPlacer};
use crate::protocol::{Input, Receive as _};
use crate::send::outbox::Outbox;
use crate::tag::Tag;
use crate::types::Utime;
use crate::types::encoding::{Decode, Encode};
use onego_buf::{List, Pool, Segment};
use onego_wire::{Reader, Writer};

const MON_CLIENT: &[u8] = include_bytes!("../../tests/data/msgr2-mon-client.bin");
const MON_SERVER: &[u8] = include_bytes!("../../tests/data/msgr2-mon-server.bin");
const OSD_OP: &[u8] = include_bytes!("../../tests/data/msgr2-osd-op.bin");
const OSD_OP_REPLY: &[u8] = include_bytes!("../../tests/data/msgr2-osd-op-reply.bin");

/// Compressed frames from one OSD of Ceph 18.2.7 to another.
const COMPRESSED: [(Method, &[u8]); 4] = [
    (Method::Snappy, include_bytes!("../../tests/data/msgr2-compressed-snappy.bin")),
    (Method::Zlib, include_bytes!("../../tests/data/msgr2-compressed-zlib.bin")),
    (Method::Zstd, include_bytes!("../../tests/data/msgr2-compressed-zstd.bin")),
    (Method::Lz4, include_bytes!("../../tests/data/msgr2-compressed-lz4.bin")),
];

const FRAMING: Framing = Framing::new(true);

const BANNER_LEN: usize = 26;

fn echo(
    input: Input<Frame>,
    rx: &mut Receiver,
    from_client: bool,
    out: &mut Sender,
    outbox: &mut Outbox,
    sent: &mut List,
) {
    match input {
        Input::Frame(Frame::Banner(_)) => {}
        Input::Frame(Frame::Control(tag, payload)) => {
            out.control(tag, |w| echo_control(tag, &payload, from_client, w));
        }
        Input::Message => {
            let message = rx.take_message();
            let ack = message.header.ack_seq;
            outbox.push(message);
            out.transmit(sent, usize::MAX, outbox, ack);
        }
        Input::Aborted(..) => panic!("nothing is aborted here"),
    }
    out.transmit_control(sent);
}

fn echo_control(tag: Tag, payload: &[u8], from_client: bool, w: &mut Writer) {
    match tag {
        Tag::Hello => Hello::from_bytes(payload).unwrap().encode(w),
        Tag::AuthRequest => AuthRequest::from_bytes(payload).unwrap().encode(w),
        Tag::AuthDone => AuthDone::from_bytes(payload).unwrap().encode(w),
        Tag::AuthSignature => {
            assert_eq!(payload, NO_SIGNATURE);
            w.put(payload);
        }
        Tag::ClientIdent | Tag::ServerIdent => {
            assert_eq!(tag == Tag::ClientIdent, from_client);
            let mut r = Reader::new(payload);
            let ident = if from_client { Ident::decode_client(&mut r) } else { Ident::decode_server(&mut r) };
            ident.unwrap().encode(w);
            r.finish("ident").unwrap();
        }
        Tag::Keepalive2 | Tag::Keepalive2Ack => Utime::from_bytes(payload).unwrap().encode(w),
        Tag::Ack => w.u64(u64::from_bytes(payload).unwrap()),
        tag => panic!("{tag:?} is not in the recordings"),
    }
}

/// Decodes `stream`, which begins with a banner, in pieces of `step` bytes, and encodes everything after the banner.
fn echoed(stream: &[u8], from_client: bool, step: usize) -> (Vec<u8>, usize) {
    let mut outbox = Outbox::new(false);
    let (mut rx, mut tx) =
        (Receiver::new(FRAMING, Limits::default()), Sender::new(FRAMING, Pool::new(1 << 20)));
    rx.allow_messages();
    let (mut sent, mut inputs) = (List::new(), 0);
    for piece in stream.chunks(step) {
        let mut piece = Segment::copy_from(piece);
        while let Some(input) = rx.next(&mut piece, &mut NoPlacer).unwrap() {
            inputs += 1;
            echo(input, &mut rx, from_client, &mut tx, &mut outbox, &mut sent);
        }
    }
    (sent.to_vec(), inputs)
}

#[test]
fn a_conversation_with_a_monitor_is_encoded_to_its_bytes() {
    for step in [1, 7, 100, usize::MAX] {
        let (client, inputs) = echoed(MON_CLIENT, true, step);
        assert_eq!((&*client, inputs), (&MON_CLIENT[BANNER_LEN..], 8));
        let (server, inputs) = echoed(MON_SERVER, false, step);
        assert_eq!((&*server, inputs), (&MON_SERVER[BANNER_LEN..], 8));
    }
    // The kernel requires revision 1, as this side does; Ceph's banner requires nothing.
    assert_eq!(Banner::of_this_side(false).to_wire(), MON_CLIENT[..BANNER_LEN]);
}

#[test]
fn messages_with_payload_are_encoded_to_their_bytes() {
    for (frame, data_len) in [(OSD_OP, 9), (OSD_OP_REPLY, 16)] {
        let stream = [&Banner::of_this_side(false).to_wire(), frame].concat();
        assert_eq!(echoed(&stream, true, 13), (frame.to_vec(), 2));
        let mut rx = Receiver::new(FRAMING, Limits::default());
        rx.allow_messages();
        let mut bytes = Segment::from(stream);
        assert!(matches!(rx.next(&mut bytes, &mut NoPlacer), Ok(Some(Input::Frame(Frame::Banner(_))))));
        assert!(matches!(rx.next(&mut bytes, &mut NoPlacer), Ok(Some(Input::Message))));
        let message = rx.take_message();
        assert_eq!((message.header.tid, message.data.len(), message.middle), (1, data_len, None));
    }
}

/// Returns the only message in `stream`, which begins with a banner.
fn received(method: Method, stream: &[u8]) -> Message {
    let (limits, pool) = (Limits::default(), Pool::new(1 << 20));
    let mut rx = Receiver::new(FRAMING, limits);
    rx.allow_messages();
    rx.unpack(Unpacker::new(method, limits, pool).unwrap());
    let mut bytes = Segment::copy_from(stream);
    assert!(matches!(rx.next(&mut bytes, &mut NoPlacer), Ok(Some(Input::Frame(Frame::Banner(_))))));
    assert!(matches!(rx.next(&mut bytes, &mut NoPlacer), Ok(Some(Input::Message))));
    let message = rx.take_message();
    assert!(matches!(rx.next(&mut bytes, &mut NoPlacer), Ok(None)) && bytes.is_empty());
    message
}

#[test]
fn compressed_messages_of_real_osds_are_decoded_and_those_encoded_here_decode_alike() {
    let banner = Banner::of_this_side(true).to_wire();
    assert_eq!(banner[10..18], [3, 0, 0, 0, 0, 0, 0, 0], "as in Ceph from 17 on");
    for (method, frame) in COMPRESSED {
        let theirs = received(method, &[&*banner, frame].concat());
        // MSG_OSD_REPOP, whose data is a transaction with the object's content.
        assert_eq!((theirs.header.kind, theirs.middle.as_deref()), (112, None), "{method}");
        let data = theirs.data.to_vec();
        let content = b"onego compresses frames\n".repeat(4000 / 24 + 1);
        assert!(data.windows(4000).any(|window| window == &content[..4000]), "{method}");
        assert!(theirs.front.len() > 500 && frame.len() < 1000, "{method}: {}", theirs.front.len());

        let mut outbox = Outbox::new(false);
        let mut tx = Sender::new(FRAMING, Pool::new(1 << 20));
        tx.pack(Packer::new(method, 1024, Pool::new(1 << 20)).unwrap());
        let (front, header) = (theirs.front.clone(), theirs.header);
        outbox.push(theirs);
        let mut ours = List::new();
        tx.transmit(&mut ours, usize::MAX, &mut outbox, header.ack_seq);
        assert_eq!(ours.to_vec()[26], 1, "{method}");
        let again = received(method, &[banner.clone(), ours.to_vec()].concat());
        assert_eq!((&again.front, again.data.to_vec()), (&front, data), "{method}");
        // Sequence numbers are per connection.
        assert_eq!((again.header.tid, again.header.kind), (header.tid, header.kind));
    }
}
