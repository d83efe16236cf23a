//! A cluster that is killed under load, again and again: what was acknowledged is there at the next start.

use crate::support::Place;
use onego::Wait;
use onego::ceph::{Config, ImageRequest, Outcome, Reactor};
use onego::rbd::Image;
use onego_testkit::loopback::own_address;
use onego_testkit::seeds::is_long;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 4096;
const DEPTH: usize = 16;

/// Most blocks of a write: it stays within an object, so that it is done as a whole or not at all.
const MOST: u64 = 16;

/// Rounds of each kind of cluster.
const ROUNDS: u32 = 3;
const ROUNDS_LONG: u32 = 100;

/// What a write makes of a block.
fn block(at: u64, version: u64) -> Vec<u8> {
    let words = (0..BLOCK as u64 / 8).flat_map(|word| (at << 48 ^ version << 16 ^ word).to_le_bytes());
    if version == 0 { vec![0; BLOCK] } else { words.collect() }
}

/// A write that is not acknowledged.
struct Write {
    first: u64,
    blocks: u64,
    version: u64,
}

/// An image, and what must be in it.
struct Load {
    /// By block: the version that was acknowledged last.
    versions: Vec<u64>,
    in_flight: BTreeMap<u64, Write>,
    next: u64,
    random: SmallRng,
    acknowledged: u64,
}

impl Load {
    /// Keeps as many writes in flight as there may be.
    fn submit(&mut self, reactor: &mut Reactor, image: &Image) {
        while self.in_flight.len() < DEPTH {
            let random = &mut self.random;
            let blocks = if random.random_bool(0.25) { random.random_range(1..=MOST) } else { 1 };
            let first = random.random_range(0..BLOCKS / MOST) * MOST + random.random_range(0..=MOST - blocks);
            let last = first + blocks - 1;
            // What writes that are under way at the same time leave behind is nobody's business.
            if self.in_flight.values().any(|other| first < other.first + other.blocks && other.first <= last)
            {
                continue;
            }
            self.next += 1;
            let version = self.next;
            let data: Vec<u8> = (first..=last).flat_map(|at| block(at, version)).collect();
            let request = ImageRequest::Write { offset: first * BLOCK as u64, data: data.into() };
            reactor.submit(image, request, version).unwrap();
            self.in_flight.insert(version, Write { first, blocks, version });
        }
    }

    fn take_acknowledged(&mut self, reactor: &mut Reactor) {
        while let Some(completed) = reactor.completion() {
            assert!(matches!(completed.result, Ok(Outcome::Done)), "{completed:?}");
            let write = self.in_flight.remove(&completed.tag).expect("a write is acknowledged once");
            self.acknowledged += 1;
            self.settle(&write);
        }
    }

    fn settle(&mut self, write: &Write) {
        let blocks = write.first as usize..(write.first + write.blocks) as usize;
        self.versions[blocks].fill(write.version);
    }

    /// Every acknowledged write is there, and those that were not are there as a whole or not at all.
    fn check(&mut self, reactor: &mut Reactor, image: &Image) {
        let bytes = reactor.block_on(image.read(0, BLOCKS * BLOCK as u64)).unwrap().unwrap().to_vec();
        let found = |at: u64| &bytes[at as usize * BLOCK..(at as usize + 1) * BLOCK];
        for (_, write) in std::mem::take(&mut self.in_flight) {
            let mut blocks = write.first..write.first + write.blocks;
            if found(write.first) == block(write.first, write.version) {
                assert!(blocks.all(|at| found(at) == block(at, write.version)), "a write is torn");
                self.settle(&write);
            }
        }
        for (at, version) in (0..).zip(&self.versions) {
            assert!(found(at) == block(at, *version), "block {at} is not of version {version}");
        }
    }
}

/// Starts the cluster of a directory and says where its monitor is.
fn start(place: &Place, options: &str) -> Child {
    let line = format!("cluster start --die-with-parent --data data {options}");
    let mut child = place.command(&line).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("ready: ")), "the cluster does not start");
    child
}

fn open(conf: &Path) -> (Reactor, Image) {
    let (mut reactor, cluster) = Reactor::new(&Config::from_file(conf).unwrap()).unwrap();
    let image = reactor.block_on(async {
        let pool = cluster.pool("rbd").await?;
        Image::open(&pool, "disk").await
    });
    (reactor, image.unwrap().unwrap())
}

/// Kills the cluster in rounds. In every other one the client is gone as well, and cannot send anything again.
fn rounds(options: &str, seed: u64) {
    let rounds = if is_long() { ROUNDS_LONG } else { ROUNDS };
    let place = Place::new();
    // The port is kept in the directory, and is free at each start: no other program listens at this address.
    let options = format!("{options} --listen {} --messenger v2", own_address());
    let mut child = start(&place, &options);
    place.onego("-c data/ceph.conf rbd create disk --size 16M");
    let conf = place.path("data/ceph.conf");
    let (mut reactor, mut image) = open(&conf);
    let mut load = Load {
        versions: vec![0; BLOCKS as usize],
        in_flight: BTreeMap::new(),
        next: 0,
        random: SmallRng::seed_from_u64(seed),
        acknowledged: 0,
    };
    for round in 0..rounds {
        let end = Instant::now() + Duration::from_micros(load.random.random_range(0..400_000));
        let before = load.acknowledged;
        while Instant::now() < end || load.acknowledged == before {
            load.submit(&mut reactor, &image);
            reactor.turn(Wait::Poll).unwrap();
            load.take_acknowledged(&mut reactor);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if round % 2 == 0 {
            // What was on its way was acknowledged.
            reactor.turn(Wait::Poll).unwrap();
            load.take_acknowledged(&mut reactor);
            drop((reactor, image));
            child = start(&place, &options);
            (reactor, image) = open(&conf);
        } else {
            child = start(&place, &options);
            while !load.in_flight.is_empty() {
                reactor.turn(Wait::Forever).unwrap();
                load.take_acknowledged(&mut reactor);
            }
        }
        load.check(&mut reactor, &image);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    println!("{rounds} times killed, {} writes acknowledged, all there", load.acknowledged);
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill() {
    rounds("", 1);
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill_of_several_osds() {
    rounds("--osds 3 --pool-size 2", 2);
}
