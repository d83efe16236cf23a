//! The server of NFS on a thread of its own, over real connections.

use onego_nfs::mount::{self, Mnt};
use onego_nfs::rpc::{Accepted, AuthSys, Call, Credential, Procedure, Reply};
use onego_nfs::v3::{self, CreateArgs, CreateHow, Handle, Place, SetAttributes, Stability, WriteArgs};
use onego_nfs::xdr::{Body as _, Reader, Writer, Xdr as _};
use onego_nfs_server::{Config, Error, Export, Server, Source, Squash};
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

fn message<P: Procedure>(xid: u32, program: u32, args: &P::Args) -> Vec<u8> {
    let (mut w, mut payload) = (Writer::new(), Default::default());
    let credential = Credential::Sys(AuthSys::default());
    Call::new(xid, program, 3, P::NUMBER, credential).encode(&mut w);
    args.write(&mut w, &mut payload);
    let mut body = [w.as_slice(), &payload.to_vec()].concat();
    body.resize(body.len().next_multiple_of(4), 0);
    [&(0x8000_0000 | body.len() as u32).to_be_bytes(), &body[..]].concat()
}

/// The next reply: its number, and its results.
fn reply(stream: &mut TcpStream) -> (u32, Vec<u8>) {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).unwrap();
    let mut bytes = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
    stream.read_exact(&mut bytes).unwrap();
    let mut r = Reader::new(&bytes);
    let reply = Reply::decode(&mut r).unwrap();
    assert_eq!(reply.result, Ok(Accepted::Success));
    let left = r.left();
    (reply.xid, bytes[bytes.len() - left..].to_vec())
}

fn call<P: Procedure>(stream: &mut TcpStream, program: u32, args: &P::Args) -> P::Results {
    stream.write_all(&message::<P>(1, program, args)).unwrap();
    let (_, results) = reply(stream);
    P::Results::read_all(&results, Default::default()).unwrap()
}

fn mounted(stream: &mut TcpStream) -> Handle {
    call::<Mnt>(stream, mount::PROGRAM, &mount::Path(b"/export".to_vec())).unwrap().root
}

#[test]
fn many_calls_at_a_time_are_all_answered_and_counted() {
    many_calls(Config::default().with_export(for_all()));
}

#[test]
fn calls_to_a_directory_are_carried_out_on_threads_and_all_answered() {
    let directory = tempfile::tempdir().unwrap();
    many_calls(Config::default().with_source(directory_at(directory.path())).with_export(for_all()));
    assert_eq!(std::fs::read(directory.path().join("file")).unwrap(), vec![7; 300_001]);
}

/// The clients of the tests use any port, and the user of the tests counts as it is.
fn for_all() -> Export {
    Export::default().with_squash(Squash::None).with_secure(false)
}

fn many_calls(config: Config) {
    let server = Server::start(config).unwrap();
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    let root = mounted(&mut stream);
    let how = CreateHow::Guarded(SetAttributes::default());
    let args = CreateArgs { place: Place { dir: root, name: "file".into() }, how };
    let file = call::<v3::Create>(&mut stream, v3::PROGRAM, &args).unwrap().file.unwrap();
    let data = vec![7; 300_001].into();
    let args = WriteArgs { file, offset: 0, stable: Stability::FileSync, data };
    assert_eq!(call::<v3::Write>(&mut stream, v3::PROGRAM, &args).unwrap().count, 300_001);

    let mut reader = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        let calls: Vec<u8> =
            (0..2000).flat_map(|xid| message::<v3::Getattr>(xid, v3::PROGRAM, &file)).collect();
        stream.write_all(&calls).unwrap();
        stream
    });
    let mut numbers = BTreeSet::new();
    for _ in 0..2000 {
        let (number, results) = reply(&mut reader);
        numbers.insert(number);
        let attributes = v3::Answer::read_all(&results, Default::default());
        let attributes: v3::Answer<v3::Attributes, ()> = attributes.unwrap();
        assert_eq!(attributes.unwrap().size, 300_001);
    }
    let _stream = sender.join().unwrap();
    assert!(numbers.into_iter().eq(0..2000));
    let stats = server.stats().unwrap();
    assert_eq!((stats.calls, stats.connections), (2003, 1));
    assert!(stats.engine.system_calls > 0);
}

#[test]
fn a_server_that_is_dropped_is_gone() {
    let server = Server::start(Config::default().with_export(for_all())).unwrap();
    let addr = server.addr();
    let mut stream = TcpStream::connect(addr).unwrap();
    mounted(&mut stream);
    drop(server);
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    assert!(TcpStream::connect(addr).is_err());
    // Its port can be taken at once.
    drop(Server::start(Config::default().with_listen(addr)).unwrap());
}

#[test]
fn what_cannot_be_served_is_refused_by_name() {
    let taken = Server::start(Config::default()).unwrap();
    let error = Server::start(Config::default().with_listen(taken.addr())).unwrap_err();
    assert!(error.to_string().contains(&taken.addr().to_string()), "{error}");
    let export = Export::default().with_path("no/root");
    let error = Server::start(Config::default().with_export(export)).unwrap_err();
    assert!(matches!(&error, Error::Path(path) if path == "no/root"), "{error}");
    let source = directory_at("/no/such/directory".as_ref());
    let error = Server::start(Config::default().with_source(source)).unwrap_err();
    assert!(error.to_string().starts_with("cannot serve /no/such/directory: "), "{error}");
}

fn directory_at(path: &std::path::Path) -> Source {
    Source::Directory { path: path.to_owned(), handle_key: None }
}
