//! A cluster with `--data`.

use super::disk::{Disk, cut};
use super::trace::{self, Recording};
use super::{PART, check, cuts, now};
use onego::ceph::{Config as ClientConfig, Error, Reactor};
use onego::rados::Pool;
use onego_cluster::{Cluster, Config};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Clients, each with objects of its own.
const CLIENTS: u64 = 4;
const OBJECTS: u64 = 8;

/// Operations of each client: enough for several checkpoints.
const OPERATIONS: u64 = 150;
const OPERATIONS_LONG: u64 = 600;

/// Short, so that there are checkpoints.
const LOG_LIMIT: u64 = 1 << 20;

fn config(data: &Path) -> Config {
    Config::default().with_data(data).with_log_limit(LOG_LIMIT).with_memory_limit(256 << 20)
}

/// Serves until the process is killed.
pub(super) fn serve(folder: &Path) {
    let cluster = Cluster::start(config(&folder.join("disk/data"))).unwrap();
    println!("{}", cluster.write_conf(folder).unwrap().display());
    loop {
        std::thread::park();
    }
}

type Content = Option<Arc<Vec<u8>>>;

/// A change of one object, and when it was submitted and acknowledged.
struct Change {
    begin: f64,
    end: f64,
    after: Content,
}

/// All changes by object.
type Changes = BTreeMap<String, Vec<Change>>;

fn open(conf: &Path) -> Result<(Reactor, Pool), Error> {
    let (mut reactor, cluster) = Reactor::new(&ClientConfig::from_file(conf).unwrap())?;
    let pool = reactor.block_on(cluster.pool("rbd"))??;
    Ok((reactor, pool))
}

fn change_objects(conf: &Path, client: u64, operations: u64) -> Changes {
    let (mut reactor, pool) = open(conf).unwrap();
    let mut random = SmallRng::seed_from_u64(client);
    let mut changes = Changes::new();
    for version in 0..operations {
        let name = format!("object-{client}-{}", random.random_range(0..OBJECTS));
        let of_object = changes.entry(name.clone()).or_default();
        let before = of_object.last().and_then(|change| change.after.clone());
        // Bytes of 64 KiB and more are written from where they are.
        let longest = if random.random_bool(0.1) { 100_000 } else { 6_000 };
        let bytes = vec![1 + (version % 255) as u8; random.random_range(1..longest)];
        let (offset, begin) = (random.random_range(0..4_000), now());
        let after = match random.random_range(0..10) {
            0 if before.is_some() => {
                reactor.block_on(pool.remove(&name)).unwrap().unwrap();
                None
            }
            0..5 => {
                reactor.block_on(pool.write_full(&name, bytes.clone())).unwrap().unwrap();
                Some(bytes)
            }
            _ => {
                let mut whole = before.map_or(Vec::new(), |before| before.to_vec());
                reactor.block_on(pool.write(&name, offset as u64, bytes.clone())).unwrap().unwrap();
                whole.resize(whole.len().max(offset + bytes.len()), 0);
                whole[offset..offset + bytes.len()].copy_from_slice(&bytes);
                Some(whole)
            }
        };
        of_object.push(Change { begin, end: now(), after: after.map(Arc::new) });
    }
    changes
}

/// The object must be as the last change acknowledged before `time` left it, or the one in flight then.
fn is_legal(changes: &[Change], time: f64, found: Option<&[u8]>) -> bool {
    let acknowledged = changes.iter().rfind(|change| change.end < time);
    let legal = |content: &Content| content.as_ref().map(|bytes| &bytes[..]) == found;
    legal(&acknowledged.and_then(|change| change.after.clone()))
        || changes.iter().any(|change| change.begin < time && change.end >= time && legal(&change.after))
}

fn check_state(state: &Path, time: f64, changes: &Changes) -> Result<(), String> {
    let cluster =
        Cluster::start(config(&state.join("data"))).map_err(|error| format!("no start: {error}"))?;
    let conf = cluster.write_conf(state).map_err(|error| error.to_string())?;
    let (mut reactor, pool) = open(&conf).map_err(|error| error.to_string())?;
    for (name, changes) in changes {
        let read = reactor.block_on(pool.read(name, 0, 1 << 20)).map_err(|error| error.to_string())?;
        let found = read.ok().map(|bytes| bytes.to_vec());
        if !is_legal(changes, time, found.as_deref()) {
            let what = found.map_or("missing".to_owned(), |bytes| format!("{} wrong bytes", bytes.len()));
            return Err(format!("{name}: {what}"));
        }
    }
    Ok(())
}

pub(super) fn run() {
    let place = tempfile::tempdir().unwrap();
    let (root, log) = (place.path().join("disk"), place.path().join("log"));
    fs::create_dir(&root).unwrap();
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.arg(place.path()).env(PART, "cluster");
    let mut command = trace::start(&program, place.path(), &log, 32 << 20);
    let mut server = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let conf = Path::new(said.trim());
    let operations = if onego_testkit::seeds::is_long() { OPERATIONS_LONG } else { OPERATIONS };
    let changes: Changes = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| scope.spawn(move || change_objects(conf, client, operations)))
            .collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    rustix::process::kill_process(trace::traced(&server), rustix::process::Signal::KILL).unwrap();
    server.wait().unwrap();
    let base = place.path().join("base");
    fs::create_dir(&base).unwrap();
    let mut recording = Recording::of(&root, place.path());
    recording.read(&log);
    check("cluster --data", cuts(25), |seed, count, drops_half| {
        let mut disk = Disk::new(&recording, &base, seed, drops_half);
        cut(&mut disk, count, place.path(), |state, time| check_state(state, time, &changes))
    });
}
