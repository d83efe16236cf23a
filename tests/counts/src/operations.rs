//! The counted operations: each joins a client and a server in memory and keeps the same number of requests in flight.

use crate::callgrind::COPY;
use crate::pair::{CountedSide, MachinePair, START, count_if, counted_section};
use anyhow::{Context as _, Result, bail};
use onego::ceph::ImageRequest;
use onego::rados::machine;
use onego::rbd::{self, CreateOptions, Image};
use onego_block::{Completions, Flags, Geometry, Memory, Op, Request};
use onego_buf::{List, Pool, SegmentMut};
use onego_ceph::client::{self, Client};
use onego_ceph::crush::Workspace;
use onego_ceph::messages::ObjectName;
use onego_ceph::ops;
use onego_ceph::types::{EntityName, PgId, Uuid};
use onego_cluster::{ClusterMachine, NewPool, OsdSettings, Settings};
use onego_engine::Sleeper;
use onego_export::nbd;
use onego_msgr::addr::{AddrVec, EntityAddr};
use onego_msgr::auth::Login;
use onego_msgr::{Connection, Event, Message, NoPlacer, Target, Visitor};
use onego_nbd::client::{Endpoint, NbdClient};
use onego_nfs::client::{self as nfs, FileClient, Way};
use onego_nfs::rpc::{AuthSys, Credential};
use onego_nfs::v3::{CreateArgs, CreateHow, Place, SetAttributes, Stability};
use onego_nfs_server::{Caller, Context, Export, FileSystem as _, Limits, ServerMachine, Squash};
use onego_wire::{LocalPort, Machine, Time};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Requests in flight: enough that several messages share a turn, as under load.
const DEPTH: u64 = 16;

/// Batches before counting begins: locks are taken, maps and pools have their size, and every block is written.
const WARM_UP: u64 = 8;

/// Counted batches.
const BATCHES: u64 = 16;

/// Counted requests of each operation.
pub(crate) const REQUESTS: u64 = DEPTH * BATCHES;

/// Blocks that the requests go to in turn.
const BLOCKS: u64 = 64;

const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes of one request.
const KIB_4: usize = 4 << 10;
const KIB_64: usize = 64 << 10;

/// A counted operation.
#[derive(Clone, Copy)]
pub(crate) struct CountedOp {
    pub(crate) name: &'static str,
    pub(crate) sides: &'static [(&'static str, CountedSide)],
    /// Executes [`REQUESTS`] requests and counts one side.
    pub(crate) run: fn(CountedSide),
}

const BOTH: &[(&str, CountedSide)] = &[("client", CountedSide::Client), ("server", CountedSide::Server)];
const CLIENT: &[(&str, CountedSide)] = &[("client", CountedSide::Client)];
const CODEC: &[(&str, CountedSide)] = &[("encode", CountedSide::Client), ("decode", CountedSide::Server)];

/// The operation by which callgrind's name of `memcpy` is found.
const COPY_ONLY: CountedOp = CountedOp { name: COPY, sides: CLIENT, run: copy };

pub(crate) static OPERATIONS: [CountedOp; 12] = [
    CountedOp { name: "image-read-4k", sides: BOTH, run: |side| image(side, KIB_4, Transfer::Read) },
    CountedOp { name: "image-read-64k", sides: BOTH, run: |side| image(side, KIB_64, Transfer::Read) },
    CountedOp { name: "image-write-4k", sides: BOTH, run: |side| image(side, KIB_4, Transfer::Write) },
    CountedOp { name: "image-write-64k", sides: BOTH, run: |side| image(side, KIB_64, Transfer::Write) },
    CountedOp { name: "object-read-4k", sides: BOTH, run: |side| object(side, Transfer::Read) },
    CountedOp { name: "object-write-4k", sides: BOTH, run: |side| object(side, Transfer::Write) },
    CountedOp { name: "nfs-read-4k", sides: BOTH, run: |side| file(side, Transfer::Read) },
    CountedOp { name: "nfs-write-4k", sides: BOTH, run: |side| file(side, Transfer::Write) },
    CountedOp { name: "nbd-read-4k", sides: BOTH, run: |side| block(side, Transfer::Read) },
    CountedOp { name: "nbd-write-4k", sides: BOTH, run: |side| block(side, Transfer::Write) },
    CountedOp { name: "frame-4k", sides: CODEC, run: frame },
    CountedOp { name: "crush-place", sides: CLIENT, run: place },
];

/// Runs the operation and the side of these names.
pub(crate) fn run_side(names: &[String]) -> Result<()> {
    let [operation, side] = names else { bail!("an operation and a side are missing") };
    let operation = OPERATIONS.iter().chain([&COPY_ONLY]).find(|known| known.name == operation);
    let operation = operation.context("no such operation")?;
    let (_, side) = operation.sides.iter().find(|(name, _)| name == side).context("no such side")?;
    (operation.run)(*side);
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transfer {
    Read,
    Write,
}

/// Memory for one request, which the caller of a client has ready.
enum Payload {
    Read(SegmentMut),
    Write(List),
}

impl Payload {
    fn new(transfer: Transfer, len: usize) -> Self {
        match transfer {
            Transfer::Read => Self::Read(SegmentMut::zeroed(len)),
            Transfer::Write => Self::Write(List::from(vec![0xa5; len])),
        }
    }
}

/// Runs batches of requests: writes until all blocks are written, then `transfer`, and counts the last [`BATCHES`].
///
/// `submit` gives the client a request for a block; `take` takes one completion, and returns what it came with.
fn run<C: Machine, S: Machine, T>(
    pair: &mut MachinePair<C, S>,
    (side, transfer, len): (CountedSide, Transfer, usize),
    mut submit: impl FnMut(&mut C, Time, u64, Payload),
    mut take: impl FnMut(&mut C) -> Option<T>,
) {
    for batch in 0..WARM_UP + BATCHES {
        if batch == WARM_UP {
            pair.count(side);
        }
        let transfer = if batch < WARM_UP / 2 { Transfer::Write } else { transfer };
        let first = batch * DEPTH;
        for number in first..first + DEPTH {
            let (payload, now) = (Payload::new(transfer, len), pair.now());
            pair.client.call(|client| submit(client, now, number % BLOCKS, payload));
        }
        let mut left = DEPTH;
        pair.run_until(|pair| {
            while let Some(completion) = pair.client.call(&mut take) {
                // The caller's memory is not the client's.
                drop(completion);
                left -= 1;
            }
            left == 0
        });
    }
}

/// Reads or writes an image of an embedded cluster.
fn image(side: CountedSide, len: usize, transfer: Transfer) {
    let config = ceph_config();
    let waker = Sleeper::sleepless().waker();
    let (client, cluster) = machine(&config, CONNECT_TIMEOUT, waker, START);
    let mut pair = MachinePair::new(client, ceph_cluster(1));
    let image = pair.block_on(async {
        cluster.ready().await?;
        let pool = cluster.pool("rbd").await?;
        rbd::create(&pool, "image", &CreateOptions::new(64 << 20)).await?;
        Image::open(&pool, "image").await
    });
    let image = image.expect("the embedded cluster creates an image");
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let submit = |_: &mut _, _, block: u64, payload| {
        let offset = block * len as u64;
        let request = match payload {
            Payload::Read(buffer) => ImageRequest::Read { offset, buffer },
            Payload::Write(data) => ImageRequest::Write { offset, data },
        };
        let outcomes = Arc::clone(&outcomes);
        let begun = image.begin(request, move |result| {
            let outcome = result.expect("the embedded cluster serves the image");
            outcomes.lock().expect("no call panics").push(outcome);
        });
        begun.expect("the request lies in the image");
    };
    let take = |_: &mut _| outcomes.lock().expect("no call panics").pop();
    run(&mut pair, (side, transfer, len), submit, take);
}

/// Reads or writes objects of an embedded cluster.
fn object(side: CountedSide, transfer: Transfer) {
    let mut pair = MachinePair::new(Client::new(START, &ceph_config()), ceph_cluster(1));
    pair.run_until(|pair| {
        while pair.client.machine.poll_event().is_some() {}
        pair.client.machine.osdmap().is_some()
    });
    let pool = pair.client.machine.osdmap().and_then(|map| map.pool_id("rbd"));
    let pool = pool.expect("the embedded cluster has the pool");
    let names: Vec<ObjectName> =
        (0..BLOCKS).map(|n| ObjectName::from(format!("object-{n:04}").as_str())).collect();
    let submit = |client: &mut Client<u64>, now, block: u64, payload| {
        let name = names[block as usize].clone();
        let request = match payload {
            Payload::Read(buffer) => {
                let op = ops::Op::Read { offset: 0, length: KIB_4 as u64 };
                client::Request { read_into: Some(buffer), ..client::Request::one(pool, name, op) }
            }
            Payload::Write(data) => client::Request::one(pool, name, ops::Op::Write { offset: 0, data }),
        };
        assert!(client.submit(now, request, block).is_ok(), "the client has room");
    };
    run(&mut pair, (side, transfer, KIB_4), submit, |client| {
        while client.poll_event().is_some() {}
        let completion = client.poll_completion()?;
        match &completion.outcome {
            Ok(client::Outcome::Reply(reply)) if reply.result >= 0 => Some(completion),
            other => panic!("the embedded cluster serves the object: {other:?}"),
        }
    });
}

/// Reads or writes a file of an NFS server in memory.
fn file(side: CountedSide, transfer: Transfer) {
    let limits = Limits { bytes: 64 << 20, files: 16 };
    let mut fs = onego_nfs_server::Memory::new(limits, 1, Pool::new(1 << 20), START);
    let caller = Caller { uid: 0, gid: 0, groups: Vec::new() };
    let context = || Context { caller: &caller, now: START };
    let root = fs.mount(context(), b"").expect("the root is exported");
    let how = CreateHow::Guarded(SetAttributes { mode: Some(0o644), ..SetAttributes::default() });
    let place = Place { dir: root, name: "file".into() };
    let created = fs.create(context(), CreateArgs { place, how }).expect("there is room for a file");
    let file = created.file.expect("the server returns handles");
    let addr = SocketAddr::new(SERVER, 2049);
    let export = Export::default().with_squash(Squash::None).with_secure(false);
    let server = ServerMachine::new(vec![addr], None, export, Box::new(fs), Pool::new(1 << 20));
    let credential = Credential::Sys(AuthSys { machine: b"counts".to_vec(), ..AuthSys::default() });
    let mut client = FileClient::new(nfs::Config::new(credential, 1, Pool::new(1 << 20)));
    client.connect(addr, LocalPort::Any, &Way::Tcp, 1);
    let mut pair = MachinePair::new(client, server);
    let submit = |client: &mut FileClient<u64>, now, block, payload| {
        let offset = block * KIB_4 as u64;
        match payload {
            Payload::Read(buffer) => client.read(now, file, offset, buffer, block),
            Payload::Write(data) => client.write(now, file, offset, data, Stability::FileSync, block),
        }
    };
    run(&mut pair, (side, transfer, KIB_4), submit, |client| {
        let completion = client.completion()?;
        assert!(completion.result.is_ok(), "the server serves the file: {:?}", completion.result);
        Some(completion)
    });
}

/// Reads or writes memory that an NBD server exports.
fn block(side: CountedSide, transfer: Transfer) {
    let addr = SocketAddr::new(SERVER, 10_809);
    let mut server = nbd::Server::new(nbd::Config::default());
    let device = Rc::new(Memory::new(Geometry::new(64 << 20)));
    let (name, description) = ("disk".into(), String::new());
    let export = nbd::Export { name, description, device, read_only: false };
    server.add_export(export).expect("the server has no exports yet");
    server.listen(addr);
    let config = onego_nbd::client::Config::new("disk");
    let client = NbdClient::new(config, Endpoint::Tcp(vec![addr])).expect("the endpoint has an address");
    let (device, opened) = (client.device(), client.opened());
    let mut pair = MachinePair::new(client, server);
    pair.block_on(opened).expect("the server has the export");
    let completions = Completions::default();
    let submit = |_: &mut NbdClient, now, block, payload| {
        let op = match payload {
            Payload::Read(buffer) => Op::ReadInto { buffer },
            Payload::Write(data) => Op::Write { data },
        };
        let request = Request::new(completions.caller(block), block * KIB_4 as u64, op);
        device.submit(now, request.with_flags(Flags::default()));
    };
    run(&mut pair, (side, transfer, KIB_4), submit, |_| {
        let completion = completions.take()?;
        assert!(completion.result.is_ok(), "the server serves the export: {:?}", completion.result);
        Some(completion)
    });
}

/// Sends a message in one frame in crc mode: the client encodes, and the server decodes.
fn frame(side: CountedSide) {
    let config = onego_msgr::Config::client(1, Pool::new(1 << 20));
    let addrs = ceph_addr(6800);
    let login = Login::unproved("admin", false, 1);
    let target = Target { kind: EntityName::OSD, addr: addrs.0[0], login };
    let mut from = Connection::connect(START, Arc::new(config), target);
    let peer = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 2), 50_000));
    from.opened(START, peer);
    let config = onego_msgr::Config::server(EntityName::osd(0), addrs, Pool::new(1 << 20));
    let visitor = Visitor { addr: peer, fresh_global_id: 1 };
    let mut to = Connection::accept(START, Arc::new(config), visitor, SocketAddr::new(SERVER, 6800));
    while !(from.is_ready() && to.is_ready()) {
        carry(&mut from, &mut to);
        carry(&mut to, &mut from);
    }
    let mut arrived = 0;
    for number in 0..WARM_UP + REQUESTS {
        let counted = (number >= WARM_UP).then_some(side);
        let message = Message::new(42, 8, 3, vec![7; 128]).with_data(vec![0xa5; KIB_4]);
        let mut out = List::new();
        count_if(counted == Some(CountedSide::Client), || {
            from.send(message);
            from.transmit(&mut out, 1 << 20);
        });
        let bytes = out.to_segment();
        count_if(counted == Some(CountedSide::Client), || drop(out));
        count_if(counted == Some(CountedSide::Server), || {
            to.received(START, bytes, &mut NoPlacer);
            while let Some(event) = to.poll() {
                arrived += u64::from(matches!(event, Event::Message(_)));
            }
        });
    }
    assert_eq!(arrived, WARM_UP + REQUESTS, "every message arrives");
}

/// Moves the output of one end of a connection to the other.
fn carry(from: &mut Connection, to: &mut Connection) {
    let mut out = List::new();
    from.transmit(&mut out, 1 << 20);
    if !out.is_empty() {
        to.received(START, out.to_segment(), &mut NoPlacer);
        while to.poll().is_some() {}
    }
}

/// Places groups of a pool with three copies on 32 OSDs.
fn place(_: CountedSide) {
    let pools = vec![NewPool { size: Some(3), ..NewPool::for_images("rbd") }];
    let server = ClusterMachine::new(Settings { pools, ..settings(32) });
    let pair = MachinePair::new(Client::<u64>::new(START, &ceph_config()), server);
    let map = pair.server.machine.osdmap().expect("the embedded cluster is up");
    let (pool, mut workspace) = (map.pool_id("rbd").expect("there is a pool"), Workspace::default());
    for seed in 0..WARM_UP as u32 {
        map.place_with(&mut workspace, PgId { pool, seed });
    }
    for seed in 0..REQUESTS as u32 {
        counted_section(|| map.place_with(&mut workspace, PgId { pool, seed }));
    }
}

/// Copies bytes.
fn copy(_: CountedSide) {
    let (from, mut to) = (std::hint::black_box(vec![1; KIB_64]), vec![0; KIB_64]);
    for _ in 0..REQUESTS {
        counted_section(|| to.copy_from_slice(&from));
    }
    assert!(to == from, "the copy is one");
}

fn ceph_config() -> client::Config {
    client::Config::new(vec![ceph_addr(3300)], "admin", Pool::new(16 << 20))
}

fn ceph_addr(port: u16) -> AddrVec {
    AddrVec(vec![EntityAddr::msgr2(SocketAddr::new(SERVER, port), 0)])
}

fn ceph_cluster(osds: u8) -> ClusterMachine {
    ClusterMachine::new(settings(osds))
}

fn settings(osds: u8) -> Settings {
    let osd = |n: u8| OsdSettings::new(Uuid([8 + n; 16]), ceph_addr(6800 + u16::from(n)));
    Settings {
        registrable: 0,
        fsid: Uuid([9; 16]),
        mon: ceph_addr(3300),
        mgr: AddrVec::default(),
        osds: (0..osds).map(osd).collect(),
        memory_limit: 1 << 30,
        null_writes: false,
        pools: vec![NewPool { size: Some(1), ..NewPool::for_images("rbd") }],
        cephx: None,
        compression: None,
    }
}
