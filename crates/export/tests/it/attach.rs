//! A connected socket whose peer does not shake hands, as the kernel's client.

use onego_block::{Geometry, Memory};
use onego_engine::{EngineKind, Pump, Wait};
use onego_export::nbd::{Config, Export, Server, kernel_info};
use onego_nbd::codec::{
    COMPACT_REQUEST_LEN, CommandFlags, HeaderStyle, RequestHeader, RequestType, SIMPLE_REPLY_LEN,
    TransmissionFlags,
};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

const SIZE: u64 = 1 << 20;

fn server() -> Server {
    let mut server = Server::new(Config::default());
    let device = Rc::new(Memory::new(Geometry::new(SIZE)));
    let export = Export { name: "disk".into(), description: String::new(), device, read_only: false };
    server.add_export(export).unwrap();
    server
}

fn request(command: RequestType, cookie: u64, offset: u64, length: u64) -> Vec<u8> {
    let header = RequestHeader { flags: CommandFlags::default(), command, cookie, offset, length };
    let bytes = header.encode(HeaderStyle::Simple);
    assert_eq!(bytes.len(), COMPACT_REQUEST_LEN);
    bytes
}

#[test]
fn a_peer_that_was_told_of_the_export_is_served_from_its_first_request_on() {
    let mut server = server();
    let (ours, mut peer) = UnixStream::pair().unwrap();
    assert!(server.attach(ours.into(), "disk"));
    let mut pump = Pump::new(onego_engine::open(EngineKind::default()).unwrap(), server);
    let mut asked = request(RequestType::Write, 1, 4096, 4);
    asked.extend(b"abcd");
    asked.extend(request(RequestType::Read, 2, 4095, 6));
    peer.write_all(&asked).unwrap();
    let mut said = [0; 2 * SIMPLE_REPLY_LEN + 6];
    peer.set_nonblocking(true).unwrap();
    let mut at = 0;
    while at < said.len() {
        pump.turn(Wait::Poll).unwrap();
        at += peer.read(&mut said[at..]).unwrap_or(0);
    }
    assert_eq!(&said[2 * SIMPLE_REPLY_LEN..], b"\0abcd\0");
    assert_eq!(pump.machine().connections(), 1);
    peer.write_all(&request(RequestType::Disconnect, 3, 0, 0)).unwrap();
    while pump.machine().connections() > 0 {
        pump.turn(Wait::Poll).unwrap();
    }
}

#[test]
fn an_export_that_is_not_there_takes_no_peer() {
    let (ours, _peer) = UnixStream::pair().unwrap();
    assert!(!server().attach(ours.into(), "other"));
}

#[test]
fn the_kernel_is_told_what_it_may_do() {
    type Can = TransmissionFlags;
    let mut geometry = Geometry::new(SIZE);
    geometry.trim_granularity = Some(4096);
    let info = kernel_info(&geometry, false);
    assert_eq!(info.size, SIZE);
    assert!(info.flags.contains(Can::HAS_FLAGS | Can::SEND_FLUSH | Can::SEND_FUA | Can::SEND_TRIM));
    assert!(!info.flags.contains(Can::SEND_DF), "it knows no structured replies");
    let info = kernel_info(&geometry, true);
    assert!(info.flags.contains(Can::READ_ONLY) && !info.flags.contains(Can::SEND_TRIM));
}
