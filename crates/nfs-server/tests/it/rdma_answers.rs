//! Calls over RDMA that cannot be carried out: each is answered as RFC 5531 has it, and the connection goes on.

use onego_buf::{List, Pool, SegmentMut};
use onego_nfs::mount;
use onego_nfs::rpc::rdma::{self, Chunks, Content, Header, RdmaSegment, ReadSegment};
use onego_nfs::rpc::{Accepted, AuthSys, Call, Credential, Denied, Procedure as _, Reply};
use onego_nfs::v3::{self, Stability, WriteArgs};
use onego_nfs::xdr::{Body as _, Reader, Writer, Xdr};
use onego_nfs_server::{Export, Limits, Memory as FileSystem, Rdma, ServerMachine};
use onego_rdma::iwarp::{self, Connection, Event};
use onego_rdma::{CompletedWork, Memory, QueuePair as _, SendFlags, Status};
use onego_wire::{Action, ConnId, ListenerId, Machine as _, Time};
use std::sync::Arc;

const NOW: Time = Time::from_nanos(1_700_000_000_000_000_000);

/// A server, and a client that says what a test wants, from a port that every program may use, as Linux's client does.
struct Ends {
    server: ServerMachine,
    conn: ConnId,
    client: Connection,
    messages: Vec<Vec<u8>>,
}

impl Ends {
    fn new() -> Self {
        let (pool, addr) = (Pool::new(1 << 20), "10.0.0.1:20049".parse().unwrap());
        let fs = FileSystem::new(Limits { bytes: 1 << 20, files: 10 }, 7, pool.clone(), NOW);
        let rdma = Rdma::new(addr);
        let mut server =
            ServerMachine::new(Vec::new(), Some(&rdma), Export::default(), Box::new(fs), pool.clone());
        assert!(matches!(server.next_action(NOW), Some(Action::Listen { .. })));
        server.listening(NOW, ListenerId(0), Ok(addr));
        let conn = server.accepted(NOW, ListenerId(0), "10.0.0.2:40700".parse().unwrap(), addr);
        let told = rdma::Config::new(pool.clone()).parameters().encode();
        let transport = Arc::new(iwarp::Config::new(pool));
        let mut client = Connection::connect(NOW, transport, Box::new(|| 4), &told).unwrap();
        client.opened(NOW);
        (0..64).for_each(|_| client.post_receive(0, SegmentMut::zeroed(4096)).unwrap());
        let mut this = Self { server, conn: conn.unwrap(), client, messages: Vec::new() };
        this.settle();
        assert!(this.client.is_ready());
        this
    }

    fn settle(&mut self) {
        loop {
            let mut out = List::new();
            self.client.transmit(&mut out, usize::MAX);
            let mut moved = !out.is_empty();
            if moved {
                self.server.received(NOW, self.conn, out.to_segment());
            }
            while let Some(action) = self.server.next_action(NOW) {
                assert!(!matches!(action, Action::Close { .. }), "the server ends the connection");
            }
            let mut out = List::new();
            self.server.transmit(NOW, self.conn, &mut out, usize::MAX);
            if !out.is_empty() {
                moved = true;
                self.client.received(NOW, out.to_segment());
            }
            while let Some(event) = self.client.event() {
                assert!(!matches!(event, Event::Fault(_)), "{event:?}");
            }
            while let Some(completion) = self.client.poll() {
                if let CompletedWork::Received { buffer, len, .. } = completion.done {
                    assert_eq!(completion.status, Status::Success);
                    self.messages.push(buffer[..len].to_vec());
                    self.client.post_receive(0, buffer).unwrap();
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// Sends a message, and returns the status of the call. `None`: it is not answered.
    fn told(&mut self, chunks: Chunks, message: &[u8]) -> Option<Result<Accepted, Denied>> {
        self.answer(chunks, message).map(|(result, _)| result)
    }

    /// The same, with the results.
    fn answer(&mut self, chunks: Chunks, message: &[u8]) -> Option<(Result<Accepted, Denied>, Vec<u8>)> {
        let mut w = Writer::new();
        Header { xid: 7, credits: 8, content: Content::Message(chunks) }.encode(&mut w);
        let bytes = [w.as_slice(), message].concat();
        self.client.post_send(0, List::from(bytes), SendFlags::default()).unwrap();
        self.settle();
        assert!(self.messages.len() <= 1);
        let message = self.messages.pop()?;
        let mut r = Reader::new(&message);
        let header = Header::decode(&mut r).unwrap();
        assert_eq!((header.xid, header.content), (7, Content::Message(Chunks::default())));
        let reply = Reply::decode(&mut r).unwrap();
        assert_eq!(reply.xid, 7);
        let results = message[message.len() - r.left()..].to_vec();
        Some((reply.result, results))
    }

    /// A call as it should be is answered.
    fn serves(&mut self) {
        let null = call(v3::PROGRAM, 3, v3::Null::NUMBER);
        assert_eq!(self.told(Chunks::default(), &null), Some(Ok(Accepted::Success)));
    }
}

/// A call without arguments.
fn call(program: u32, version: u32, procedure: u32) -> Vec<u8> {
    let mut w = Writer::new();
    let credential = Credential::Sys(AuthSys::default());
    Call::new(7, program, version, procedure, credential).encode(&mut w);
    w.as_slice().to_vec()
}

#[test]
fn what_cannot_be_carried_out_is_told_as_the_rfc_has_it() {
    let getattr = call(v3::PROGRAM, 3, v3::Getattr::NUMBER);
    let with = |at: usize, value: u8| {
        let mut message = getattr.clone();
        message[at] = value;
        message
    };
    let mismatch = Ok(Accepted::ProgramMismatch(3, 3));
    let table: Vec<(&str, Vec<u8>, Result<Accepted, Denied>)> = vec![
        ("another version of RPC", with(11, 3), Err(Denied::RpcMismatch(2, 2))),
        ("a flavor that is not known", with(27, 6), Err(Denied::TOO_WEAK)),
        ("a credential longer than any", with(30, 2), Err(Denied::BAD_CREDENTIAL)),
        ("half a verifier", getattr[..getattr.len() - 4].to_vec(), Err(Denied::BAD_VERIFIER)),
        ("another program", call(100_227, 3, 0), Ok(Accepted::ProgramUnavailable)),
        ("a port mapper", call(100_000, 2, 3), Ok(Accepted::ProgramUnavailable)),
        ("NFS version 4", call(v3::PROGRAM, 4, 0), mismatch),
        ("MOUNT version 1", call(mount::PROGRAM, 1, 0), mismatch),
        ("a procedure of NFS", call(v3::PROGRAM, 3, 22), Ok(Accepted::ProcedureUnavailable)),
        ("a procedure of MOUNT", call(mount::PROGRAM, 3, 6), Ok(Accepted::ProcedureUnavailable)),
        ("no handle", getattr.clone(), Ok(Accepted::GarbageArguments)),
        ("no path", call(mount::PROGRAM, 3, 1), Ok(Accepted::GarbageArguments)),
        (
            "arguments where there are none",
            [&call(v3::PROGRAM, 3, 0)[..], &[0; 4]].concat(),
            Ok(Accepted::GarbageArguments),
        ),
        ("a header that ends", getattr[..20].to_vec(), Ok(Accepted::GarbageArguments)),
    ];
    let mut ends = Ends::new();
    for (what, message, expected) in table {
        assert_eq!(ends.told(Chunks::default(), &message), Some(expected), "{what}");
        ends.serves();
    }
    // More of what is no call than there are credits: none is kept.
    for _ in 0..300 {
        assert_eq!(ends.told(Chunks::default(), &with(7, 1)), None);
    }
    ends.serves();
}

#[test]
fn a_payload_of_another_length_than_its_front_says_is_garbage() {
    let mut ends = Ends::new();
    let data = List::from(vec![7; 400]);
    let file = v3::Handle::new(&[1; 16]).unwrap();
    let (mut w, mut payload) = (Writer::new(), List::new());
    WriteArgs { file, offset: 0, stable: Stability::Unstable, data }.write(&mut w, &mut payload);
    let front = [&call(v3::PROGRAM, 3, v3::Write::NUMBER)[..], w.as_slice()].concat();
    let whole = [&front[..], &payload.to_vec()].concat();
    let garbage = Some(Ok(Accepted::GarbageArguments));
    // In the message.
    for end in [whole.len() - 1, whole.len() - 400, whole.len() - 404] {
        assert_eq!(ends.told(Chunks::default(), &whole[..end]), garbage);
        ends.serves();
    }
    assert_eq!(ends.told(Chunks::default(), &[&whole[..], &[0; 4]].concat()), garbage);
    ends.serves();
    // It is carried out, and the handle is nobody's.
    assert_eq!(ends.told(Chunks::default(), &whole), Some(Ok(Accepted::Success)));
    // The same from the client's memory.
    let key = ends.client.register_at(Memory::Source(payload), 0).unwrap();
    let target = RdmaSegment { handle: key.0, length: 400, offset: 0 };
    let reads = vec![ReadSegment { position: front.len() as u32, target }];
    let chunks = Chunks { reads, ..Chunks::default() };
    assert_eq!(ends.told(chunks, &front), Some(Ok(Accepted::Success)));
}

#[test]
fn nfs_is_admitted_from_any_port_and_the_first_handle_is_not() {
    let mut ends = Ends::new();
    let getattr = [&call(v3::PROGRAM, 3, v3::Getattr::NUMBER)[..], &[0, 0, 0, 4, 1, 2, 3, 4]].concat();
    let (result, status) = ends.answer(Chunks::default(), &getattr).unwrap();
    assert_eq!(
        (result, status),
        (Ok(Accepted::Success), (v3::Status::Badhandle as u32).to_be_bytes().to_vec())
    );
    let mut path = Writer::new();
    mount::Path(b"/export".to_vec()).encode(&mut path);
    let mnt = [&call(mount::PROGRAM, 3, mount::Mnt::NUMBER)[..], path.as_slice()].concat();
    let (result, status) = ends.answer(Chunks::default(), &mnt).unwrap();
    assert_eq!(
        (result, status),
        (Ok(Accepted::Success), (mount::MountStatus::Access as u32).to_be_bytes().to_vec())
    );
}
