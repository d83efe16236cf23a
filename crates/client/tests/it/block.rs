//! Images and files as devices, on one thread with the machine that uses them.

use onego::block::{
    BlockStatus, Completions, Device, Error, Export, Flags, Host, Op, Outcome, Plug, Request, StatusExtent,
};
use onego::ceph::{self, Config};
use onego::nfs::{self, SetAttributes};
use onego::rbd::{self, CreateOptions, Image};
use onego::zero_copy::Settings;
use onego::{EngineKind, SegmentMut, Spin, Wait};
use onego_cluster::Cluster;
use onego_wire::{Layer, NoConnections, Time};
use std::rc::Rc;

const OBJECT: u64 = 4 << 20;
const SIZE: u64 = 16 * OBJECT;

/// An export without clients: the test submits requests on its behalf.
#[derive(Default)]
struct NoClients {
    below: NoConnections,
    completions: Completions,
    done: Vec<(u64, Result<Outcome, Error>)>,
}

impl Export for NoClients {
    fn has_completions(&self) -> bool {
        !self.completions.is_empty()
    }
}

impl Layer for NoClients {
    type Below = NoConnections;

    fn below(&self) -> &NoConnections {
        &self.below
    }

    fn below_mut(&mut self) -> &mut NoConnections {
        &mut self.below
    }

    fn settle(&mut self, _: Time) {
        while let Some(completion) = self.completions.take() {
            self.done.push((completion.tag, completion.result));
        }
    }
}

/// Creates a host with an image of [`SIZE`] bytes, and the image's cluster.
fn image() -> (Cluster, Host<NoClients>, Rc<dyn Device>) {
    let cluster = Cluster::start(onego_cluster::Config::default()).unwrap();
    let config = Config::from_text(&cluster.conf()).unwrap();
    let mut host =
        Host::open(EngineKind::default(), Settings::default(), Spin::default(), |_| NoClients::default())
            .unwrap();
    let client = host.connect(&config).unwrap();
    let image = host.block_on(async {
        let pool = client.pool("rbd").await?;
        rbd::create(&pool, "disk", &CreateOptions::new(SIZE)).await?;
        Image::open(&pool, "disk").await
    });
    let image: Image = image.unwrap().unwrap();
    let device = host.image(image).unwrap();
    (cluster, host, device)
}

fn batch(
    host: &mut Host<NoClients>,
    device: &dyn Device,
    requests: Vec<(u64, Op, Flags)>,
) -> Vec<Result<Outcome, Error>> {
    let count = requests.len();
    let (export, now) = host.export();
    let mut plug = Plug::default();
    for (tag, (offset, op, flags)) in requests.into_iter().enumerate() {
        let request = Request::new(export.completions.caller(tag as u64), offset, op);
        plug.submit(now, device, request.with_flags(flags));
    }
    plug.release(now, device);
    while host.export().0.done.len() < count {
        host.turn(Wait::Forever).unwrap();
    }
    let mut done = std::mem::take(&mut host.export().0.done);
    done.sort_by_key(|(tag, _)| *tag);
    done.into_iter().map(|(_, result)| result).collect()
}

fn one(host: &mut Host<NoClients>, device: &dyn Device, offset: u64, op: Op) -> Result<Outcome, Error> {
    batch(host, device, vec![(offset, op, Flags::default())]).remove(0)
}

fn bytes(result: Result<Outcome, Error>) -> Vec<u8> {
    match result {
        Ok(Outcome::Data(list)) => list.to_vec(),
        Ok(Outcome::Filled(buffer)) => buffer.to_vec(),
        other => panic!("no bytes: {other:?}"),
    }
}

#[test]
fn an_image_is_written_and_read_as_a_device() {
    let (_cluster, mut host, device) = image();
    let writes: Vec<_> = (0..64u64)
        .map(|n| {
            (OBJECT - 128 * 1024 + n * 4096, Op::Write { data: vec![n as u8; 4096].into() }, Flags::default())
        })
        .collect();
    assert!(batch(&mut host, &*device, writes).iter().all(Result::is_ok));
    let read = bytes(one(&mut host, &*device, OBJECT - 128 * 1024, Op::Read { length: 64 * 4096 }));
    let expected: Vec<u8> = (0..64u8).flat_map(|n| [n; 4096]).collect();
    assert_eq!(read, expected);
    let buffer = SegmentMut::zeroed(4096);
    let read = bytes(one(&mut host, &*device, OBJECT - 4096, Op::ReadInto { buffer }));
    assert_eq!(read, [31; 4096]);
    assert!(one(&mut host, &*device, 0, Op::Flush).is_ok());
}

#[test]
fn status_reports_absent_objects() {
    let (_cluster, mut host, device) = image();
    one(&mut host, &*device, OBJECT, Op::Write { data: vec![1; 8192].into() }).unwrap();
    let Ok(Outcome::Status(runs)) = one(&mut host, &*device, 0, Op::Status { length: SIZE }) else {
        panic!("no status")
    };
    let run = |length, status| StatusExtent { length, status };
    assert_eq!(
        runs,
        [
            run(OBJECT, BlockStatus::HOLE),
            run(8192, BlockStatus::DATA),
            run(SIZE - OBJECT - 8192, BlockStatus::HOLE)
        ]
    );
    // A trimmed range is a hole again.
    one(&mut host, &*device, OBJECT, Op::Trim { length: OBJECT }).unwrap();
    let Ok(Outcome::Status(runs)) = one(&mut host, &*device, 0, Op::Status { length: SIZE }) else {
        panic!("no status")
    };
    assert_eq!(runs, [run(SIZE, BlockStatus::HOLE)]);
}

#[test]
fn zeroes_that_keep_their_space_are_data() {
    let (_cluster, mut host, device) = image();
    let no_hole = Flags { no_hole: true, ..Flags::default() };
    let results = batch(&mut host, &*device, vec![(0, Op::Zero { length: 65536 }, no_hole)]);
    assert!(results[0].is_ok());
    let Ok(Outcome::Status(runs)) = one(&mut host, &*device, 0, Op::Status { length: 65536 }) else {
        panic!("no status")
    };
    assert_eq!(runs, [StatusExtent { length: 65536, status: BlockStatus::DATA }]);
    let fast = Flags { no_hole: true, fast: true, ..Flags::default() };
    let results = batch(&mut host, &*device, vec![(0, Op::Zero { length: 65536 }, fast)]);
    assert!(matches!(results[0], Err(Error::Unsupported(_))), "{results:?}");
}

#[test]
fn requests_beyond_the_end_are_refused() {
    let (_cluster, mut host, device) = image();
    let refused = one(&mut host, &*device, SIZE - 1, Op::Read { length: 2 }).unwrap_err();
    assert_eq!(refused, Error::OutOfBounds { offset: SIZE - 1, length: 2, size: SIZE });
}

#[test]
fn an_image_of_another_client_is_refused() {
    let (cluster, mut host, _device) = image();
    let config = Config::from_text(&cluster.conf()).unwrap();
    let (mut reactor, client) = ceph::Reactor::new(&config).unwrap();
    let image = reactor.block_on(async { Image::open(&client.pool("rbd").await?, "disk").await });
    let image: Image = image.unwrap().unwrap();
    assert!(matches!(host.image(image), Err(ceph::Error::Invalid(_))));
}

/// One write, then its neighbours: the number of requests to the cluster does not matter, but all bytes must arrive.
#[test]
fn merged_writes_arrive_completely_in_any_order() {
    let (_cluster, mut host, device) = image();
    let order = [5u64, 4, 6, 3, 7, 0, 1, 2];
    let writes =
        order.map(|n| (n * 512, Op::Write { data: vec![n as u8 + 1; 512].into() }, Flags::default()));
    assert!(batch(&mut host, &*device, writes.into()).iter().all(Result::is_ok));
    let read = bytes(one(&mut host, &*device, 0, Op::Read { length: 4096 }));
    assert_eq!(read, (0..8u8).flat_map(|n| [n + 1; 512]).collect::<Vec<_>>());
}

#[test]
fn a_truncated_file_does_not_read_as_zeros() {
    let export =
        onego_nfs_server::Export::default().with_squash(onego_nfs_server::Squash::None).with_secure(false);
    let server =
        onego_nfs_server::Server::start(onego_nfs_server::Config::default().with_export(export)).unwrap();
    let config = nfs::Config::new(&server.addr().ip().to_string()).with_port(server.addr().port());
    let mut host =
        Host::open(EngineKind::default(), Settings::default(), Spin::default(), |_| NoClients::default())
            .unwrap();
    let (mount, _) = host.mount(&config, "/export").unwrap();
    let set_size = |size| SetAttributes { size: Some(size), ..SetAttributes::default() };
    let file = host.block_on(mount.create("file", set_size(8192), true)).unwrap().unwrap();
    let device = host.file(file.clone(), 8192, true).unwrap();
    assert_eq!(bytes(one(&mut host, &*device, 0, Op::Read { length: 8192 })), [0; 8192]);
    host.block_on(file.set_attributes(set_size(5000))).unwrap().unwrap();
    let buffer = SegmentMut::zeroed(8192);
    for op in [Op::Read { length: 8192 }, Op::ReadInto { buffer }] {
        let failed = one(&mut host, &*device, 0, op).unwrap_err().to_string();
        assert!(failed.contains("was truncated") && failed.contains("5000"), "{failed}");
    }
    assert_eq!(bytes(one(&mut host, &*device, 0, Op::Read { length: 4096 })), [0; 4096]);
}
