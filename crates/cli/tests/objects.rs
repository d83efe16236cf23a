//! The client's interface to objects, against the embedded cluster: watches, namespaces, and futures that are dropped.

mod support;

use onego::rados::{Cluster, Pool, WatchEvent};
use onego::rbd::{self, CreateOptions};
use onego::{Config, Error, Reactor};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};
use support::Place;

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

            let notified = theirs.notify("bell", b"ding".to_vec(), 10).await.unwrap();
            assert_eq!((notified.answers.len(), notified.missed.len()), (2, 0), "{notified:?}");
            for watch in [&mut near, &mut far] {
                let Some(WatchEvent::Notify { payload, notifier }) = watch.next().await else {
                    panic!("a watcher is not told")
                };
                assert_eq!(payload.to_vec(), b"ding");
                assert_ne!(notifier, 0);
            }

            // A watch that is dropped is gone from the server, and only it.
            drop(near);
            wait_for_watchers(&ours, "bell", 1).await;
            let notified = ours.notify("bell", b"dong".to_vec(), 10).await.unwrap();
            assert_eq!(notified.answers.len(), 1);
            let Some(WatchEvent::Notify { payload, .. }) = far.next().await else {
                panic!("the other watcher is not told")
            };
            assert_eq!(payload.to_vec(), b"dong");
            drop(far);
            wait_for_watchers(&ours, "bell", 0).await;
            assert_eq!(ours.notify("bell", b"nobody".to_vec(), 10).await.unwrap().answers.len(), 0);
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
            assert_eq!(spaces[2].notify("thing", b"x".to_vec(), 10).await.unwrap().answers.len(), 0);
            assert_eq!(spaces[1].notify("thing", b"y".to_vec(), 10).await.unwrap().answers.len(), 1);
            let Some(WatchEvent::Notify { payload, .. }) = red.next().await else { panic!("it is not told") };
            assert_eq!(payload.to_vec(), b"y");

            spaces[1].remove("thing").await.unwrap();
            let error = theirs.in_namespace("red").read("thing", 0, 1).await.unwrap_err();
            assert!(matches!(error, Error::NotFound { .. }), "{error}");
            let mut left = Vec::new();
            let mut objects = pool.all_objects();
            while let Some(page) = objects.next_page().await.unwrap() {
                left.extend(page.into_iter().map(|entry| (entry.namespace, entry.name)));
            }
            left.sort();
            assert_eq!(left, [("".into(), "thing".into()), ("blue".into(), "thing".into())]);
            // A page may be empty.
            let (mut listed, mut count) = (spaces[2].objects(), 0);
            while let Some(page) = listed.next_page().await.unwrap() {
                count += page.len();
            }
            assert_eq!(count, 1);
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
            assert!(filled == 4 << 20 && buffer.as_ref().iter().all(|byte| *byte == 7));
        })
        .unwrap();
}
