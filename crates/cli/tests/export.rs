//! `onego export nbd`, up to its clients.

mod support;

use rustix::process::Signal;
use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use support::{Place, signal};

/// A server that has said it is ready, with what it said.
fn serve(place: &Place, line: &str) -> (Child, String) {
    let mut child = place.command(line).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let ready = lines.into_iter().find_map(|line| line.strip_prefix("ready: ").map(str::to_owned));
    (child, ready.expect("the server does not start"))
}

/// Ends it, and says with which code it ended.
fn stop(mut child: Child) -> Option<i32> {
    signal(&child, Signal::TERM);
    child.wait().unwrap().code()
}

/// Does a server of NBD greet there (nbd proto.md, 'Newstyle negotiation')?
fn greets(mut stream: impl std::io::Read) {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
}

#[test]
fn memory_is_served_over_tcp_until_a_signal_comes() {
    let place = Place::new();
    let (server, uri) = serve(&place, "export nbd mem:16M --listen 127.0.0.1:0");
    let addr = uri.strip_prefix("nbd://").unwrap().strip_suffix("/mem").unwrap();
    greets(TcpStream::connect(addr).unwrap());
    assert_eq!(stop(server), Some(0));
    assert!(TcpStream::connect(addr).is_err());
}

#[test]
fn a_unix_socket_is_made_replaced_when_left_and_removed() {
    let place = Place::new();
    let line = "export nbd null:1G --socket nbd.sock --reactors 2";
    let (mut server, uri) = serve(&place, line);
    assert_eq!(uri, "nbd+unix:///null?socket=nbd.sock");
    for _ in 0..8 {
        greets(UnixStream::connect(place.path("nbd.sock")).unwrap());
    }
    // One that is served is not taken away.
    let (code, said) = place.onego_fails(line);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("is another server there?"), "{said}");
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(place.path("nbd.sock").exists());
    let (server, _) = serve(&place, line);
    greets(UnixStream::connect(place.path("nbd.sock")).unwrap());
    assert_eq!(stop(server), Some(0));
    assert!(!place.path("nbd.sock").exists());
}

#[test]
fn images_are_named_by_their_path_and_kept_in_use() {
    let place = Place::with_cluster("");
    place.onego("rbd create disk --size 16M");
    let (server, uri) = serve(&place, "export nbd rbd:disk mem:1M --listen 127.0.0.1:0");
    assert!(uri.ends_with("/rbd/disk"), "{uri}");
    let (code, said) = place.onego_fails("rbd rm disk");
    assert!(said.contains("in use"), "{code}: {said}");
    assert_eq!(stop(server), Some(0));
    // It was given up with the server, and nobody waits for its watch to time out.
    place.onego("rbd rm disk");
}

#[test]
fn what_cannot_be_served_is_refused_with_its_code() {
    let place = Place::with_cluster("");
    for (line, code, words) in [
        ("export nbd disk", 2, "rbd:[POOL/"),
        ("export nbd mem:0", 2, "mem:0"),
        ("export nbd mem:1M mem:2M --listen 127.0.0.1:0", 2, "already"),
        ("export nbd mem:1M --reactors 2 --listen 127.0.0.1:0", 2, "one thread"),
        ("export nbd rbd:nosuch --listen 127.0.0.1:0", 3, "nosuch"),
        ("export nbd rbd:nopool/disk --listen 127.0.0.1:0", 3, "nopool"),
        ("export nbd mem:1M --socket /nosuch/folder/sock", 1, "socket"),
    ] {
        let (got, said) = place.onego_fails(line);
        assert_eq!(got, code, "{line}: {said}");
        assert!(said.contains(words), "{line}: {said}");
    }
}
