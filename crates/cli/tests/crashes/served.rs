//! A file that is served to clients of NBD.

use super::disk::{Disk, cut};
use super::support::Place;
use super::trace::{self, Recording};
use super::{check, cuts, now};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

const BLOCK: usize = 4096;
const SECTOR: usize = 512;

/// Blocks of each client.
const BLOCKS: u64 = 64;
const CLIENTS: u64 = 2;
const REQUESTS: u64 = 400;
const REQUESTS_LONG: u64 = 1500;

/// Types of requests and their flag (nbd proto.md, 'Request types').
const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const WRITE_ZEROES: u16 = 6;
const FUA: u16 = 1;

/// A request, and when it was sent and answered.
struct Request {
    begin: f64,
    end: f64,
    kind: u16,
    fua: bool,
    block: u64,
    version: u64,
}

/// A sector of a version; `None` is of zeros.
fn sector(block: u64, version: Option<u64>) -> Vec<u8> {
    match version {
        Some(version) => [block, version].map(u64::to_le_bytes).concat().repeat(SECTOR / 16),
        None => vec![0; SECTOR],
    }
}

struct Client {
    socket: UnixStream,
}

impl Client {
    fn connect(path: &Path) -> Self {
        let mut socket = UnixStream::connect(path).unwrap();
        socket.read_exact(&mut [0; 18]).unwrap();
        // The flags, and the option that chooses the default export; it is answered by size, flags and nothing more.
        socket.write_all(&[&[0, 0, 0, 3], &b"IHAVEOPT"[..], &[0, 0, 0, 1, 0, 0, 0, 0]].concat()).unwrap();
        socket.read_exact(&mut [0; 10]).unwrap();
        Self { socket }
    }

    fn send(&mut self, request: &Request) {
        let (offset, length) = match request.kind {
            FLUSH => (0, 0),
            _ => (request.block * BLOCK as u64, BLOCK as u32),
        };
        let flags = if request.fua { FUA } else { 0 };
        let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
        bytes.extend([flags, request.kind].map(u16::to_be_bytes).concat());
        bytes.extend([request.version, offset].map(u64::to_be_bytes).concat());
        bytes.extend(length.to_be_bytes());
        if request.kind == WRITE {
            bytes.extend(sector(request.block, Some(request.version)).repeat(BLOCK / SECTOR));
        }
        self.socket.write_all(&bytes).unwrap();
    }

    /// Returns the version of the request that is answered.
    fn reply(&mut self) -> u64 {
        let mut reply = [0; 16];
        self.socket.read_exact(&mut reply).unwrap();
        assert_eq!(reply[4..8], [0; 4], "a request failed");
        u64::from_be_bytes(reply[8..].try_into().unwrap())
    }
}

/// Sends requests, up to eight at a time, none of two at once to a block.
fn load(path: &Path, client: u64, count: u64) -> Vec<Request> {
    let mut connection = Client::connect(path);
    let mut random = SmallRng::seed_from_u64(client);
    let (mut done, mut version) = (Vec::new(), 0);
    while version < count {
        let mut batch: Vec<Request> = Vec::new();
        for _ in 0..random.random_range(1..=8) {
            let block = client * BLOCKS + random.random_range(0..BLOCKS);
            let kind = match random.random_range(0..10) {
                0 => FLUSH,
                1 => WRITE_ZEROES,
                _ => WRITE,
            };
            if kind != FLUSH && batch.iter().any(|other| other.kind != FLUSH && other.block == block) {
                continue;
            }
            version += 1;
            let fua = kind != FLUSH && random.random_bool(0.1);
            let request = Request { begin: now(), end: f64::INFINITY, kind, fua, block, version };
            connection.send(&request);
            batch.push(request);
        }
        for _ in 0..batch.len() {
            let answered = connection.reply();
            batch.iter_mut().find(|request| request.version == answered).unwrap().end = now();
        }
        done.append(&mut batch);
    }
    done
}

/// Every sector must be of a version that was sent, and none older than what a flush or FUA promised.
fn check_state(file: &Path, time: f64, requests: &[Request]) -> Result<(), String> {
    let bytes = fs::read(file).map_err(|error| error.to_string())?;
    let flushes: Vec<&Request> =
        requests.iter().filter(|request| request.kind == FLUSH && request.end < time).collect();
    for block in 0..CLIENTS * BLOCKS {
        let of_block: Vec<&Request> = requests
            .iter()
            .filter(|request| request.kind != FLUSH && request.block == block && request.begin < time)
            .collect();
        let is_promised = |request: &&&Request| {
            request.fua && request.end < time || flushes.iter().any(|flush| request.end < flush.begin)
        };
        let oldest = of_block.iter().filter(is_promised).map(|request| request.version).max();
        let mut legal: Vec<Vec<u8>> = of_block
            .iter()
            .filter(|request| request.version >= oldest.unwrap_or(0))
            .map(|request| sector(block, (request.kind == WRITE).then_some(request.version)))
            .collect();
        if oldest.is_none() {
            legal.push(sector(block, None));
        }
        let found = &bytes[block as usize * BLOCK..][..BLOCK];
        for (number, found) in found.chunks(SECTOR).enumerate() {
            if !legal.iter().any(|legal| legal == found) {
                let version = u64::from_le_bytes(found[8..16].try_into().unwrap());
                return Err(format!(
                    "block {block}, sector {number}: version {version}, promised {oldest:?}"
                ));
            }
        }
    }
    Ok(())
}

pub(super) fn run() {
    let place = Place::new();
    let (root, base, log, socket) =
        (place.path("disk"), place.path("base"), place.path("log"), place.path("socket"));
    for folder in [&root, &base] {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("file"), vec![0; (CLIENTS * BLOCKS) as usize * BLOCK]).unwrap();
    }
    let program =
        place.command(&format!("export nbd {} --socket {}", root.join("file").display(), socket.display()));
    let cwd = root.parent().unwrap();
    let mut command = trace::start(&program, cwd, &log, 1 << 20);
    let mut server = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("ready: ")), "the server does not start");
    let count = if onego_testkit::seeds::is_long() { REQUESTS_LONG } else { REQUESTS };
    let requests: Vec<Request> = std::thread::scope(|scope| {
        let socket = &socket;
        let clients: Vec<_> =
            (0..CLIENTS).map(|client| scope.spawn(move || load(socket, client, count))).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    rustix::process::kill_process(trace::traced(&server), rustix::process::Signal::KILL).unwrap();
    server.wait().unwrap();
    let mut recording = Recording::of(&root, cwd);
    recording.read(&log);
    check("export nbd FILE", cuts(200), |seed, count, drops_half| {
        let mut disk = Disk::new(&recording, &base, seed, drops_half);
        cut(&mut disk, count, place.path("").as_path(), |state, time| {
            check_state(&state.join("file"), time, &requests)
        })
    });
}
