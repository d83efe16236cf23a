//! The client's interface to objects, against the embedded cluster: watches, namespaces, and futures that are dropped.

use crate::support::Place;
use onego::ceph::{Config, Error, Reactor};
use onego::rados::{Cluster, Notified, Pool, ReadOp, Watch, WatchEvent, WriteOp};
use onego::rbd::{self, CreateOptions};
use onego::{ErrorKind, Wait};
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

/// How long something may take that waits for nothing but a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

fn connect(place: &Place) -> (Reactor, Cluster) {
    Reactor::new(&Config::from_file(place.path("ceph.conf")).unwrap()).unwrap()
}

/// A client with a thread of its own, and its pool `rbd`.
async fn other_client(place: &Place) -> Pool {
    let config = Config::from_file(place.path("ceph.conf")).unwrap();
    Cluster::connect(&config).await.unwrap().pool("rbd").await.unwrap()
}

/// Waits until an object has that many watchers.
async fn wait_for_watchers(pool: &Pool, object: &str, count: usize) {
    let end = Instant::now() + PATIENCE;
    loop {
        let watchers = pool.watchers(object).await.unwrap();
        if watchers.len() == count {
            return;
        }
        assert!(Instant::now() < end, "{object} is watched by {watchers:?}, not by {count}");
    }
}

/// Lets the reactor of this thread turn once, and those of other threads get further meanwhile.
async fn turn() {
    let mut has_turned = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_turned, true) {
            return Poll::Ready(());
        }
        std::thread::sleep(Duration::from_micros(200));
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Notifies an object's watchers, all of which hear of it and reply.
async fn notify(pool: &Pool, object: &str, says: &[u8], watches: &mut [&mut Watch]) -> Notified {
    let mut notified = pin!(pool.notify(object, says.to_vec(), PATIENCE));
    let answer = poll_fn(|cx| Poll::Ready(notified.as_mut().poll(cx))).await;
    assert!(answer.is_pending());
    for watch in watches {
        let mut next = pin!(watch.next());
        let event = poll_fn(|cx| {
            assert!(notified.as_mut().poll(cx).is_pending(), "a watcher has not acknowledged it");
            next.as_mut().poll(cx)
        });
        let Some(WatchEvent::Notify(notification)) = event.await else { panic!("a watcher is not told") };
        assert_eq!(notification.payload().to_vec(), says);
        assert_ne!(notification.notifier(), 0);
        notification.acknowledge([says, b", heard"].concat());
    }
    notified.await.unwrap()
}

/// Begins something, and drops it after it was polled so often.
async fn begin_and_drop<F: Future>(polls: u32, future: F) {
    let mut future = pin!(future);
    for _ in 0..polls {
        let is_over = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await;
        if is_over {
            return;
        }
        turn().await;
    }
}

#[test]
fn a_notification_reaches_every_watcher_and_says_who_answered() {
    let place = Place::with_cluster("");
    let (mut reactor, cluster) = connect(&place);
    reactor
        .block_on(async {
            let ours = cluster.pool("rbd").await.unwrap();
            let theirs = other_client(&place).await;
            ours.create("bell", true).await.unwrap();
            let mut near = ours.watch("bell").await.unwrap();
            let mut far = theirs.watch("bell").await.unwrap();
            wait_for_watchers(&ours, "bell", 2).await;

            let notified = notify(&theirs, "bell", b"ding", &mut [&mut near, &mut far]).await;
            assert_eq!((notified.acknowledgements.len(), notified.missed.len()), (2, 0), "{notified:?}");
            for acknowledgement in &notified.acknowledgements {
                assert_eq!(acknowledgement.reply, b"ding, heard");
            }
            let clients = notified.acknowledgements.iter().map(|acknowledgement| acknowledgement.client);
            assert_eq!(clients.collect::<BTreeSet<_>>().len(), 2);

            // A watch that is dropped is gone from the server, and only it.
            drop(near);
            wait_for_watchers(&ours, "bell", 1).await;
            assert_eq!(notify(&ours, "bell", b"dong", &mut [&mut far]).await.acknowledgements.len(), 1);
            let watchers = ours.watchers("bell").await.unwrap();
            assert_eq!((watchers.len(), watchers[0].timeout.as_secs() > 0), (1, true), "{watchers:?}");
            drop(far);
            wait_for_watchers(&ours, "bell", 0).await;
            assert_eq!(notify(&ours, "bell", b"nobody", &mut []).await, Notified::default());
        })
        .unwrap();
}

#[test]
fn objects_of_one_name_in_two_namespaces_have_nothing_to_do_with_each_other() {
    let place = Place::with_cluster("");
    let (mut reactor, cluster) = connect(&place);
    reactor
        .block_on(async {
            let pool = cluster.pool("rbd").await.unwrap();
            let spaces = ["", "red", "blue"].map(|name| pool.in_namespace(name));
            for (n, space) in spaces.iter().enumerate() {
                space.write_full("thing", vec![n as u8; n + 1]).await.unwrap();
                space.set_xattr("thing", "colour", space.namespace().as_bytes().to_vec()).await.unwrap();
            }
            let theirs = other_client(&place).await;
            for (n, space) in spaces.iter().enumerate() {
                let seen = theirs.in_namespace(space.namespace());
                assert_eq!(seen.read("thing", 0, 100).await.unwrap().to_vec(), vec![n as u8; n + 1]);
                let colour = seen.get_xattr("thing", "colour").await.unwrap().to_vec();
                assert_eq!(colour, space.namespace().as_bytes());
            }
            // A notification stays in its namespace.
            let mut red = spaces[1].watch("thing").await.unwrap();
            assert_eq!(notify(&spaces[2], "thing", b"x", &mut []).await, Notified::default());
            assert_eq!(notify(&spaces[1], "thing", b"y", &mut [&mut red]).await.acknowledgements.len(), 1);

            spaces[1].remove("thing").await.unwrap();
            let error = theirs.in_namespace("red").read("thing", 0, 1).await.unwrap_err();
            assert!(matches!(error, Error::NotFound { .. }), "{error}");
            let left = pool.all_objects().all().await.unwrap();
            let mut left: Vec<_> = left.into_iter().map(|entry| (entry.namespace, entry.name)).collect();
            left.sort();
            assert_eq!(left, [("".into(), "thing".into()), ("blue".into(), "thing".into())]);
            assert_eq!(spaces[2].objects().all().await.unwrap().len(), 1);
        })
        .unwrap();
}

#[test]
fn a_watch_that_is_dropped_before_it_stands_leaves_none_at_the_server() {
    let place = Place::with_cluster("");
    let (mut reactor, cluster) = connect(&place);
    reactor
        .block_on(async {
            let ours = cluster.pool("rbd").await.unwrap();
            let theirs = other_client(&place).await;
            ours.create("bell", true).await.unwrap();
            // From before it is sent to when the answer is there, on our thread and on the client's own.
            for polls in 0..40 {
                begin_and_drop(polls, ours.watch("bell")).await;
                begin_and_drop(polls, theirs.watch("bell")).await;
            }
            wait_for_watchers(&ours, "bell", 0).await;
            // Both go on.
            let watch = theirs.watch("bell").await.unwrap();
            wait_for_watchers(&ours, "bell", 1).await;
            drop(watch);
            wait_for_watchers(&theirs, "bell", 0).await;
        })
        .unwrap();
}

#[test]
fn images_and_reads_that_are_dropped_before_they_are_there_leave_nothing_open() {
    let place = Place::with_cluster("");
    let (mut reactor, cluster) = connect(&place);
    reactor
        .block_on(async {
            let ours = cluster.pool("rbd").await.unwrap();
            let theirs = other_client(&place).await;
            rbd::create(&ours, "disk", &CreateOptions::new(64 << 20)).await.unwrap();
            ours.write_full("long", vec![7; 4 << 20]).await.unwrap();
            for polls in 0..40 {
                for pool in [&ours, &theirs] {
                    begin_and_drop(polls, rbd::Image::open(pool, "disk")).await;
                    begin_and_drop(polls, pool.read("long", 0, 4 << 20)).await;
                    begin_and_drop(polls, pool.read_into("long", 0, vec![0; 4 << 20])).await;
                }
            }
            let id = rbd::info(&ours, "disk").await.unwrap().id;
            wait_for_watchers(&ours, &format!("rbd_header.{id}"), 0).await;
            // Nobody has it open, so that it can be removed.
            rbd::remove(&ours, "disk", |_, _| {}).await.unwrap();
            let (buffer, filled) = theirs.read_into("long", 0, vec![0; 4 << 20]).await.unwrap();
            assert!(filled == 4 << 20 && buffer.iter().all(|byte| *byte == 7));
        })
        .unwrap();
}

#[test]
fn a_client_that_ends_while_it_begins_to_watch_leaves_no_watch() {
    let place = Place::with_cluster("");
    let (mut reactor, cluster) = connect(&place);
    let pool = reactor.block_on(cluster.pool("rbd")).unwrap().unwrap();
    reactor.block_on(pool.create("bell", true)).unwrap().unwrap();
    // From before the request is sent to when its answer is there.
    for turns in 0..6 {
        let (mut other, other_cluster) = connect(&place);
        let theirs = other.block_on(other_cluster.pool("rbd")).unwrap().unwrap();
        // Opens the connection to the OSD.
        other.block_on(theirs.stat("bell")).unwrap().unwrap();
        let mut watch = Box::pin(theirs.watch("bell"));
        let is_ready = other.block_on(poll_fn(|cx| Poll::Ready(watch.as_mut().poll(cx).is_ready()))).unwrap();
        assert!(!is_ready);
        for _ in 0..turns {
            other.turn(Wait::Poll).unwrap();
        }
        drop(watch);
        drop((theirs, other_cluster, other));
        // The OSD may not yet have looked at what the client said last.
        std::thread::sleep(Duration::from_millis(50));
        let watchers = reactor.block_on(pool.watchers("bell")).unwrap().unwrap();
        assert_eq!(watchers, [], "after {turns} turns");
    }
}

#[test]
fn the_last_image_takes_its_watch_along_though_its_reactor_goes_on() {
    let place = Place::with_cluster("");
    let (mut reactor, cluster) = connect(&place);
    let (mut other, other_cluster) = connect(&place);
    let pool = reactor.block_on(cluster.pool("rbd")).unwrap().unwrap();
    let header = reactor.block_on(async {
        rbd::create(&pool, "disk", &CreateOptions::new(64 << 20)).await.unwrap();
        format!("rbd_header.{}", rbd::info(&pool, "disk").await.unwrap().id)
    });
    let header = header.unwrap();
    let image = other.block_on(async {
        let image = rbd::Image::open(&other_cluster.pool("rbd").await.unwrap(), "disk").await.unwrap();
        assert!(format!("{image:?}").contains("disk"));
        let clone = image.clone();
        image.close().await.unwrap();
        clone
    });
    let image = image.unwrap();
    assert_eq!(reactor.block_on(pool.watchers(&header)).unwrap().unwrap().len(), 1, "a clone has it open");
    drop(other_cluster);
    drop(image);
    let end = Instant::now() + PATIENCE;
    while !reactor.block_on(pool.watchers(&header)).unwrap().unwrap().is_empty() {
        assert!(Instant::now() < end, "the image is still watched");
        other.turn(Wait::Poll).unwrap();
    }
}

#[test]
fn a_read_of_no_bytes_reads_all_and_into_no_buffer_nothing() {
    let place = Place::with_cluster("");
    let (mut reactor, cluster) = connect(&place);
    reactor
        .block_on(async {
            let pool = cluster.pool("rbd").await.unwrap();
            pool.write_full("thing", vec![7; 10_000]).await.unwrap();
            assert_eq!(pool.read("thing", 0, 0).await.unwrap().to_vec(), vec![7; 10_000]);
            assert_eq!(pool.read("thing", 9_000, 0).await.unwrap().len(), 1000);
            assert_eq!(pool.read("thing", 10_000, 10).await.unwrap().len(), 0);
            let (buffer, filled) = pool.read_into("thing", 0, Vec::new()).await.unwrap();
            assert_eq!((buffer.len(), filled), (0, 0));
        })
        .unwrap();
}

#[test]
fn operations_on_an_object_are_applied_together_or_not_at_all() {
    let place = Place::with_cluster("");
    let (mut reactor, cluster) = connect(&place);
    reactor
        .block_on(async {
            let pool = cluster.pool("rbd").await.unwrap();
            let op = WriteOp::new().create(true).write_full(b"hello".to_vec()).set_xattr("a", b"1".to_vec());
            let version = pool.operate_write("thing", op).await.unwrap();
            let again = pool.operate_write("thing", WriteOp::new().create(true).remove()).await.unwrap_err();
            assert_eq!((again.kind(), again.is_retryable()), (ErrorKind::AlreadyExists, false));
            let late = WriteOp::new().assert_version(version + 1).remove();
            let late = pool.operate_write("thing", late).await.unwrap_err();
            assert_eq!(late.kind(), ErrorKind::FailedPrecondition, "{late}");

            let mut op = ReadOp::new();
            let (stat, data, value) = (op.stat(), op.read(1, 3), op.xattr("a"));
            let all = op.xattrs();
            let reply = pool.operate_read("thing", op).await.unwrap();
            assert_eq!(reply.version(), version);
            assert_eq!(reply.get(&stat).unwrap().size, 5);
            assert_eq!(reply.get(&data).unwrap().to_vec(), b"ell");
            assert_eq!(reply.get(&value).unwrap().to_vec(), b"1");
            assert_eq!(reply.get(&all).unwrap()["a"], b"1");
            let mut op = ReadOp::new();
            op.read(0, 0);
            let stranger = pool.operate_read("thing", op).await.unwrap().get(&all).unwrap_err();
            assert_eq!(stranger.kind(), ErrorKind::InvalidInput);
        })
        .unwrap();
}
