//! A whole server of NFS, and what a fuzzer calls. Both file systems are fuzzed with the same code: see [`Backend`].

mod backend;
mod exported;
mod floor;

pub use backend::{Backend, InMemory};
pub use exported::Exported;
pub use floor::check_floor;

use arbitrary::Arbitrary;
use onego_buf::{Arena, List, Pool, Segment, SegmentMut};
use onego_nfs::mount;
use onego_nfs::rpc::rdma::{Config, Requester};
use onego_nfs::rpc::{
    Accepted, AuthSys, Call, Credential, Procedure, Record, Reply, Split, Splitter, put_record,
};
use onego_nfs::v3::{self, CreateHow, Handle, Name, Node, Place, SetAttributes, SetTime, Stability};
use onego_nfs::xdr::{Body as _, Reader, Writer, Xdr as _};
use onego_nfs_server::{Export, Rdma, ServerMachine, Squash};
use onego_rdma::iwarp::{self, Connection, Event};
use onego_testkit::{Delivery, Pipe};
use onego_wire::{Action, ConnId, Disconnect, ListenerId, Machine as _, Time};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

/// Handles that are remembered.
const HANDLES: usize = 8;
/// Numbers from here on name handles in which a bit is wrong.
const FORGED: u8 = 240;
/// Where the front of a call has its program (RFC 5531, section 9).
const PROGRAM_AT: Range<usize> = 12..16;
/// Bytes that the sink of a READ has at most, and a listing.
const READ_MAX: u32 = 100_000;

fn addr(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

fn entropy() -> iwarp::Entropy {
    let mut state = 1_u64;
    Box::new(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 16
    })
}

/// What the fuzzer does.
#[derive(Debug, Arbitrary)]
pub enum Item<'a> {
    /// Calls a procedure of NFS, with arguments of the right form.
    Call { rdma: bool, user: u8, call: Op },
    /// Sends the last such call again.
    Again { rdma: bool },
    /// Calls anything, with any arguments, perhaps behind a handle.
    Any { rdma: bool, program: u8, version: u8, procedure: u8, flavor: u8, file: Option<u8>, rest: &'a [u8] },
    /// Sends a record of any bytes, or any bytes.
    Bytes { rdma: bool, record: bool, bytes: &'a [u8] },
    /// Time passes.
    Pass(u8),
    /// A local user does something in the directory.
    Local { what: u8, name: u8 },
}

/// A call. Numbers of files name those that are remembered.
#[derive(Debug, Arbitrary)]
pub enum Op {
    Null,
    Getattr(u8),
    Setattr { file: u8, set: Set, guard: bool },
    Lookup(u8, u8),
    Access(u8),
    Readlink(u8),
    Read { file: u8, offset: u32, count: u32 },
    Write { file: u8, offset: u32, len: u16, far: bool, stable: u8 },
    Create { place: (u8, u8), how: u8, set: Set },
    Mkdir { place: (u8, u8), set: Set },
    Symlink { place: (u8, u8), set: Set, len: u8 },
    Mknod { place: (u8, u8), set: Set, what: u8 },
    Remove(u8, u8),
    Rmdir(u8, u8),
    Rename { from: (u8, u8), to: (u8, u8) },
    Link { file: u8, place: (u8, u8) },
    Readdir { dir: u8, cookie: u8, count: u16 },
    Readdirplus { dir: u8, cookie: u8, names: u16, max: u16 },
    Fsstat(u8),
    Fsinfo(u8),
    Pathconf(u8),
    Commit { file: u8, offset: u32, count: u32 },
    Mount,
    Export,
    Dump,
    Unmount,
}

/// Attributes to be set.
#[derive(Debug, Arbitrary)]
pub struct Set {
    mode: Option<u16>,
    uid: Option<u8>,
    gid: Option<u8>,
    size: Option<u32>,
    times: u8,
}

impl Set {
    fn attributes(&self) -> SetAttributes {
        let time = |bits: u8| match bits % 4 {
            0 | 1 => SetTime::Leave,
            2 => SetTime::ServerTime,
            _ => SetTime::To(v3::Time { seconds: 7, nanoseconds: u32::from(self.times) << 24 }),
        };
        SetAttributes {
            mode: self.mode.map(u32::from),
            uid: self.uid.map(u32::from),
            gid: self.gid.map(u32::from),
            size: self.size.map(u64::from),
            atime: time(self.times),
            mtime: time(self.times / 4),
        }
    }
}

/// Finds the payload in the reply to a procedure.
struct Side(u32);

impl Splitter for Side {
    fn split(&mut self, start: &[u8]) -> Split {
        v3::split_reply(start, self.0)
    }

    fn place(&mut self, _: &[u8], _: usize) -> Option<SegmentMut> {
        None
    }
}

/// The end of a client.
enum ClientEnd {
    Stream,
    Rdma(Box<Requester<Connection>>),
}

/// A connection to the server.
struct ServerClient {
    conn: ConnId,
    end: ClientEnd,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    closed: bool,
    /// The fuzzer has sent bytes of its own: nobody knows any more what comes back.
    spoilt: bool,
}

/// A call that can be sent.
struct Message {
    front: Vec<u8>,
    payload: List,
    /// Bytes of the sink for a reply's payload.
    sink: Option<usize>,
    reply_max: usize,
    procedure: u32,
}

/// A server and its clients, one over TCP and one over RDMA.
struct World<B> {
    now: Time,
    machine: ServerMachine,
    backend: B,
    clients: [Option<ServerClient>; 2],
    cut: usize,
    last_xid: u32,
    handles: Vec<Handle>,
    last: Option<(u32, Message, Vec<u8>)>,
    user: u8,
    /// Procedures of NFS that have succeeded.
    succeeded: BTreeSet<u32>,
}

impl<B: Backend> World<B> {
    fn new(cut: u8) -> Self {
        let now = Time::from_nanos(1_700_000_000_000_000_000);
        let rdma = Rdma::new(addr(20049)).with_entropy(entropy).with_credits(4).with_inline(1024);
        let export = Export::default().with_squash(Squash::None).with_secure(false);
        let backend = B::new();
        let mut machine = backend.serve(vec![addr(2049)], &rdma, export, now);
        for (listener, addr) in [(0, addr(2049)), (1, addr(20049))] {
            assert!(matches!(machine.next_action(now), Some(Action::Listen { .. })));
            machine.listening(now, ListenerId(listener), Ok(addr));
        }
        let cut = if cut == 0 { usize::MAX } else { usize::from(cut) * 16 };
        let (handles, last, user, last_xid, succeeded) = (Vec::new(), None, 0, 0, BTreeSet::new());
        Self { now, machine, backend, clients: [None, None], cut, last_xid, handles, last, user, succeeded }
    }

    /// The connection of that kind, which is made if there is none.
    fn connect(&mut self, rdma: bool) {
        let n = usize::from(rdma);
        if self.clients[n].as_ref().is_some_and(|client| client.closed || client.spoilt) {
            let client = self.clients[n].take().unwrap();
            if !client.closed {
                self.machine.disconnected(self.now, client.conn, Disconnect::Closed);
            }
        }
        if self.clients[n].is_some() {
            return;
        }
        let conn = self.machine.accepted(self.now, ListenerId(u32::from(rdma)), addr(700), addr(2049));
        let end = if rdma {
            let config = Config { credits: 4, inline: 1024, ..Config::new(Pool::new(1 << 20)) };
            let transport = Arc::new(iwarp::Config::new(Pool::new(1 << 20)));
            let told = config.parameters().encode();
            let mut connection = Connection::connect(self.now, transport, entropy(), &told).unwrap();
            connection.opened(self.now);
            ClientEnd::Rdma(Box::new(Requester::new(connection, config)))
        } else {
            ClientEnd::Stream
        };
        let conn = conn.expect("a server takes as many connections as these");
        let (to_server, to_client) = Default::default();
        self.clients[n] =
            Some(ServerClient { conn, end, to_server, to_client, closed: false, spoilt: false });
        self.turn();
    }

    /// Carries bytes until none moves any more.
    fn turn(&mut self) {
        loop {
            let mut moved = self.backend.carry_out(&mut self.machine, self.now);
            while let Some(action) = self.machine.next_action(self.now) {
                if let Action::Close { conn } = action {
                    let mut words = List::new();
                    self.machine.transmit(self.now, conn, &mut words, usize::MAX);
                    let gone = self.clients.iter_mut().flatten().find(|client| client.conn == conn);
                    gone.expect("no connection is closed twice").closed = true;
                }
            }
            for client in self.clients.iter_mut().flatten().filter(|client| !client.closed) {
                if let ClientEnd::Rdma(requester) = &mut client.end {
                    let mut out = List::new();
                    requester.queue_pair_mut().transmit(&mut out, usize::MAX);
                    client.to_server.extend(out.to_vec());
                }
                moved |= !client.to_server.is_empty();
                let bytes = std::mem::take(&mut client.to_server);
                feed(&mut self.machine, self.now, client.conn, &bytes, self.cut);
                let mut out = List::new();
                self.machine.transmit(self.now, client.conn, &mut out, usize::MAX);
                moved |= !out.is_empty();
                client.to_client.extend(out.to_vec());
                client.take(self.now);
            }
            if !moved {
                return;
            }
        }
    }

    fn credential(&self) -> Credential {
        let id = u32::from(self.user % 3) * 1000;
        match self.user % 4 {
            3 => Credential::None,
            _ => Credential::Sys(AuthSys { uid: id, gid: id, groups: vec![7], ..AuthSys::default() }),
        }
    }

    fn message<P: Procedure>(&self, program: u32, args: &P::Args) -> Message {
        let (mut w, mut payload) = (Writer::new(), List::new());
        Call::new(0, program, 3, P::NUMBER, self.credential()).encode(&mut w);
        args.write(&mut w, &mut payload);
        Message { front: w.as_slice().to_vec(), payload, sink: None, reply_max: 1024, procedure: P::NUMBER }
    }

    /// Sends a call, and returns what comes back. `None`: the connection is closed.
    fn exchange(&mut self, rdma: bool, message: &Message, xid: u32) -> Option<Record> {
        self.connect(rdma);
        let client = self.clients[usize::from(rdma)].as_mut().unwrap();
        let mut front = message.front.clone();
        front[..4].copy_from_slice(&xid.to_be_bytes());
        match &mut client.end {
            ClientEnd::Stream => client.to_server.extend(record(&front, message.payload.clone())),
            ClientEnd::Rdma(requester) => {
                let sink = message.sink.map(|len| onego_rdma::Memory::Sink(SegmentMut::zeroed(len)));
                requester.call(&front, message.payload.clone(), sink, message.reply_max);
            }
        }
        self.turn();
        let client = self.clients[usize::from(rdma)].as_mut().unwrap();
        client.answer(xid, message.procedure)
    }

    /// Calls a procedure with arguments of the right form: it is answered, by results of the right form.
    fn call<P: Procedure>(&mut self, rdma: bool, message: Message) -> P::Results {
        self.last_xid += 1;
        let xid = self.last_xid;
        let answer = self.exchange(rdma, &message, xid).expect("a call is answered");
        let reply = Self::bytes(&answer);
        let mut r = Reader::new(&answer.front);
        assert_eq!(Reply::decode(&mut r).unwrap(), Reply { xid, result: Ok(Accepted::Success) });
        let results = &answer.front[answer.front.len() - r.left()..];
        let payload = answer.placed.map_or(answer.payload, List::from);
        // NULL has no status.
        let is_success = P::NUMBER == v3::Null::NUMBER || results.starts_with(&[0; 4]);
        if message.front[PROGRAM_AT] == v3::PROGRAM.to_be_bytes() && is_success {
            self.succeeded.insert(P::NUMBER);
        }
        self.last = Some((xid, message, reply));
        P::Results::read_all(results, payload).expect("results are of the right form")
    }

    fn nfs<P: Procedure>(&mut self, rdma: bool, args: &P::Args) -> P::Results {
        let message = self.message::<P>(v3::PROGRAM, args);
        self.call::<P>(rdma, message)
    }

    fn mounting<P: Procedure>(&mut self, rdma: bool, args: &P::Args) -> P::Results {
        let message = self.message::<P>(mount::PROGRAM, args);
        self.call::<P>(rdma, message)
    }

    fn listing<P: Procedure>(&mut self, rdma: bool, args: &P::Args) -> P::Results {
        let message = self.message::<P>(v3::PROGRAM, args);
        self.call::<P>(rdma, Message { reply_max: READ_MAX as usize, ..message })
    }

    /// All bytes of an answer.
    fn bytes(answer: &Record) -> Vec<u8> {
        let placed = answer.placed.as_ref().map_or(&[][..], |placed| placed);
        [&answer.front[..], &answer.payload.to_vec(), placed].concat()
    }

    fn handle(&self, n: u8) -> Handle {
        let nothing = Handle::new(&[n; 24]).unwrap();
        let handle = *self.handles.get(usize::from(n) % (HANDLES + 1)).unwrap_or(&nothing);
        if n < FORGED {
            return handle;
        }
        let mut bytes = handle.as_bytes().to_vec();
        let place = usize::from(n) % bytes.len();
        bytes[place] ^= 1 << (n % 8);
        Handle::new(&bytes).expect("it is as long as before")
    }

    fn place(&self, (dir, name): (u8, u8)) -> Place {
        let name = match (name % 8, name / 32) {
            (0, _) => vec![b'.'],
            (1, 0) => b"../beside/secret".to_vec(),
            (1, 1) => b"e/secret".to_vec(),
            (1, 2) => b"g\0h".to_vec(),
            (1, 3) => Vec::new(),
            (1, _) => b"..".to_vec(),
            (2, _) => vec![name; usize::from(name) * 2],
            (n, _) => vec![b'a' + n],
        };
        Place { dir: self.handle(dir), name: Name(name) }
    }

    fn learn(&mut self, handle: Option<Handle>) {
        if let Some(handle) = handle
            && !self.handles.contains(&handle)
        {
            if self.handles.len() == HANDLES {
                self.handles.remove(1);
            }
            self.handles.push(handle);
        }
    }

    fn op(&mut self, rdma: bool, op: &Op) {
        match op {
            Op::Null => self.nfs::<v3::Null>(rdma, &()),
            Op::Getattr(file) => drop(self.nfs::<v3::Getattr>(rdma, &self.handle(*file))),
            Op::Setattr { file, set, guard } => {
                let guard = guard.then_some(v3::Time { seconds: 1, nanoseconds: 2 });
                let args = v3::SetattrArgs { file: self.handle(*file), attributes: set.attributes(), guard };
                drop(self.nfs::<v3::Setattr>(rdma, &args));
            }
            Op::Lookup(dir, name) => {
                let found = self.nfs::<v3::Lookup>(rdma, &self.place((*dir, *name)));
                self.learn(found.ok().map(|found| found.file));
            }
            Op::Access(file) => {
                let args = v3::AccessArgs { file: self.handle(*file), wanted: 0x3f };
                drop(self.nfs::<v3::Access>(rdma, &args));
            }
            Op::Readlink(link) => drop(self.nfs::<v3::Readlink>(rdma, &self.handle(*link))),
            Op::Read { file, offset, count } => self.read(rdma, *file, *offset, count % READ_MAX),
            Op::Write { file, offset, len, far, stable } => {
                let stable =
                    [Stability::Unstable, Stability::DataSync, Stability::FileSync][usize::from(stable % 3)];
                let offset = u64::from(*offset) << if *far { 32 } else { 0 };
                let data =
                    List::from(Segment::from(vec![*offset.to_be_bytes().last().unwrap(); usize::from(*len)]));
                let file = self.handle(*file);
                drop(self.nfs::<v3::Write>(rdma, &v3::WriteArgs { file, offset, stable, data }));
            }
            Op::Remove(dir, name) => drop(self.nfs::<v3::Remove>(rdma, &self.place((*dir, *name)))),
            Op::Rmdir(dir, name) => drop(self.nfs::<v3::Rmdir>(rdma, &self.place((*dir, *name)))),
            Op::Rename { from, to } => {
                let args = v3::RenameArgs { from: self.place(*from), to: self.place(*to) };
                drop(self.nfs::<v3::Rename>(rdma, &args));
            }
            Op::Link { file, place } => {
                let args = v3::LinkArgs { file: self.handle(*file), link: self.place(*place) };
                drop(self.nfs::<v3::Link>(rdma, &args));
            }
            Op::Create { .. } | Op::Mkdir { .. } | Op::Symlink { .. } | Op::Mknod { .. } => {
                self.make(rdma, op)
            }
            _ => self.other(rdma, op),
        }
    }

    fn read(&mut self, rdma: bool, file: u8, offset: u32, count: u32) {
        let args = v3::ReadArgs { file: self.handle(file), offset: offset.into(), count };
        let message = self.message::<v3::Read>(v3::PROGRAM, &args);
        let sink = Some(count as usize).filter(|count| *count > 0);
        let read = self.call::<v3::Read>(rdma, Message { sink, ..message });
        if let Ok(read) = read {
            assert!(read.data.len() <= count as usize, "no more than was asked for");
        }
    }

    /// Makes something.
    fn make(&mut self, rdma: bool, op: &Op) {
        let made = match op {
            Op::Create { place, how, set } => {
                let how = match how % 3 {
                    0 => CreateHow::Unchecked(set.attributes()),
                    1 => CreateHow::Guarded(set.attributes()),
                    _ => CreateHow::Exclusive([*how; 8]),
                };
                self.nfs::<v3::Create>(rdma, &v3::CreateArgs { place: self.place(*place), how })
            }
            Op::Mkdir { place, set } => {
                let args = v3::MkdirArgs { place: self.place(*place), attributes: set.attributes() };
                self.nfs::<v3::Mkdir>(rdma, &args)
            }
            Op::Symlink { place, set, len } => {
                let path = vec![*len; usize::from(*len)];
                let args = v3::SymlinkArgs { place: self.place(*place), attributes: set.attributes(), path };
                self.nfs::<v3::Symlink>(rdma, &args)
            }
            Op::Mknod { place, set, what } => {
                let (set, device) = (set.attributes(), v3::Device { major: 1, minor: 2 });
                let what = match what % 5 {
                    0 => Node::Character(set, device),
                    1 => Node::Block(set, device),
                    2 => Node::Socket(set),
                    3 => Node::Fifo(set),
                    _ => Node::Other(v3::FileType::Regular),
                };
                self.nfs::<v3::Mknod>(rdma, &v3::MknodArgs { place: self.place(*place), what })
            }
            _ => return,
        };
        self.learn(made.ok().and_then(|made| made.file));
    }

    /// Lists, tells, and mounts.
    fn other(&mut self, rdma: bool, op: &Op) {
        match op {
            Op::Readdir { dir, cookie, count } => {
                let (dir, cookie, count) = (self.handle(*dir), u64::from(*cookie), u32::from(*count));
                let args = v3::ReaddirArgs { dir, cookie, verifier: [0; 8], count };
                drop(self.listing::<v3::Readdir>(rdma, &args));
            }
            Op::Readdirplus { dir, cookie, names, max } => {
                let (dir, cookie) = (self.handle(*dir), u64::from(*cookie));
                let (dir_count, max_count) = (u32::from(*names), u32::from(*max));
                let args = v3::ReaddirplusArgs { dir, cookie, verifier: [0; 8], dir_count, max_count };
                drop(self.listing::<v3::Readdirplus>(rdma, &args));
            }
            Op::Fsstat(file) => drop(self.nfs::<v3::Fsstat>(rdma, &self.handle(*file))),
            Op::Fsinfo(file) => drop(self.nfs::<v3::Fsinfo>(rdma, &self.handle(*file))),
            Op::Pathconf(file) => drop(self.nfs::<v3::Pathconf>(rdma, &self.handle(*file))),
            Op::Commit { file, offset, count } => {
                let (file, offset, count) = (self.handle(*file), u64::from(*offset), *count);
                drop(self.nfs::<v3::Commit>(rdma, &v3::CommitArgs { file, offset, count }));
            }
            Op::Mount => {
                let mounted = self.mounting::<mount::Mnt>(rdma, &mount::Path(b"/export".to_vec()));
                self.learn(mounted.ok().map(|mounted| mounted.root));
            }
            Op::Export => drop(self.mounting::<mount::Export>(rdma, &())),
            Op::Dump => drop(self.mounting::<mount::Dump>(rdma, &())),
            Op::Unmount => self.mounting::<mount::Umnt>(rdma, &mount::Path(b"/export".to_vec())),
            _ => {}
        }
    }

    /// A call whose header can be read is answered, whatever it calls.
    fn any(&mut self, rdma: bool, numbers: [u8; 3], flavor: u8, file: Option<u8>, rest: &[u8]) {
        let [program, version, procedure] = numbers;
        let program = match program % 4 {
            0 => mount::PROGRAM,
            1 => u32::from(program),
            _ => v3::PROGRAM,
        };
        let version = if version % 8 == 0 { u32::from(version) } else { 3 };
        let mut w = Writer::new();
        Call::new(0, program, version, u32::from(procedure % 32), self.credential()).encode(&mut w);
        file.into_iter().for_each(|file| self.handle(file).encode(&mut w));
        let rest = &rest[..rest.len() & !3];
        let mut front = [w.as_slice(), rest].concat();
        if flavor % 8 == 0 {
            // Behind six words of the call there is the flavor of its credential (RFC 5531, section 9).
            front[24..28].copy_from_slice(&u32::from(flavor).to_be_bytes());
        }
        let (payload, reply_max) = (List::new(), 300_000);
        self.last_xid += 1;
        let xid = self.last_xid;
        let message = Message { front, payload, sink: None, reply_max, procedure: u32::MAX };
        let answer = self.exchange(rdma, &message, xid).expect("a call is answered");
        let reply = Reply::decode(&mut Reader::new(&answer.front)).unwrap();
        assert_eq!(reply.xid, xid);
    }

    /// A call that must not be carried out twice has the same answer the second time.
    fn again(&mut self, rdma: bool) {
        let Some((xid, message, before)) = self.last.take() else { return };
        let answer = self.exchange(rdma, &message, xid).expect("a call is answered");
        const ONCE: [u32; 10] = [2, 7, 8, 9, 10, 11, 12, 13, 14, 15];
        let is_nfs = message.front[PROGRAM_AT] == v3::PROGRAM.to_be_bytes();
        if is_nfs && ONCE.contains(&message.procedure) {
            assert_eq!(Self::bytes(&answer), before, "procedure {}", message.procedure);
        }
        self.last = Some((xid, message, before));
    }

    fn spoil(&mut self, rdma: bool, as_record: bool, bytes: &[u8]) {
        self.connect(rdma);
        let client = self.clients[usize::from(rdma)].as_mut().unwrap();
        client.spoilt = true;
        let bytes = if as_record { record(bytes, List::new()) } else { bytes.to_vec() };
        client.to_server.extend(bytes);
        self.turn();
    }
}

fn record(front: &[u8], payload: List) -> Vec<u8> {
    let (mut arena, mut out) = (Arena::new(Pool::new(1 << 16)), List::new());
    put_record(front, payload, &mut arena, &mut out);
    arena.flush(&mut out);
    out.to_vec()
}

/// Gives the server bytes, at most `cut` at a time, as its driver would.
fn feed(machine: &mut ServerMachine, now: Time, conn: ConnId, bytes: &[u8], cut: usize) {
    let mut pipe = Pipe::from(bytes);
    let mut deliver = || {
        let landing = machine.landing(conn);
        pipe.deliver(landing, cut, |delivery| match delivery {
            Delivery::Landed(place, n) => machine.landed(now, conn, place, n),
            Delivery::Received(bytes) => machine.received(now, conn, bytes),
        })
    };
    while deliver().bytes() > 0 {}
}

impl ServerClient {
    /// Gives the end what has come.
    fn take(&mut self, now: Time) {
        let ClientEnd::Rdma(requester) = &mut self.end else { return };
        let connection = requester.queue_pair_mut();
        let bytes = std::mem::take(&mut self.to_client);
        let mut pipe = Pipe::from(&bytes[..]);
        let mut deliver = || {
            pipe.deliver(connection.landing(), usize::MAX, |delivery| match delivery {
                Delivery::Landed(place, n) => connection.landed(now, place, n),
                Delivery::Received(bytes) => connection.received(now, bytes),
            })
        };
        while deliver().bytes() > 0 {}
        while let Some(event) = requester.queue_pair_mut().event() {
            if let Event::Established(how) = event {
                requester.connected(&how.private_data);
            }
        }
    }

    /// The answer to a call.
    fn answer(&mut self, xid: u32, procedure: u32) -> Option<Record> {
        if let ClientEnd::Rdma(requester) = &mut self.end {
            let answer = requester.next(&mut Side(procedure)).expect("the server keeps to the protocol")?;
            assert_eq!(answer.xid, xid);
            return Some(answer.reply.expect("the reply has room"));
        }
        let mark = u32::from_be_bytes(*self.to_client.first_chunk()?);
        let bytes = self.to_client.split_off(4);
        self.to_client.clear();
        assert_eq!(mark, 1 << 31 | bytes.len() as u32, "one call has one reply");
        let (front, payload) = match v3::split_reply(&bytes, procedure) {
            Split::At(front, len) => (&bytes[..front], &bytes[front..front + len]),
            _ => (&bytes[..], &[][..]),
        };
        let payload = List::from(Segment::copy_from(payload));
        Some(Record { payload, ..Record::of(Segment::copy_from(front)) })
    }
}

/// Does all of it with a server of an empty file system, and checks what it leaves behind.
pub fn run<B: Backend>(cut: u8, items: &[Item<'_>]) {
    let mut world = World::<B>::new(cut);
    world.begin();
    items.iter().for_each(|item| world.item(item));
    world.end();
}

impl<B: Backend> World<B> {
    fn begin(&mut self) {
        self.op(false, &Op::Mount);
        assert!(!self.handles.is_empty(), "the export can be mounted");
    }

    fn item(&mut self, item: &Item<'_>) {
        match item {
            Item::Call { rdma, user, call } => {
                self.user = *user;
                self.op(*rdma, call);
            }
            Item::Again { rdma } => self.again(*rdma),
            Item::Any { rdma, program, version, procedure, flavor, file, rest } => {
                self.any(*rdma, [*program, *version, *procedure], *flavor, *file, rest);
            }
            Item::Bytes { rdma, record, bytes } => self.spoil(*rdma, *record, bytes),
            Item::Pass(seconds) => {
                self.now = self.now + std::time::Duration::from_secs((*seconds).into());
                self.machine.timeout(self.now);
                self.backend.pass();
                self.turn();
            }
            Item::Local { what, name } => self.backend.act(*what, *name),
        }
    }

    fn end(mut self) {
        // The server still answers, whatever it has received.
        self.user = 0;
        let root = self.handles[0];
        assert!(self.nfs::<v3::Getattr>(false, &root).is_ok(), "the root is always there");
        let Self { backend, machine, .. } = self;
        // The server may have files open.
        drop(machine);
        backend.check();
    }
}
