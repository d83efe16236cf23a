//! Measures the CPU cost of 4 KiB reads in the file client, without a kernel: 32 reads in flight against a server that
//! replays prepared bytes. Run it under `valgrind --tool=callgrind`, or for its timing. With `buffers`, the client
//! reads into the caller's buffers; otherwise it returns the memory in which the data was received.
//!
//! `cargo run --release -p onego-nfs --example reads -- 100000 [buffers]`

use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_nfs::client::{Config, FileClient, Limits, Way};
use onego_nfs::rpc::{Accepted, Credential, Reply};
use onego_nfs::v3::Handle;
use onego_nfs::xdr::{Writer, Xdr as _};
use onego_wire::{Action, ConnId, LocalPort, Machine as _, Time};
use std::time::Instant;

const DEPTH: usize = 32;
const BLOCK: usize = 4096;

fn replies(first: u32) -> Segment {
    let mut bytes = Writer::new();
    for xid in (0..DEPTH as u32).map(|n| first.wrapping_add(n)) {
        let mut front = Writer::new();
        Reply { xid, result: Ok(Accepted::Success) }.encode(&mut front);
        // The status, no attributes, the count, no end of the file, and the length of the data.
        [0, 0, BLOCK as u32, 0, BLOCK as u32].into_iter().for_each(|word| front.u32(word));
        bytes.u32(1 << 31 | (front.len() + BLOCK) as u32);
        bytes.append(front.as_slice());
        bytes.append(&[7; BLOCK]);
    }
    Segment::copy_from(bytes.as_slice())
}

/// Executes the client's actions and returns the connection it opened, if any.
fn drive(client: &mut FileClient<usize>, now: Time) -> Option<ConnId> {
    let mut opened = None;
    while let Some(action) = client.next_action(now) {
        match action {
            Action::Connect { conn, .. } => {
                opened = Some(conn);
                client.connected(now, conn, "127.0.0.1:999".parse().expect("an address"));
            }
            Action::Transmit { conn } => {
                let mut out = List::new();
                client.transmit(now, conn, &mut out, 1 << 20);
            }
            _ => {}
        }
    }
    opened
}

/// Runs one batch, the measured part. Returns the number of completed reads.
#[inline(never)]
fn one_batch(
    client: &mut FileClient<usize>,
    now: Time,
    file: Handle,
    conn: &mut Option<ConnId>,
    replies: Segment,
    buffers: &mut Vec<SegmentMut>,
    to_buffers: bool,
) -> usize {
    for n in 0..DEPTH {
        let offset = (n * BLOCK) as u64;
        match buffers.pop().filter(|_| to_buffers) {
            Some(buffer) => client.read(now, file, offset, buffer, n),
            None => client.read_bytes(now, file, offset, BLOCK, n),
        }
    }
    *conn = drive(client, now).or(*conn);
    client.received(now, conn.expect("the client is connected"), replies);
    drive(client, now);
    let mut done = 0;
    while let Some(completion) = client.completion() {
        buffers.extend(completion.buffer);
        done += 1;
    }
    done
}

fn main() {
    let reads: usize =
        std::env::args().nth(1).map_or(100_000, |text| text.parse().expect("a number of reads"));
    let first_xid = 1;
    let mut client = FileClient::new(Config::new(Credential::None, first_xid, Pool::new(1 << 20)));
    client.connect("127.0.0.1:2049".parse().expect("an address"), LocalPort::Any, &Way::Tcp, 1);
    client.set_limits(Limits { read: 1 << 20, write: 1 << 20 });
    let file = Handle::new(&[1; 20]).expect("handles have up to 64 bytes");
    let to_buffers = std::env::args().nth(2).is_some_and(|word| word == "buffers");
    let mut buffers: Vec<_> = (0..DEPTH).map(|_| SegmentMut::zeroed(BLOCK)).collect();
    let (mut conn, mut xid, now) = (None, first_xid, Time::default());
    let start = Instant::now();
    let mut spent = Vec::new();
    for _ in 0..reads / DEPTH {
        let batch = replies(xid);
        // Keep the batch alive so that freeing it is not measured.
        let held = batch.clone();
        let begin = Instant::now();
        let done = one_batch(&mut client, now, file, &mut conn, batch, &mut buffers, to_buffers);
        spent.push(begin.elapsed());
        assert_eq!(done, DEPTH, "every read is answered");
        drop(held);
        xid += DEPTH as u32;
    }
    // The median batch: the others include unrelated work of the machine.
    spent.sort_unstable();
    let nanos = spent[spent.len() / 2].as_nanos() as f64 / DEPTH as f64;
    println!(
        "{reads} reads: {nanos:.0} ns each in the client, {:.2} s in all",
        start.elapsed().as_secs_f64()
    );
}
