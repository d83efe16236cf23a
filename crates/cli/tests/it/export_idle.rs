//! What exported images cost that no client uses.

use crate::support::Place;
use onego::ceph::{Config, Reactor};
use onego::rbd::{self, CreateOptions};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

const IMAGES: u64 = 1000;
/// Bytes that an idle image may take beyond what is known of it.
const IDLE: u64 = 64 << 10;
/// How long the processor is watched, and the share of it that all images may take: each of their watches is kept alive by
/// a message every five seconds.
const WATCHED: Duration = Duration::from_secs(6);
const SHARE: f64 = 0.02;

/// A server that is ended with this value.
struct ServerProcess(Child);

impl ServerProcess {
    fn start(place: &Place, images: u64) -> Self {
        let sources: Vec<String> = (0..images).map(|n| format!("rbd:disk{n}")).collect();
        let line = format!("export nbd {} --listen 127.0.0.1:0 --spin never", sources.join(" "));
        let mut child = place.command(&line).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.starts_with("ready: ")), "the server does not start");
        Self(child)
    }

    fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Time that its threads have run.
    fn ran(&self) -> Duration {
        let threads = fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
        let ran = |thread: fs::DirEntry| -> u64 {
            let schedstat = fs::read_to_string(thread.path().join("schedstat")).unwrap();
            schedstat.split_whitespace().next().unwrap().parse().unwrap()
        };
        Duration::from_nanos(threads.map(|thread| ran(thread.unwrap())).sum())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_thousand_idle_images_take_little_memory_and_no_processor() {
    let place = Place::with_cluster("");
    let config = Config::from_file(place.path("ceph.conf")).unwrap();
    let (mut reactor, cluster) = Reactor::new(&config).unwrap();
    let pool = reactor.block_on(cluster.pool("rbd")).unwrap().unwrap();
    for n in 0..IMAGES {
        let create = async { rbd::create(&pool, &format!("disk{n}"), &CreateOptions::new(1 << 30)).await };
        reactor.block_on(create).unwrap().unwrap();
    }
    let (one, all) = (ServerProcess::start(&place, 1), ServerProcess::start(&place, IMAGES));
    // What opening them took settles.
    std::thread::sleep(Duration::from_secs(1));
    let before = all.ran();
    assert!(!before.is_zero(), "the time of threads is not told");
    std::thread::sleep(WATCHED);
    let ran = all.ran() - before;
    let each = all.memory().saturating_sub(one.memory()) / (IMAGES - 1);
    println!("{each} bytes an image, {ran:?} of {WATCHED:?}");
    assert!(ran < WATCHED.mul_f64(SHARE), "they ran for {ran:?} of {WATCHED:?}");
    assert!(each < IDLE, "an idle image takes {each} bytes");
}
