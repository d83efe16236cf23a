//! A server and its clients in memory: bytes are carried by hand, time passes when a test says so.

use onego_buf::{Arena, List, Pool, Segment};
use onego_nfs::mount::{self, Mnt, MountStatus};
use onego_nfs::rpc::{Accepted, AuthSys, Call, Credential, Denied, Procedure, Reply, put_record};
use onego_nfs::v3::{self, Handle};
use onego_nfs::xdr::{Body as _, Reader, Writer, Xdr as _};
use onego_nfs_server::{Export, Limits, Memory, ServerMachine};
pub(crate) use onego_testkit::Who;
use onego_testkit::{DrivenServer, START};
use onego_wire::ListenerId;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::{Deref, DerefMut, Range};
use std::time::Duration;

const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 2049);

/// A server, and the clients that came to it.
pub(crate) struct Net {
    driven: DrivenServer<ServerMachine>,
    clients: HashMap<Who, Client>,
    last_xid: u32,
    /// The credential of the clients.
    pub(crate) credential: Credential,
    pool: Pool,
    /// Where calls are carried out, if not by the machine.
    elsewhere: Option<Memory>,
    /// Calls are not carried out for now.
    pub(crate) held: bool,
}

/// What a client has got.
#[derive(Default)]
struct Client {
    answers: HashMap<u32, Vec<u8>>,
    /// Bytes of all that came.
    received: usize,
}

/// What a call got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answered {
    /// This message.
    Reply(Vec<u8>),
    /// The end of the connection.
    Closed,
}

/// A call without its number, in front and payload.
pub(crate) struct Message {
    front: Vec<u8>,
    payload: List,
}

/// The header of a call without arguments.
pub(crate) fn header(program: u32, version: u32, procedure: u32, credential: &Credential) -> Vec<u8> {
    let mut w = Writer::new();
    Call::new(0, program, version, procedure, credential.clone()).encode(&mut w);
    w.as_slice().to_vec()
}

/// The results in an answer to a call.
pub(crate) fn results<P: Procedure>(answer: Answered) -> P::Results {
    let Answered::Reply(bytes) = answer else { panic!("the connection was closed") };
    let mut r = Reader::new(&bytes);
    let reply = Reply::decode(&mut r).unwrap();
    assert_eq!(reply.result, Ok(Accepted::Success));
    let program = if P::NAME == "Mnt" { mount::PROGRAM } else { v3::PROGRAM };
    let front = match v3::split_reply(&bytes, P::NUMBER) {
        onego_nfs::rpc::Split::At(front, len) if program == v3::PROGRAM => {
            let start = bytes.len() - r.left();
            let payload = Segment::copy_from(&bytes[front..front + len]);
            return P::Results::read_all(&bytes[start..front], payload.into()).unwrap();
        }
        _ => &bytes[bytes.len() - r.left()..],
    };
    P::Results::read_all(front, List::new()).unwrap()
}

/// Messages that begin well and go on by chance.
pub(crate) fn garbage(seed: u64, root: Handle) -> Vec<Vec<u8>> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut roll = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    let credential = Credential::Sys(AuthSys::default());
    (0..20)
        .map(|_| {
            let mut message = header(v3::PROGRAM, 3, roll() % 22, &credential);
            let mut w = Writer::new();
            root.encode(&mut w);
            message.extend(w.as_slice());
            let len = roll() % 200;
            message.extend((0..len).map(|_| if roll() % 3 == 0 { roll() as u8 } else { 0 }));
            if roll() % 4 == 0 {
                let at = roll() as usize % message.len();
                message[at] ^= 1 << (roll() % 8);
            }
            message
        })
        .collect()
}

/// Bytes are carried as to and from any server.
impl Deref for Net {
    type Target = DrivenServer<ServerMachine>;

    fn deref(&self) -> &DrivenServer<ServerMachine> {
        &self.driven
    }
}

impl DerefMut for Net {
    fn deref_mut(&mut self) -> &mut DrivenServer<ServerMachine> {
        &mut self.driven
    }
}

impl Net {
    pub(crate) fn new(export: Export) -> Self {
        Self::with(export, Limits { bytes: 64 << 20, files: 1000 })
    }

    pub(crate) fn with(export: Export, limits: Limits) -> Self {
        let pool = Pool::new(1 << 20);
        let fs = Memory::new(limits, 7, pool.clone(), START);
        let machine = ServerMachine::new(vec![ADDRESS], None, export, Box::new(fs), pool.clone());
        Self::of(machine, None, pool)
    }

    /// The same, whose machine gives calls as jobs.
    pub(crate) fn with_jobs() -> Self {
        let pool = Pool::new(1 << 20);
        let fs = Memory::new(Limits { bytes: 64 << 20, files: 1000 }, 7, pool.clone(), START);
        let machine = ServerMachine::with_jobs(vec![ADDRESS], None, Export::default(), pool.clone());
        Self::of(machine, Some(fs), pool)
    }

    fn of(machine: ServerMachine, elsewhere: Option<Memory>, pool: Pool) -> Self {
        let driven = DrivenServer::new(machine);
        assert_eq!(driven.machine.addresses(), Some(vec![ADDRESS]));
        let (clients, credential) = (HashMap::new(), Credential::Sys(AuthSys::default()));
        Self { driven, clients, last_xid: 0, credential, pool, elsewhere, held: false }
    }

    pub(crate) fn try_connect(&mut self, from: &str) -> Option<Who> {
        let who = self.accept(ListenerId(0), from.parse().unwrap(), ADDRESS)?;
        self.clients.insert(who, Client::default());
        Some(who)
    }

    pub(crate) fn connect(&mut self, from: &str) -> Who {
        self.try_connect(from).expect("the client is let in")
    }

    /// Calls that the server has carried out.
    pub(crate) fn calls(&self) -> u64 {
        self.machine.calls()
    }

    /// Bytes that the server had for a client, which takes all of them now.
    pub(crate) fn unsent(&mut self, who: Who) -> usize {
        self.turn();
        self.take_all(who);
        self.client(who).received
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.driven.pass(time);
        self.turn();
    }

    /// Sends a message as a record, with a number of its own if it is long enough, and says which.
    pub(crate) fn raw(&mut self, who: Who, message: &[u8]) -> u32 {
        self.last_xid += 1;
        let mut message = message.to_vec();
        if let Some(xid) = message.get_mut(..4) {
            xid.copy_from_slice(&self.last_xid.to_be_bytes());
        }
        self.send(who, &message, List::new());
        self.last_xid
    }

    fn send(&mut self, who: Who, front: &[u8], payload: List) {
        let bytes = self.record(front, payload);
        self.send_bytes(who, &bytes);
    }

    fn record(&self, front: &[u8], payload: List) -> Vec<u8> {
        let (mut arena, mut out) = (Arena::new(self.pool.clone()), List::new());
        put_record(front, payload, &mut arena, &mut out);
        arena.flush(&mut out);
        out.to_vec()
    }

    pub(crate) fn message<P: Procedure>(&self, args: &P::Args) -> Message {
        let mount_names = ["Mnt", "Dump", "Umnt", "Umntall", "Export"];
        let program = if mount_names.contains(&P::NAME) { mount::PROGRAM } else { v3::PROGRAM };
        let (mut w, mut payload) = (Writer::new(), List::new());
        Call::new(0, program, 3, P::NUMBER, self.credential.clone()).encode(&mut w);
        args.write(&mut w, &mut payload);
        Message { front: w.as_slice().to_vec(), payload }
    }

    fn numbered(&self, xid: u32, message: &Message) -> Vec<u8> {
        let mut front = message.front.clone();
        front[..4].copy_from_slice(&xid.to_be_bytes());
        self.record(&front, message.payload.clone())
    }

    pub(crate) fn send_message(&mut self, who: Who, xid: u32, message: &Message) {
        let bytes = self.numbered(xid, message);
        self.send_bytes(who, &bytes);
    }

    /// Sends the first bytes of a message.
    pub(crate) fn send_part(&mut self, who: Who, xid: u32, message: &Message, len: usize) {
        let bytes = self.numbered(xid, message);
        self.send_bytes(who, &bytes[..len]);
    }

    /// Sends some bytes of a message.
    pub(crate) fn send_range(&mut self, who: Who, xid: u32, message: &Message, range: Range<usize>) {
        let bytes = self.numbered(xid, message);
        self.send_bytes(who, &bytes[range]);
    }

    /// Sends what is behind the first bytes.
    pub(crate) fn send_rest(&mut self, who: Who, xid: u32, message: &Message, from: usize) {
        let bytes = self.numbered(xid, message);
        self.send_bytes(who, &bytes[from..]);
    }

    /// Calls a procedure.
    pub(crate) fn call<P: Procedure>(&mut self, who: Who, args: P::Args) -> P::Results {
        self.last_xid += 1;
        let xid = self.last_xid;
        let message = self.message::<P>(&args);
        self.send_message(who, xid, &message);
        results::<P>(self.answer(who, xid))
    }

    pub(crate) fn mount(&mut self, who: Who, path: &str) -> Result<Handle, MountStatus> {
        self.call::<Mnt>(who, mount::Path(path.into())).map(|mounted| mounted.root)
    }

    /// The answer to a call.
    pub(crate) fn answer(&mut self, who: Who, xid: u32) -> Answered {
        self.turn();
        match self.client(who).answers.remove(&xid) {
            Some(answer) => Answered::Reply(answer),
            None if self.is_closed(who) => Answered::Closed,
            None => panic!("call {xid} is not answered"),
        }
    }

    /// What became of a call.
    pub(crate) fn result(&mut self, who: Who, xid: u32) -> Result<Accepted, Denied> {
        let Answered::Reply(bytes) = self.answer(who, xid) else { panic!("the connection was closed") };
        let mut r = Reader::new(&bytes);
        let reply = Reply::decode(&mut r).unwrap();
        if reply.result != Ok(Accepted::Success) {
            r.finish("a reply without results").unwrap();
        }
        reply.result
    }

    /// Carries bytes, and calls that are carried out elsewhere, until nothing moves any more.
    pub(crate) fn turn(&mut self) {
        loop {
            self.driven.turn();
            if !self.work() {
                return;
            }
        }
    }

    /// Carries out calls that the machine gives away.
    fn work(&mut self) -> bool {
        let Some(fs) = self.elsewhere.as_mut().filter(|_| !self.held) else { return false };
        let Some(job) = self.driven.machine.next_job() else { return false };
        self.driven.machine.done(self.driven.now, job.carry_out(fs));
        true
    }

    /// Has a call been answered?
    pub(crate) fn is_answered(&mut self, who: Who, xid: u32) -> bool {
        self.turn();
        self.client(who).answers.contains_key(&xid)
    }

    /// What a client has got so far.
    fn client(&mut self, who: Who) -> &mut Client {
        let client = self.clients.get_mut(&who).expect("a client of this server");
        client.take(self.driven.came(who));
        client
    }
}

impl Client {
    /// Takes the records that are whole.
    fn take(&mut self, came: &mut Vec<u8>) {
        while let Some(mark) = came.first_chunk::<4>() {
            let len = (u32::from_be_bytes(*mark) & 0x7fff_ffff) as usize;
            if came.len() < 4 + len {
                return;
            }
            let record: Vec<u8> = came.drain(..4 + len).collect();
            let xid = u32::from_be_bytes(record[4..8].try_into().unwrap());
            self.received += record.len();
            self.answers.insert(xid, record[4..].to_vec());
        }
    }
}
