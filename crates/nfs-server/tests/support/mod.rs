//! A server and its clients in memory: bytes are carried by hand, time passes when a test says so.

#![allow(dead_code, reason = "each test file uses a part")]

use onego_buf::{Arena, List, Pool, Segment};
use onego_nfs::mount::{self, Mnt, MountStatus};
use onego_nfs::rpc::{Accepted, AuthSys, Call, Credential, Denied, Procedure, Reply, put_record};
use onego_nfs::v3::{self, Handle};
use onego_nfs::xdr::{Body as _, Reader, Writer, Xdr as _};
use onego_nfs_server::{Export, Limits, Memory, ServerMachine};
use onego_wire::{Action, ConnId, Disconnect, ListenerId, Machine as _, Time};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

/// A server, and the clients that came to it.
pub(crate) struct Net {
    now: Time,
    machine: ServerMachine,
    clients: Vec<Client>,
    last_xid: u32,
    /// The credential of the clients.
    pub(crate) credential: Credential,
    /// Bytes that are carried at a time.
    pub(crate) cut: usize,
    pool: Pool,
    /// Where calls are carried out, if not by the machine.
    elsewhere: Option<Memory>,
    /// Calls are not carried out for now.
    pub(crate) held: bool,
    /// The driver takes what is to be sent also to clients that do not read, as much as it may.
    pub(crate) takes: bool,
}

/// Bytes that are taken from the server at a time.
const SEND: usize = 1 << 20;

/// The end of a client.
struct Client {
    conn: ConnId,
    /// Bytes on their way to the server.
    out: VecDeque<u8>,
    /// What came and is no whole record yet.
    part: Vec<u8>,
    answers: HashMap<u32, Vec<u8>>,
    reads: bool,
    closed: bool,
    /// Has the server asked to be offered bytes again?
    resumed: bool,
    /// Has the server said that there may be something to send?
    asked: bool,
    /// What the driver has taken, and the client has not.
    given: List,
    unsent: usize,
}

/// Names a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Who(usize);

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

impl Net {
    pub(crate) fn new(export: Export) -> Self {
        Self::with(export, Limits { bytes: 64 << 20, files: 1000 })
    }

    pub(crate) fn with(export: Export, limits: Limits) -> Self {
        let now = Time::from_nanos(1_700_000_000_000_000_000);
        let pool = Pool::new(1 << 20);
        let fs = Memory::new(limits, 7, pool.clone(), now);
        let addrs = vec!["127.0.0.1:2049".parse().unwrap()];
        let machine = ServerMachine::new(addrs, None, export, Box::new(fs), pool.clone());
        Self::of(machine, None, pool, now)
    }

    /// The same, whose machine gives calls as jobs.
    pub(crate) fn with_jobs() -> Self {
        let now = Time::from_nanos(1_700_000_000_000_000_000);
        let pool = Pool::new(1 << 20);
        let fs = Memory::new(Limits { bytes: 64 << 20, files: 1000 }, 7, pool.clone(), now);
        let addrs = vec!["127.0.0.1:2049".parse().unwrap()];
        let machine = ServerMachine::with_jobs(addrs, None, Export::default(), pool.clone());
        Self::of(machine, Some(fs), pool, now)
    }

    fn of(mut machine: ServerMachine, elsewhere: Option<Memory>, pool: Pool, now: Time) -> Self {
        let addr = "127.0.0.1:2049".parse().unwrap();
        assert!(matches!(machine.next_action(now), Some(Action::Listen { .. })));
        machine.listening(now, ListenerId(0), Ok(addr));
        assert_eq!(machine.addresses(), Some(vec![addr]));
        let credential = Credential::Sys(AuthSys::default());
        let (clients, last_xid, cut, held) = (Vec::new(), 0, usize::MAX, false);
        Self { now, machine, clients, last_xid, credential, cut, pool, elsewhere, held, takes: false }
    }

    pub(crate) fn try_connect(&mut self, from: &str) -> Option<Who> {
        let (peer, local) = (from.parse().unwrap(), "127.0.0.1:2049".parse().unwrap());
        let conn = self.machine.accepted(self.now, ListenerId(0), peer, local)?;
        self.clients.push(Client {
            conn,
            out: VecDeque::new(),
            part: Vec::new(),
            answers: HashMap::new(),
            reads: true,
            closed: false,
            resumed: true,
            asked: false,
            given: List::new(),
            unsent: 0,
        });
        Some(Who(self.clients.len() - 1))
    }

    pub(crate) fn connect(&mut self, from: &str) -> Who {
        self.try_connect(from).expect("the client is let in")
    }

    pub(crate) fn disconnect(&mut self, who: Who) {
        let client = &mut self.clients[who.0];
        client.closed = true;
        self.machine.disconnected(self.now, client.conn, Disconnect::Closed);
    }

    pub(crate) fn set_reading(&mut self, who: Who, reads: bool) {
        self.clients[who.0].reads = reads;
    }

    pub(crate) fn is_closed(&self, who: Who) -> bool {
        self.clients[who.0].closed
    }

    /// Calls that the server has carried out.
    pub(crate) fn calls(&self) -> u64 {
        self.machine.calls()
    }

    /// Bytes that the server has for a client that does not read.
    pub(crate) fn unsent(&mut self, who: Who) -> usize {
        self.turn();
        let client = &mut self.clients[who.0];
        let mut out = std::mem::take(&mut client.given);
        self.machine.transmit(self.now, client.conn, &mut out, usize::MAX);
        client.unsent += out.len();
        client.take(&out.to_vec());
        client.unsent
    }

    /// Would the server receive more from a client?
    pub(crate) fn wants_bytes(&mut self, who: Who) -> bool {
        let conn = self.clients[who.0].conn;
        let landing = self.machine.landing(conn);
        let wants = landing.place.is_some() || landing.ahead > 0;
        landing.into_places().for_each(|place| self.machine.landed(self.now, conn, place, 0));
        wants
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.machine.timeout(self.now);
        self.turn();
    }

    /// Sends bytes as they are.
    pub(crate) fn bytes(&mut self, who: Who, bytes: &[u8]) {
        self.clients[who.0].out.extend(bytes);
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
        self.bytes(who, &bytes);
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
        self.bytes(who, &bytes);
    }

    /// Sends the first bytes of a message.
    pub(crate) fn send_part(&mut self, who: Who, xid: u32, message: &Message, len: usize) {
        let bytes = self.numbered(xid, message);
        self.bytes(who, &bytes[..len]);
    }

    /// Sends some bytes of a message.
    pub(crate) fn send_range(&mut self, who: Who, xid: u32, message: &Message, range: Range<usize>) {
        let bytes = self.numbered(xid, message);
        self.bytes(who, &bytes[range]);
    }

    /// Bytes that wait for a client that does not read: those that the driver holds, which has taken as much as it may.
    pub(crate) fn held(&self, who: Who) -> usize {
        self.clients[who.0].given.len()
    }

    /// Sends what is behind the first bytes.
    pub(crate) fn send_rest(&mut self, who: Who, xid: u32, message: &Message, from: usize) {
        let bytes = self.numbered(xid, message);
        self.bytes(who, &bytes[from..]);
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
        let client = &mut self.clients[who.0];
        match client.answers.remove(&xid) {
            Some(answer) => Answered::Reply(answer),
            None if client.closed => Answered::Closed,
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

    /// Carries bytes until none moves any more.
    pub(crate) fn turn(&mut self) {
        loop {
            let acted = self.act() | self.work();
            let carried = (0..self.clients.len()).any(|n| self.carry(n));
            if !acted && !carried {
                return;
            }
        }
    }

    /// Carries out calls that the machine gives away.
    fn work(&mut self) -> bool {
        let Some(fs) = self.elsewhere.as_mut().filter(|_| !self.held) else { return false };
        let Some(job) = self.machine.next_job() else { return false };
        self.machine.done(self.now, job.carry_out(fs));
        true
    }

    /// Has a call been answered?
    pub(crate) fn is_answered(&mut self, who: Who, xid: u32) -> bool {
        self.turn();
        self.clients[who.0].answers.contains_key(&xid)
    }

    fn act(&mut self) -> bool {
        let mut acted = false;
        while let Some(action) = self.machine.next_action(self.now) {
            acted = true;
            let of = |conn| move |client: &&mut Client| client.conn == conn;
            match action {
                Action::Transmit { conn } => {
                    if let Some(client) = self.clients.iter_mut().find(of(conn)) {
                        client.asked = true;
                    }
                }
                Action::Close { conn } => {
                    if let Some(client) = self.clients.iter_mut().find(of(conn)) {
                        client.closed = true;
                    }
                }
                Action::LowWater { .. } => {}
                Action::Resume { conn } => {
                    if let Some(client) = self.clients.iter_mut().find(of(conn)) {
                        client.resumed = true;
                    }
                }
                Action::Listen { .. }
                | Action::Adopt { .. }
                | Action::Attach { .. }
                | Action::Connect { .. }
                | Action::Watch { .. } => {
                    panic!("a server has its listeners")
                }
            }
        }
        acted
    }

    /// Carries something between a client and the server.
    fn carry(&mut self, n: usize) -> bool {
        let client = &mut self.clients[n];
        if client.closed {
            return false;
        }
        let mut moved = false;
        let left = client.given.len();
        if (client.reads || self.takes) && client.asked && left < SEND / 4 {
            self.machine.transmit(self.now, client.conn, &mut client.given, SEND - left);
            // A driver need not ask again if it has got less than that, unless it is told to. But it asks once more when
            // all is sent.
            let came = client.given.len() > left;
            client.asked = client.given.len() >= SEND || (came && client.reads);
            moved = came;
        }
        if client.reads && !client.given.is_empty() {
            let bytes = std::mem::take(&mut client.given).to_vec();
            client.take(&bytes);
            client.asked = true;
            moved = true;
        }
        if client.out.is_empty() || !client.resumed {
            return moved;
        }
        let landing = self.machine.landing(client.conn);
        let run = client.out.len().min(self.cut);
        if landing.place.is_some() {
            let next = &client.out.make_contiguous()[..run];
            let (now, conn) = (self.now, client.conn);
            let moved = landing.fill(next, |place, n| self.machine.landed(now, conn, place, n));
            client.out.drain(..moved);
        } else if landing.ahead > 0 {
            let bytes: Vec<u8> = client.out.drain(..run.min(landing.ahead)).collect();
            self.machine.received(self.now, client.conn, Segment::from(bytes));
        } else {
            // The driver stops reading until it is told to go on.
            client.resumed = false;
            return moved;
        }
        true
    }
}

impl Client {
    /// Takes what the server has sent.
    fn take(&mut self, bytes: &[u8]) {
        self.part.extend(bytes);
        while let Some(mark) = self.part.first_chunk::<4>() {
            let len = (u32::from_be_bytes(*mark) & 0x7fff_ffff) as usize;
            if self.part.len() < 4 + len {
                return;
            }
            let rest = self.part.split_off(4 + len);
            let record = std::mem::replace(&mut self.part, rest);
            let xid = u32::from_be_bytes(record[4..8].try_into().unwrap());
            self.answers.insert(xid, record[4..].to_vec());
        }
    }
}
