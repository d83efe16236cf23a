//! A whole embedded cluster, and what a fuzzer sends to its monitor, its manager and its OSDs.

use crate::IDLE;
use arbitrary::Arbitrary;
use onego_buf::{List, Pool};
use onego_ceph::cls::{Method, lock, rbd};
use onego_ceph::messages::{MonCommand, ObjectName, OsdOp, OsdOpReply, Payload};
use onego_ceph::ops::{DESCRIPTOR_LEN, Op, code, flag};
use onego_ceph::types::{EntityName, NOSNAP, ObjectLocator, PgId, ReqId, SnapContext, SpgId, Utime, Uuid};
use onego_cluster::{ClusterMachine, NewPool, OsdSettings, Settings};
use onego_msgr::addr::{AddrKind, EntityAddr};
use onego_msgr::auth::Login;
use onego_msgr::{Config, Connection, Event, Message, NoPlacer, Target};
use onego_testkit::{Delivery, Pipe};
use onego_wire::{Action, ConnId, Disconnect, ListenerId, Machine as _, Reader, Time, Writer};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Bytes that the cluster may store: little, so that it gets full.
const MEMORY: u64 = 4 << 20;
/// The daemons: the monitor, the OSDs, the manager.
const LISTENERS: usize = PORTS.len();
const PORTS: [u16; 4] = [3300, 6801, 6802, 6900];
const MON: usize = 0;
const OSD: usize = 1;
const MGR: usize = LISTENERS - 1;

/// Operations, by their codes.
const CODES: &[u16] = &[
    code::READ,
    code::STAT,
    code::MAPEXT,
    code::SPARSE_READ,
    code::NOTIFY,
    code::NOTIFY_ACK,
    code::ASSERT_VER,
    code::LIST_WATCHERS,
    code::LIST_SNAPS,
    code::SYNC_READ,
    code::TMAP_GET,
    code::OMAP_GET_KEYS,
    code::OMAP_GET_VALS,
    code::OMAP_GET_HEADER,
    code::OMAP_GET_VALS_BY_KEYS,
    code::OMAP_CMP,
    code::CMPEXT,
    code::WRITE,
    code::WRITE_FULL,
    code::TRUNCATE,
    code::ZERO,
    code::DELETE,
    code::APPEND,
    code::TMAP_PUT,
    code::CREATE,
    code::ROLLBACK,
    code::WATCH,
    code::OMAP_SET_VALS,
    code::OMAP_SET_HEADER,
    code::OMAP_CLEAR,
    code::OMAP_RM_KEYS,
    code::SET_ALLOC_HINT,
    code::WRITE_SAME,
    code::OMAP_RM_KEY_RANGE,
    code::TMAP_UPDATE,
    code::GET_XATTR,
    code::GET_XATTRS,
    code::CMP_XATTR,
    code::SET_XATTR,
    code::RM_XATTR,
    code::CALL,
    code::PG_NLS,
    code::PG_NLS_FILTER,
];

macro_rules! methods {
    ($($method:ty),* $(,)?) => { &[$((<$method as Method>::CLASS, <$method as Method>::NAME)),*] };
}

/// Methods of object classes.
const METHODS: &[(&str, &str)] = methods![
    lock::Lock,
    lock::Unlock,
    lock::BreakLock,
    lock::GetInfo,
    lock::ListLocks,
    lock::AssertLocked,
    lock::SetCookie,
    rbd::Create,
    rbd::GetFeatures,
    rbd::SetFeatures,
    rbd::GetAllFeatures,
    rbd::GetSize,
    rbd::SetSize,
    rbd::GetObjectPrefix,
    rbd::GetDataPool,
    rbd::GetFlags,
    rbd::SetFlags,
    rbd::OpFeaturesGet,
    rbd::OpFeaturesSet,
    rbd::GetSnapContext,
    rbd::GetStripeUnitCount,
    rbd::SetStripeUnitCount,
    rbd::GetCreateTimestamp,
    rbd::GetAccessTimestamp,
    rbd::GetModifyTimestamp,
    rbd::SetAccessTimestamp,
    rbd::SetModifyTimestamp,
    rbd::GetParent,
    rbd::ParentGet,
    rbd::ParentOverlapGet,
    rbd::ImageGroupGet,
    rbd::MetadataList,
    rbd::MetadataGet,
    rbd::MetadataSet,
    rbd::MetadataRemove,
    rbd::GetId,
    rbd::SetId,
    rbd::CopyUp,
    rbd::Sparsify,
    rbd::SnapshotGet,
    rbd::GetSnapshotName,
    rbd::GetSnapshotTimestamp,
    rbd::GetProtectionStatus,
    rbd::SnapshotGetLimit,
    rbd::SnapshotSetLimit,
    rbd::ChildrenList,
    rbd::GetChildren,
    rbd::DirGetId,
    rbd::DirGetName,
    rbd::DirList,
    rbd::DirAddImage,
    rbd::DirRemoveImage,
    rbd::DirRenameImage,
    rbd::DirStateAssert,
    rbd::DirStateSet,
    rbd::TrashList,
    rbd::TrashGet,
    rbd::TrashAdd,
    rbd::TrashRemove,
    rbd::TrashStateSet,
    rbd::NamespaceList,
    rbd::NamespaceAdd,
    rbd::NamespaceRemove,
    rbd::ObjectMapSave,
    rbd::ObjectMapResize,
    rbd::ObjectMapUpdate,
    rbd::ObjectMapSnapAdd,
    rbd::ObjectMapSnapRemove,
    rbd::ObjectMapLoad,
    rbd::Format1SnapshotList,
    rbd::Format1SnapshotAdd,
    rbd::Format1SnapshotRemove,
    rbd::Format1SnapshotRename,
    rbd::MigrationSet,
    rbd::MigrationSetState,
    rbd::MigrationGet,
    rbd::MigrationRemove,
];

/// Commands of monitor and manager.
const COMMANDS: &[&str] = &[
    "status",
    "health",
    "df",
    "fsid",
    "version",
    "versions",
    "features",
    "quorum_status",
    "log",
    "mon dump",
    "mon stat",
    "mon getmap",
    "mon metadata",
    "mon versions",
    "mgr dump",
    "mgr stat",
    "mgr module ls",
    "mgr services",
    "mds stat",
    "fs ls",
    "config get",
    "config dump",
    "config set",
    "config rm",
    "config-key set",
    "config-key put",
    "config-key get",
    "config-key rm",
    "config-key del",
    "config-key exists",
    "config-key ls",
    "config-key list",
    "config-key dump",
    "auth ls",
    "auth list",
    "auth get",
    "auth export",
    "auth get-key",
    "auth print-key",
    "auth print_key",
    "auth add",
    "auth get-or-create",
    "auth get-or-create-key",
    "auth rotate",
    "auth caps",
    "auth import",
    "auth del",
    "auth rm",
    "osd dump",
    "osd stat",
    "osd tree",
    "osd df",
    "osd ls",
    "osd getmaxosd",
    "osd getmap",
    "osd getcrushmap",
    "osd lspools",
    "osd map",
    "osd find",
    "osd metadata",
    "osd versions",
    "osd perf",
    "osd get-require-min-compat-client",
    "osd set",
    "osd unset",
    "osd set-full-ratio",
    "osd set-backfillfull-ratio",
    "osd set-nearfull-ratio",
    "osd down",
    "osd out",
    "osd in",
    "osd stop",
    "osd start",
    "osd reweight",
    "osd blocklist ls",
    "osd blocklist clear",
    "osd blocklist",
    "osd crush rule ls",
    "osd crush rule dump",
    "osd crush dump",
    "osd crush tree",
    "osd crush class ls",
    "osd crush add",
    "osd crush set",
    "osd crush create-or-move",
    "osd crush move",
    "osd crush rm",
    "osd crush remove",
    "osd crush reweight",
    "osd crush reweight-subtree",
    "osd crush add-bucket",
    "osd crush rename-bucket",
    "osd crush rule create-replicated",
    "osd crush rule rename",
    "osd crush rule rm",
    "osd crush tunables",
    "osd primary-affinity",
    "osd pg-upmap",
    "osd pg-upmap-items",
    "osd rm-pg-upmap",
    "osd rm-pg-upmap-items",
    "osd erasure-code-profile ls",
    "osd pool ls",
    "osd pool get",
    "osd pool stats",
    "osd pool set-quota",
    "osd pool get-quota",
    "osd pool create",
    "osd pool delete",
    "osd pool rm",
    "osd pool rename",
    "osd pool set",
    "osd pool application enable",
    "osd pool application disable",
    "osd pool application set",
    "osd pool application rm",
    "osd pool application get",
    "pg stat",
    "pg dump",
    "pg ls",
    "pg ls-by-pool",
    "pg ls-by-osd",
    "pg ls-by-primary",
    "pg map",
    "log last",
];

/// Names of their arguments.
const ARGUMENTS: &[&str] = &[
    "addr",
    "app",
    "autoscale_mode",
    "blocklistop",
    "caps",
    "class",
    "destpool",
    "detail",
    "entity",
    "epoch",
    "expire",
    "id",
    "ids",
    "key",
    "name",
    "num",
    "object",
    "pg_num",
    "pgid",
    "pool",
    "pool2",
    "size",
    "srcpool",
    "val",
    "value",
    "var",
    "weight",
    "who",
    "yes_i_really_really_mean_it",
];

/// Values of their arguments, as JSON.
const VALUES: &[&str] = &[
    "\"rbd\"",
    "\"other\"",
    "\"osd.0\"",
    "\"osd.1\"",
    "0",
    "1",
    "-1",
    "16",
    "99999999999",
    "0.5",
    "true",
    "[\"0\"]",
    "[\"osd.1\", \"1\"]",
    "\"1.0\"",
    "\"9.ffffffff\"",
    "\"client.new\"",
    "[\"mon\", \"allow r\"]",
    "\"add\"",
    "\"10.0.0.9:0/7\"",
    "\"default\"",
    "\"size\"",
    "\"noout\"",
    "\"replicated_rule\"",
    "\"\"",
    "null",
    "{}",
];

/// What the fuzzer does.
#[derive(Debug, Arbitrary)]
pub enum Item<'a> {
    /// A request to an OSD.
    Request { osd: u8, object: u8, seed: Option<u32>, flags: u32, snap: u8, ops: Vec<Operation<'a>> },
    /// The last request again, under the same number.
    Again { osd: u8 },
    /// A command to the monitor or the manager.
    Command { mgr: bool, words: u8, arguments: Vec<(u8, u8)>, input: &'a [u8] },
    /// A message of any kind to any daemon.
    Message { daemon: u8, kind: u8, version: u8, front: &'a [u8], data: &'a [u8] },
    /// Any bytes to any daemon.
    Bytes { daemon: u8, bytes: &'a [u8] },
    /// The client of a daemon takes what it is sent, or does not.
    Read { daemon: u8, reads: bool },
    /// The client of a daemon hangs up.
    HangUp { daemon: u8 },
    /// Time passes.
    Pass(u8),
}

/// An operation of a request.
#[derive(Debug, Arbitrary)]
pub enum Operation<'a> {
    /// With any arguments.
    Any { code: u8, fields: [u8; DESCRIPTOR_LEN - 10], data: &'a [u8] },
    /// On a range that fits.
    Range { code: u8, offset: u16, len: u16, data: &'a [u8] },
    /// A method of a class.
    Call { method: u8, input: &'a [u8] },
}

impl Operation<'_> {
    /// Reads it as an OSD does. `None`: no client sends such a thing.
    fn op(&self) -> Option<(Op, u32)> {
        let (code, fields, data) = match self {
            Self::Any { code, fields, data } => (pick(CODES, *code), *fields, data.to_vec()),
            Self::Range { code, offset, len, data } => {
                let mut fields = [0; DESCRIPTOR_LEN - 10];
                fields[..8].copy_from_slice(&u64::from(*offset).to_le_bytes());
                fields[8..16].copy_from_slice(&u64::from(*len).to_le_bytes());
                (pick(CODES, *code), fields, data.to_vec())
            }
            Self::Call { method, input } => {
                let (class, name) = pick(METHODS, *method);
                let input = input.to_vec();
                let (class, method) = (class.into(), name.into());
                return Some((Op::Call { class, method, input: input.into() }, 0));
            }
        };
        let mut front = Writer::new();
        front.u16(code);
        front.u32(0);
        front.put(&fields);
        front.u32(data.len() as u32);
        Op::decode(&mut Reader::new(front.as_slice()), &mut List::from(data)).ok()
    }
}

fn pick<T: Copy>(all: &[T], n: u8) -> T {
    all[usize::from(n) % all.len()]
}

/// The end of a client of one daemon.
struct DaemonClient {
    conn: ConnId,
    connection: Connection,
    /// Bytes on their way to the cluster.
    out: Pipe,
    reads: bool,
    closed: bool,
    replies: Vec<Message>,
}

/// A cluster of two OSDs, and a client of each of its daemons.
struct ClusterWorld {
    now: Time,
    machine: ClusterMachine,
    clients: [Option<DaemonClient>; LISTENERS],
    last_tid: u64,
    last: Option<OsdOp>,
}

fn settings() -> Settings {
    let osd = |n: u8| OsdSettings::new(Uuid([n; 16]), format!("v2:10.0.0.1:680{n}/0").parse().unwrap());
    Settings {
        registrable: 0,
        fsid: Uuid([7; 16]),
        mon: "v2:10.0.0.1:3300/0".parse().unwrap(),
        mgr: "v2:10.0.0.1:6900/0".parse().unwrap(),
        osds: vec![osd(1), osd(2)],
        memory_limit: MEMORY,
        null_writes: false,
        pools: vec![NewPool { pg_num: 4, ..NewPool::for_images("rbd") }],
        cephx: None,
        compression: None,
    }
}

/// The client's end of a connection to a daemon.
fn connect(now: Time, daemon: usize, to: SocketAddr) -> Connection {
    // Only a monitor gives a client its number.
    let (kind, number, entity) = match daemon {
        MON => (EntityName::MON, 0, -1),
        MGR => (EntityName::MGR, 5000, 5000),
        _ => (EntityName::OSD, 5000, 5000),
    };
    let config = Config {
        entity: EntityName { kind: EntityName::CLIENT, num: entity },
        ..Config::client(1, Pool::new(IDLE))
    };
    let addr = EntityAddr { kind: AddrKind::Msgr2, nonce: 0, sock: Some(to) };
    let target = Target { kind, addr, login: Login::unproved("admin", daemon == MON, number) };
    let mut connection = Connection::connect(now, Arc::new(config), target);
    connection.opened(now, to);
    connection
}

impl ClusterWorld {
    fn new() -> Self {
        let now = Time::from_nanos(1_800_000_000_000_000_000);
        let machine = ClusterMachine::new(settings());
        let mut world = Self { now, machine, clients: Default::default(), last_tid: 0, last: None };
        world.turn();
        assert!(world.machine.addresses().is_some(), "the cluster is up");
        world
    }

    /// The client of a daemon, which is made if there is none, or if the one there was is closed.
    fn client(&mut self, daemon: usize) -> &mut DaemonClient {
        if self.clients[daemon].as_ref().is_none_or(|client| client.closed) {
            let peer = SocketAddr::from(([10, 0, 0, 9], 40_000 + daemon as u16));
            let local = SocketAddr::from(([10, 0, 0, 1], PORTS[daemon]));
            let listener = ListenerId(daemon as u32);
            let conn = self.machine.accepted(self.now, listener, peer, local).expect("there is room");
            let connection = connect(self.now, daemon, local);
            let (out, replies) = Default::default();
            self.clients[daemon] =
                Some(DaemonClient { conn, connection, out, reads: true, closed: false, replies });
            self.turn();
        }
        self.clients[daemon].as_mut().unwrap()
    }

    fn send(&mut self, daemon: usize, message: Message) {
        self.client(daemon).connection.send(message);
        self.turn();
    }

    /// Carries bytes until none moves any more.
    fn turn(&mut self) {
        loop {
            let mut moved = false;
            while let Some(action) = self.machine.next_action(self.now) {
                moved = true;
                match action {
                    Action::Listen { listener, addr } => self.machine.listening(self.now, listener, Ok(addr)),
                    Action::Close { conn } => {
                        let gone = self.clients.iter_mut().flatten().find(|client| client.conn == conn);
                        gone.into_iter().for_each(|client| client.closed = true);
                    }
                    _ => {}
                }
            }
            if self.machine.deadline().is_some_and(|deadline| deadline <= self.now) {
                self.machine.timeout(self.now);
            }
            for client in self.clients.iter_mut().flatten().filter(|client| !client.closed) {
                moved |= client.exchange(self.now, &mut self.machine);
            }
            if !moved {
                return;
            }
        }
    }

    fn request(&mut self, osd: usize, request: OsdOp) {
        self.last_tid += 1;
        let message = Message::of(self.last_tid, &request);
        self.last = Some(request);
        self.send(osd, message);
    }

    fn osd_op(&self, object: u8, seed: Option<u32>, ops: impl IntoIterator<Item = (Op, u32)>) -> OsdOp {
        let map = self.machine.osdmap().expect("there is a map");
        let name = format!("object{}", object % 8);
        let pool = map.pools.get(&1);
        let hash = pool.map_or(0, |pool| pool.hash_object(name.as_bytes(), b"", b""));
        let pg = PgId { pool: 1, seed: hash };
        OsdOp {
            pg: SpgId::whole(match seed {
                Some(seed) => PgId { pool: 1, seed },
                None => pool.map_or(pg, |pool| pool.pg(pg)),
            }),
            hash,
            epoch: map.epoch,
            flags: flag::READ | flag::WRITE | flag::ON_DISK,
            reqid: ReqId::default(),
            client_incarnation: 0,
            mtime: Utime::from(self.now),
            locator: ObjectLocator { pool: 1, ..ObjectLocator::default() },
            object: ObjectName::from(name.as_str()),
            ops: ops.into_iter().collect(),
            snap: NOSNAP,
            snap_context: SnapContext::default(),
            attempt: 0,
            features: u64::MAX,
        }
    }

    fn run(&mut self, items: &[Item<'_>]) {
        for item in items {
            self.act(item);
        }
        // Whatever has come, the daemons still answer new clients.
        self.clients = Default::default();
        self.command(MON, r#"{"prefix": "status"}"#.to_owned(), b"");
        assert!(!self.client(MON).replies.is_empty(), "a command is answered");
    }

    fn act(&mut self, item: &Item<'_>) {
        let daemon = |n: u8| usize::from(n) % LISTENERS;
        match item {
            Item::Request { osd, object, seed, flags, snap, ops } => {
                let ops = ops.iter().filter_map(Operation::op);
                let mut request = self.osd_op(*object, *seed, ops);
                request.flags ^= *flags;
                request.snap = if *snap == 0 { NOSNAP } else { u64::from(*snap) - 1 };
                self.request(OSD + usize::from(*osd % 2), request);
            }
            Item::Again { osd } => {
                if let Some(request) = &self.last {
                    let message = Message::of(self.last_tid, request);
                    self.send(OSD + usize::from(*osd % 2), message);
                }
            }
            Item::Command { mgr, words, arguments, input } => {
                let daemon = if *mgr { MGR } else { MON };
                let argument = |(name, value): &(u8, u8)| {
                    format!(", \"{}\": {}", pick(ARGUMENTS, *name), pick(VALUES, *value))
                };
                let arguments: String = arguments.iter().map(argument).collect();
                self.command(
                    daemon,
                    format!("{{\"prefix\": \"{}\"{arguments}}}", pick(COMMANDS, *words)),
                    input,
                );
            }
            Item::Message { daemon: to, kind, version, front, data } => {
                let message = Message::new((*kind).into(), (*version).into(), 1, front.to_vec());
                self.send(daemon(*to), message.with_data(data.to_vec()));
            }
            Item::Bytes { daemon: to, bytes } => {
                self.client(daemon(*to)).out.extend(*bytes);
                self.turn();
            }
            Item::Read { daemon: of, reads } => {
                self.client(daemon(*of)).reads = *reads;
                self.turn();
            }
            Item::HangUp { daemon: of } => {
                if let Some(client) = self.clients[daemon(*of)].take().filter(|client| !client.closed) {
                    self.machine.disconnected(self.now, client.conn, Disconnect::Closed);
                }
                self.turn();
            }
            Item::Pass(seconds) => {
                self.now = self.now + Duration::from_secs((*seconds).into());
                self.turn();
            }
        }
    }

    fn command(&mut self, daemon: usize, text: String, input: &[u8]) {
        let input = List::from(input.to_vec());
        self.last_tid += 1;
        let command = MonCommand { fsid: Uuid([7; 16]), command: vec![text], input };
        self.send(daemon, Message::of(self.last_tid, &command));
    }
}

impl DaemonClient {
    /// Carries bytes both ways, as far as either side takes them. `true`: some have moved.
    fn exchange(&mut self, now: Time, machine: &mut ClusterMachine) -> bool {
        let mut list = List::new();
        self.connection.transmit(&mut list, usize::MAX);
        self.out.extend(list.to_vec());
        let before = self.out.len();
        let mut deliver = || {
            let landing = machine.landing(self.conn);
            self.out.deliver(landing, usize::MAX, |delivery| match delivery {
                Delivery::Landed(place, n) => machine.landed(now, self.conn, place, n),
                Delivery::Received(bytes) => machine.received(now, self.conn, bytes),
            })
        };
        while deliver().bytes() > 0 {}
        let mut moved = self.out.len() < before;
        if self.reads {
            let mut list = List::new();
            machine.transmit(now, self.conn, &mut list, usize::MAX);
            moved |= !list.is_empty();
            self.take(now, &list.to_vec());
        }
        moved
    }

    /// Takes what the cluster sends: messages whose answers can be read.
    fn take(&mut self, now: Time, bytes: &[u8]) {
        let mut pipe = Pipe::from(bytes);
        while !pipe.is_empty() {
            let connection = &mut self.connection;
            let delivered = pipe.deliver(connection.landing(), usize::MAX, |delivery| match delivery {
                Delivery::Landed(place, n) => connection.landed(now, place, n),
                Delivery::Received(bytes) => connection.received(now, bytes, &mut NoPlacer),
            });
            if delivered.bytes() == 0 {
                break;
            }
            while let Some(event) = self.connection.poll() {
                let Event::Message(mut message) = event else { continue };
                if message.header.kind == OsdOpReply::KIND {
                    message.decode::<OsdOpReply>().expect("a reply can be read");
                } else {
                    self.replies.push(message);
                }
            }
        }
    }
}

/// Does all of it with a cluster of its own.
pub fn run(items: &[Item<'_>]) {
    ClusterWorld::new().run(items);
}
