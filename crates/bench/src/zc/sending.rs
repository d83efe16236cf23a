//! The measured loops.

use super::cell::{Cell, Flush, Sender};
use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_engine::zero_copy::bare::{self, Count, How};
use onego_engine::zero_copy::{Mode, Policy, RingSender, SocketSender, Thresholds};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Sends between two checks for `MSG_ZEROCOPY` notifications.
const REAP_EVERY: u32 = 16;

/// Limit on the kernel's time to release the memory of accepted sends.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) enum Sending {
    BareSocket(bare::Socket),
    BareRing(Box<bare::Ring>),
    Ring(Box<Ring>),
    Socket(Box<Socket>),
}

impl Sending {
    pub(super) fn start(socket: OwnedFd, cell: &Cell, thresholds: Thresholds) -> io::Result<Self> {
        let (size, batch) = (cell.size as usize, cell.batch as usize);
        let bare_ring =
            |socket, how| Ok(Self::BareRing(Box::new(bare::Ring::open(socket, how, size, batch)?)));
        let bare_socket =
            |socket, how| bare::Socket::new(socket, how, size, REAP_EVERY).map(Self::BareSocket);
        let ring = |socket, mode, registered| {
            let policy = Policy::new(mode, thresholds);
            Ok(Self::Ring(Box::new(Ring::open(socket, policy, cell, registered)?)))
        };
        let own = |socket, mode| {
            let policy = Policy::new(mode, thresholds);
            Ok(Self::Socket(Box::new(Socket::new(socket, policy, size))))
        };
        match cell.sender {
            Sender::Send => bare_socket(socket, How::Copy),
            Sender::MsgZerocopy => bare_socket(socket, How::ZeroCopy),
            Sender::BareCopy => bare_ring(socket, How::Copy),
            Sender::BareZc => bare_ring(socket, How::ZeroCopy),
            Sender::BareFixed => bare_ring(socket, How::Registered),
            Sender::Copy => ring(socket, Mode::Off, true),
            Sender::Zc => ring(socket, Mode::On, false),
            Sender::Fixed => ring(socket, Mode::On, true),
            Sender::Adaptive => ring(socket, Mode::Adaptive, true),
            Sender::SocketOff => own(socket, Mode::Off),
            Sender::SocketOn => own(socket, Mode::On),
            Sender::SocketAdaptive => own(socket, Mode::Adaptive),
        }
    }

    pub(super) fn turn(&mut self) -> io::Result<()> {
        match self {
            Self::BareSocket(socket) => socket.turn(),
            Self::BareRing(ring) => ring.turn(),
            Self::Ring(ring) => ring.turn(),
            Self::Socket(socket) => socket.turn(),
        }
    }

    pub(super) fn settle(&mut self) -> io::Result<Count> {
        match self {
            Self::BareSocket(socket) => socket.settle(PATIENCE),
            Self::BareRing(ring) => ring.settle(PATIENCE),
            Self::Ring(ring) => {
                ring.sender.settle(PATIENCE)?;
                Ok(ring.count(ring.sender.counters()))
            }
            Self::Socket(socket) => {
                socket.sender.settle(PATIENCE)?;
                Ok(socket.count(socket.sender.counters()))
            }
        }
    }
}

/// Bytes between the pieces of a block, so that they are not adjacent: pieces begin on a page.
const GAP: usize = 4096;

fn blocks(size: usize, count: usize, registrable: bool, pieces: usize) -> Vec<List> {
    let pool = Pool::registrable(0, 64 << 20);
    let whole = if pieces == 1 { size } else { size + pieces * GAP };
    let memory = || if registrable { pool.get(whole) } else { SegmentMut::zeroed(whole) };
    let piece = size / pieces;
    let step = (piece + GAP).min(whole);
    let block = || {
        let memory: Segment = memory().freeze();
        (0..pieces).map(|i| memory.slice(i * step..i * step + piece)).collect()
    };
    (0..count).map(|_| block()).collect()
}

fn reported(sends: u64, bytes: u64, counters: onego_engine::zero_copy::Counters) -> Count {
    Count { sends, bytes, reported: counters.zero_copy, copied: counters.copied }
}

/// Our own sends by io_uring.
pub(super) struct Ring {
    sender: RingSender,
    blocks: Vec<List>,
    flush: Flush,
    sends: u64,
    bytes: u64,
}

impl Ring {
    fn open(socket: OwnedFd, policy: Policy, cell: &Cell, registrable: bool) -> io::Result<Self> {
        let flush = match cell.flush {
            Flush::Request => onego_engine::zero_copy::Flush::EachSend,
            Flush::Batch => onego_engine::zero_copy::Flush::Asked,
        };
        let sender = RingSender::open(socket, policy, flush)?;
        let blocks = blocks(cell.size as usize, cell.batch as usize, registrable, cell.pieces as usize);
        Ok(Self { sender, blocks, flush: cell.flush, sends: 0, bytes: 0 })
    }

    fn turn(&mut self) -> io::Result<()> {
        for block in &self.blocks {
            self.sender.send(block.clone())?;
        }
        if self.flush == Flush::Batch {
            self.sender.flush();
        }
        self.bytes += self.sender.submit()?;
        self.sends += self.blocks.len() as u64;
        while self.sender.next_freed().is_some() {}
        Ok(())
    }

    fn count(&self, counters: onego_engine::zero_copy::Counters) -> Count {
        reported(self.sends, self.bytes, counters)
    }
}

/// Our own sends by `sendmsg`.
pub(super) struct Socket {
    sender: SocketSender,
    block: List,
    sends: u64,
    bytes: u64,
}

impl Socket {
    fn new(socket: OwnedFd, policy: Policy, size: usize) -> Self {
        let sender = SocketSender::new(socket, policy, onego_engine::zero_copy::Flush::Sends(REAP_EVERY));
        Self { sender, block: blocks(size, 1, false, 1).remove(0), sends: 0, bytes: 0 }
    }

    fn turn(&mut self) -> io::Result<()> {
        for _ in 0..REAP_EVERY {
            self.bytes += self.sender.send(self.block.clone())? as u64;
            self.sends += 1;
        }
        self.sender.reap()?;
        while self.sender.next_freed().is_some() {}
        Ok(())
    }

    fn count(&self, counters: onego_engine::zero_copy::Counters) -> Count {
        reported(self.sends, self.bytes, counters)
    }
}
