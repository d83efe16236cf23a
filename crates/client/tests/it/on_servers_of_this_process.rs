//! Details of the public API, against servers in this process: empty reads, completions by kind, `Clone` and `Debug`
//! of handles, and a cluster with authentication.

use onego::ceph::{self, ImageRequest};
use onego::nfs::{self, FileOutcome, FileRequest, Filled, SetAttributes, Stability};
use onego::rados::Cluster;
use onego::{ErrorKind, SegmentMut, Wait, rbd};
use onego_nfs_server::{Export, Server, Squash};
use std::sync::mpsc;

fn with_cluster(body: impl AsyncFnOnce(Cluster) -> Result<(), ceph::Error>) {
    let server = onego_cluster::Cluster::start(onego_cluster::Config::default()).unwrap();
    let config = ceph::Config::from_text(&server.conf()).unwrap();
    let (mut reactor, cluster) = ceph::Reactor::new(&config).unwrap();
    reactor.block_on(body(cluster)).unwrap().unwrap();
}

fn files() -> (Server, nfs::Reactor, nfs::Mount) {
    let export = Export::default().with_squash(Squash::None).with_secure(false);
    let server = Server::start(onego_nfs_server::Config::default().with_export(export)).unwrap();
    let addr = server.addr();
    let config = nfs::Config::new(&addr.ip().to_string()).with_port(addr.port());
    let (reactor, mount) = nfs::Reactor::mount(&config, "/export").unwrap();
    (server, reactor, mount)
}

#[test]
fn a_length_of_zero_reads_a_whole_object_and_nothing_of_an_image() {
    with_cluster(async |cluster| {
        let pool = cluster.pool("rbd").await?;
        pool.write_full("object", b"hello".to_vec()).await?;
        assert_eq!(pool.read("object", 0, 0).await?.to_vec(), b"hello");
        assert_eq!(pool.read("object", 2, 0).await?.to_vec(), b"llo");
        assert_eq!(pool.read_into("object", 0, SegmentMut::zeroed(0)).await?.1, 0);

        rbd::create(&pool, "disk", &rbd::CreateOptions::new(1 << 20)).await?;
        let disk = rbd::Image::open(&pool, "disk").await?;
        disk.write(0, b"hello".to_vec()).await?;
        for offset in [0, 1 << 20] {
            assert_eq!(disk.read(offset, 0).await?.len(), 0);
            assert_eq!(disk.read_into(offset, SegmentMut::zeroed(0)).await?.len(), 0);
            disk.write(offset, Vec::new()).await?;
        }
        let behind = disk.read((1 << 20) + 1, 0).await.unwrap_err();
        assert_eq!(behind.kind(), ErrorKind::InvalidInput, "{behind}");
        Ok(())
    });
}

#[test]
fn a_length_of_zero_reads_nothing_of_a_file() {
    let (_server, mut reactor, mount) = files();
    let read = reactor.block_on(async {
        let file = mount.create("file", SetAttributes::default(), true).await?;
        file.write(0, b"hello".to_vec()).await?;
        file.write(0, Vec::new()).await?;
        assert_eq!(file.read(2, 0).await?.len(), 0);
        let (buffer, filled) = file.read_into(2, SegmentMut::zeroed(0)).await?;
        assert_eq!((buffer.len(), filled.bytes), (0, 0));
        assert_eq!(file.read(0, 100).await?.to_vec(), b"hello");
        Ok::<_, nfs::Error>(())
    });
    read.unwrap().unwrap();
}

fn complete(reactor: &mut nfs::Reactor, file: &nfs::File, request: FileRequest) -> FileOutcome {
    reactor.submit(file, request, 7);
    loop {
        if let Some(completed) = reactor.completion() {
            assert_eq!(completed.tag, 7);
            return completed.outcome;
        }
        reactor.turn(Wait::Forever).unwrap();
    }
}

#[test]
fn tagged_file_requests_complete_with_the_outcome_of_their_kind() {
    let (_server, mut reactor, mount) = files();
    let create = mount.create("file", SetAttributes::default(), true);
    let file = reactor.block_on(create).unwrap().unwrap();
    let mut complete = |request| complete(&mut reactor, &file, request);
    let data = b"hello".to_vec().into();
    let written = complete(FileRequest::Write { offset: 0, data, stable: Stability::Unstable });
    assert!(matches!(written, FileOutcome::Done(Ok(()))), "{written:?}");
    let synced = complete(FileRequest::Sync);
    assert!(matches!(synced, FileOutcome::Done(Ok(()))), "{synced:?}");
    let whole = Filled { bytes: 5, eof: true };
    match complete(FileRequest::Read { offset: 0, buffer: SegmentMut::zeroed(100) }) {
        FileOutcome::Read { result, buffer } => {
            assert_eq!((result, buffer.len(), &buffer[..5]), (Ok(whole), 100, &b"hello"[..]));
        }
        other => panic!("{other:?}"),
    }
    match complete(FileRequest::ReadBytes { offset: 0, len: 100 }) {
        FileOutcome::Bytes(Ok((bytes, filled))) => {
            assert_eq!((bytes.to_vec(), filled), (b"hello".to_vec(), whole));
        }
        other => panic!("{other:?}"),
    }
    // A failed read returns its buffer.
    reactor.block_on(mount.remove("file")).unwrap().unwrap();
    match self::complete(
        &mut reactor,
        &file,
        FileRequest::Read { offset: 0, buffer: SegmentMut::zeroed(100) },
    ) {
        FileOutcome::Read { result: Err(_), buffer } => assert_eq!(buffer.len(), 100),
        other => panic!("{other:?}"),
    }
}

#[test]
fn handles_are_cloned_and_printed() {
    fn both<T: Clone + std::fmt::Debug>(handle: &T) -> String {
        format!("{:?}", handle.clone())
    }
    with_cluster(async |cluster| {
        assert!(both(&cluster).starts_with("Cluster"));
        let pool = cluster.pool("rbd").await?;
        assert!(both(&pool).contains("\"rbd\""));
        rbd::create(&pool, "disk", &rbd::CreateOptions::new(1 << 20)).await?;
        assert!(both(&rbd::Image::open(&pool, "disk").await?).contains("\"disk\""));
        Ok(())
    });
    let (_server, mut reactor, mount) = files();
    let file = reactor.block_on(mount.create("file", SetAttributes::default(), true)).unwrap().unwrap();
    assert!(both(&mount).starts_with("Mount") && both(&file).starts_with("File"));
}

#[test]
fn a_cluster_with_keys_gives_a_client_of_its_process_all_it_needs() {
    let config = onego_cluster::Config::default().with_cephx(true).with_secure_only(true);
    let server = onego_cluster::Cluster::start(config.with_versions(ceph::Versions::Two)).unwrap();
    let config = ceph::Config::from_text(&server.conf_with_key()).unwrap();
    let (mut reactor, cluster) = ceph::Reactor::new(&config).unwrap();
    let pools = reactor.block_on(async {
        cluster.ready().await?;
        cluster.pools().await
    });
    assert_eq!(pools.unwrap().unwrap()[0].name, "rbd");
}

#[test]
fn a_polled_image_returns_an_empty_buffer() {
    let server = onego_cluster::Cluster::start(onego_cluster::Config::default()).unwrap();
    let config = ceph::Config::from_text(&server.conf()).unwrap();
    let (mut reactor, cluster) = ceph::Reactor::new(&config).unwrap();
    let disk = reactor.block_on(async {
        let pool = cluster.pool("rbd").await?;
        rbd::create(&pool, "disk", &rbd::CreateOptions::new(1 << 20)).await?;
        rbd::Image::open(&pool, "disk").await
    });
    let disk = disk.unwrap().unwrap();
    reactor.submit(&disk, ImageRequest::Read { offset: 0, buffer: SegmentMut::zeroed(0) }, 3).unwrap();
    let completed = loop {
        match reactor.completion() {
            Some(completed) => break completed,
            None => reactor.turn(Wait::Forever).unwrap(),
        }
    };
    assert_eq!(completed.tag, 3);
    assert!(matches!(completed.result, Ok(ceph::Outcome::Buffer(buffer)) if buffer.is_empty()));
}

#[test]
fn a_request_calls_its_function_before_the_turn_hook() {
    let server = onego_cluster::Cluster::start(onego_cluster::Config::default()).unwrap();
    let (told, events) = mpsc::channel();
    let turned = told.clone();
    // The last turns may end after the test.
    let hook = ceph::TurnHook::new(move || turned.send("the end of a turn").unwrap_or_default());
    let config = ceph::Config::from_text(&server.conf()).unwrap().with_after_turn(hook);
    let disk = smol::block_on(async {
        let pool = Cluster::connect(&config).await?.pool("rbd").await?;
        rbd::create(&pool, "disk", &rbd::CreateOptions::new(1 << 20)).await?;
        rbd::Image::open(&pool, "disk").await
    });
    let disk: rbd::Image = disk.unwrap();
    let outside = ImageRequest::Write { offset: 1 << 20, data: vec![1].into() };
    let unexpected = |_| panic!("a request that does not fit is refused at once");
    assert_eq!(disk.begin(outside, unexpected).unwrap_err().kind(), ErrorKind::InvalidInput);

    let written = told.clone();
    let request = ImageRequest::Write { offset: 4096, data: vec![7; 512].into() };
    disk.begin(request, move |result| written.send(result.map_or("an error", |_| "written")).unwrap())
        .unwrap();
    events.iter().find(|event| *event == "written").unwrap();
    assert_eq!(events.recv(), Ok("the end of a turn"));

    let request = ImageRequest::Read { offset: 4096, buffer: SegmentMut::zeroed(512) };
    disk.begin(request, move |result| {
        let is_right = matches!(result, Ok(ceph::Outcome::Buffer(read)) if read[..] == [7; 512]);
        told.send(if is_right { "read" } else { "other bytes" }).unwrap();
    })
    .unwrap();
    events.iter().find(|event| *event == "read").unwrap();
}
