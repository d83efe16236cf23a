//! Zero-copy sends, beside those with a copy: bandwidth, CPU, and what the kernel copied after all.
//!
//! Bytes go by UDP to a device that discards them, where a send without a copy is one; and by TCP over loopback and
//! over a pair of virtual Ethernet devices, where Linux copies all the same.

mod calibrate;
mod place;
mod ratio;
mod report;
mod sending;

pub use calibrate::Calibration;
pub use onego_engine::zero_copy::{BadThresholds, Thresholds};
pub use place::receive;
pub use ratio::Ratio;
pub use report::{Row, header, line, svg};

use crate::Error;
use crate::cpu::Meter;
use crate::peer::Peer;
use crate::progress::Progress;
use crate::row::{Ends, latency_histogram};
use hdrhistogram::Histogram;
use onego_engine::zero_copy::bare::Count;
use place::Place;
use sending::Sending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Gives an enum of names its `ALL`, `name` and `FromStr`.
macro_rules! named {
    ($type:ident: $($variant:ident = $name:literal),+ $(,)?) => {
        impl $type {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let all = [$($name),+].join(", ");
                let found = Self::ALL.iter().copied().find(|one| one.name() == text);
                found.ok_or_else(|| format!("{text:?} is none of {all}"))
            }
        }
    };
}

/// The way that the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// UDP to a device that discards everything.
    Sink,
    /// TCP over loopback.
    Loopback,
    /// TCP over a pair of virtual Ethernet devices.
    Veth,
}

named!(Path: Sink = "sink", Loopback = "loopback", Veth = "veth");

/// Who sends, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// A loop over `send`.
    Send,
    /// A loop over `send` with `MSG_ZEROCOPY`.
    MsgZerocopy,
    /// A loop over io_uring, with a copy.
    BareCopy,
    /// A loop over io_uring, without.
    BareZc,
    /// A loop over io_uring, without, from registered memory.
    BareFixed,
    /// Our sends by io_uring, with a copy.
    Copy,
    /// Our sends by io_uring, without.
    Zc,
    /// Our sends by io_uring, without, from registered memory.
    Fixed,
    /// Our sends by io_uring, as the adaptive policy decides; the memory can be registered.
    Adaptive,
    /// Our sends by `sendmsg`, with a copy.
    SocketOff,
    /// Our sends by `sendmsg`, without.
    SocketOn,
    /// Our sends by `sendmsg`, as the adaptive policy decides.
    SocketAdaptive,
}

named!(Sender:
    Send = "send", MsgZerocopy = "msg_zerocopy",
    BareCopy = "bare-copy", BareZc = "bare-zc", BareFixed = "bare-fixed",
    Copy = "copy", Zc = "zc", Fixed = "fixed", Adaptive = "adaptive",
    SocketOff = "socket-off", SocketOn = "socket-on", SocketAdaptive = "socket-adaptive",
);

impl Sender {
    /// What is measured unless something else is asked for.
    pub const USUAL: [Self; 7] =
        [Self::Send, Self::MsgZerocopy, Self::Copy, Self::Zc, Self::BareFixed, Self::Fixed, Self::Adaptive];

    /// What moves the bytes.
    pub fn engine(self) -> &'static str {
        if self.has_batches() { "uring" } else { "socket" }
    }

    fn has_batches(self) -> bool {
        !matches!(
            self,
            Self::Send | Self::MsgZerocopy | Self::SocketOff | Self::SocketOn | Self::SocketAdaptive
        )
    }

    /// Has it slots to be flushed?
    fn has_slots(self) -> bool {
        matches!(self, Self::Zc | Self::Fixed | Self::Adaptive)
    }
}

/// When a notification slot is flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// Behind each request.
    Request,
    /// Behind each submission.
    Batch,
}

named!(Flush: Request = "request", Batch = "batch");

/// One figure of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// The way.
    pub path: Path,
    /// Who sends.
    pub sender: Sender,
    /// Bytes of a send.
    pub size: u32,
    /// Sends a submission.
    pub batch: u32,
    /// When slots are flushed, for who has them.
    pub flush: Flush,
    /// In how many pieces of memory a send is.
    pub pieces: u32,
}

/// The most that UDP over IPv4 carries is 65507 bytes; the device takes 65535 with the headers.
const LARGEST_DATAGRAM: u32 = 65_507;

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The ways.
    pub paths: Vec<Path>,
    /// Who sends.
    pub senders: Vec<Sender>,
    /// Bytes of a send on the sink; empty: the usual ones.
    pub sizes: Vec<u32>,
    /// Sends a submission.
    pub batches: Vec<u32>,
    /// When slots are flushed.
    pub flushes: Vec<Flush>,
    /// How long each measurement takes.
    pub duration: Duration,
    /// Measurements of each, in turns with the others of their size; the median counts.
    pub repeat: u32,
    /// What the adaptive policy knows.
    pub thresholds: Thresholds,
    /// The other end of the paths that have one.
    pub receiver: Peer,
}

impl Plan {
    /// How long all of it takes.
    pub fn total(&self) -> Duration {
        let cells: usize =
            self.paths.iter().map(|path| self.cells(*path).iter().map(Vec::len).sum::<usize>()).sum();
        self.duration * self.repeat * u32::try_from(cells).unwrap_or(u32::MAX)
    }

    /// Refuses what cannot be measured.
    pub fn check(&self) -> Result<(), Error> {
        if let Some(size) = self.sizes.iter().find(|size| **size > LARGEST_DATAGRAM)
            && self.paths.contains(&Path::Sink)
        {
            return Err(Error::Unfit(format!(
                "a datagram has {LARGEST_DATAGRAM} bytes at most, and --size has {size}: leave the sink out with --path"
            )));
        }
        Ok(())
    }

    fn sizes(&self, path: Path) -> Vec<u32> {
        match (self.sizes.is_empty(), path) {
            (false, _) => self.sizes.clone(),
            (true, Path::Sink) => vec![1500, 4096, 16_384, 65_435],
            (true, _) => [4, 16, 64, 256, 1024].map(|k| k << 10).to_vec(),
        }
    }

    /// Everything on one path, by size: those of one size are measured in turns.
    fn cells(&self, path: Path) -> Vec<Vec<Cell>> {
        let of_size =
            |size| self.senders.iter().flat_map(move |sender| self.cells_of(path, *sender, size)).collect();
        self.sizes(path).into_iter().map(of_size).collect()
    }

    fn cells_of(&self, path: Path, sender: Sender, size: u32) -> Vec<Cell> {
        let cell = |batch, flush| Cell { path, sender, size, batch, flush, pieces: 1 };
        if !sender.has_batches() {
            return vec![cell(1, Flush::Request)];
        }
        let mut cells = Vec::new();
        for &batch in &self.batches {
            // To flush behind one request or behind a batch of one is the same.
            let both = sender.has_slots() && batch > 1;
            let flushes = if both { &self.flushes[..] } else { &[Flush::Request] };
            cells.extend(flushes.iter().map(|flush| cell(batch, *flush)));
        }
        cells
    }
}

/// What one measurement gave.
#[derive(Debug, Clone)]
pub struct Figures {
    /// What was sent.
    pub count: Count,
    /// In how many seconds.
    pub seconds: f64,
    /// CPU time.
    pub cpu_seconds: Ends,
    /// Of a submission, until it was accepted; nanoseconds.
    pub latency: Histogram<u64>,
}

impl Figures {
    /// Bytes a second.
    pub fn bytes_per_second(&self) -> f64 {
        self.count.bytes as f64 / self.seconds.max(1e-9)
    }

    /// CPU seconds for 10^9 bytes.
    pub fn cpu_per_gb(&self) -> Ends {
        let each = |cpu: Option<f64>| cpu.map(|cpu| cpu * 1e9 / (self.count.bytes as f64).max(1.0));
        Ends { client: each(self.cpu_seconds.client), server: each(self.cpu_seconds.server) }
    }

    /// The same of both ends together; of this one where there is no other.
    fn cpu_of_both_ends(&self) -> f64 {
        let Ends { client, server } = self.cpu_per_gb();
        client.unwrap_or(f64::NAN) + server.unwrap_or_default()
    }

    /// The share of sends without a copy that the kernel reported as copied; `None`: there were none.
    pub fn copied(&self) -> Option<f64> {
        (self.count.reported > 0).then(|| self.count.copied as f64 / self.count.reported as f64)
    }
}

/// Measures everything; `each` gets what belongs to one size when it is done.
pub fn measure(
    plan: &Plan,
    progress: &Progress,
    stop: &AtomicBool,
    mut each: impl FnMut(&[Row]) + Send,
) -> Result<Vec<Row>, Error> {
    let mut done = Done { progress, time: Duration::ZERO };
    let mut rows = Vec::new();
    for &path in &plan.paths {
        // A thread of its own: it does not come back from the namespace that it enters.
        let of_path = thread::scope(|scope| {
            let measuring = scope.spawn(|| measure_path(plan, path, stop, &mut done, &mut each));
            measuring.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        rows.extend(of_path);
    }
    Ok(rows)
}

/// How much of the time is over.
struct Done<'a> {
    progress: &'a Progress,
    time: Duration,
}

fn measure_path(
    plan: &Plan,
    path: Path,
    stop: &AtomicBool,
    done: &mut Done<'_>,
    mut each: impl FnMut(&[Row]),
) -> Result<Vec<Row>, Error> {
    let place = Place::enter(path, &plan.receiver)?;
    let mut rows = Vec::new();
    for cells in plan.cells(path) {
        let mut figures = vec![Vec::new(); cells.len()];
        for _ in 0..plan.repeat {
            for (cell, figures) in cells.iter().zip(&mut figures) {
                done.progress.task(&format!("{} {} {}", path.name(), cell.sender.name(), cell.size));
                figures.push(measure_cell(&place, cell, plan.duration, plan.thresholds, stop)?);
                done.time += plan.duration;
                done.progress.at(done.time.as_millis() as u64);
            }
        }
        let ratios: Vec<_> = cells.iter().map(|cell| to_copy(cell, &cells, &figures)).collect();
        let of_size: Vec<_> = cells
            .iter()
            .zip(figures)
            .zip(ratios)
            .map(|((cell, figures), to_copy)| Row::new(cell, figures, to_copy))
            .collect();
        each(&of_size);
        rows.extend(of_size);
    }
    Ok(rows)
}

/// CPU time of a cell, both ends together, beside that of our sends with a copy in as large submissions: turn by turn,
/// since what is measured right after each other is alike.
fn to_copy(cell: &Cell, cells: &[Cell], figures: &[Vec<Figures>]) -> Option<Ratio> {
    let position = |wanted: &Cell| cells.iter().position(|cell| cell == wanted);
    let sender = if cell.sender.has_batches() { Sender::Copy } else { Sender::SocketOff };
    let copy = position(&Cell { sender, flush: Flush::Request, ..*cell })?;
    let own = position(cell).filter(|own| *own != copy)?;
    let pairs = figures[own].iter().zip(&figures[copy]);
    Ratio::of(pairs.map(|(own, copy)| own.cpu_of_both_ends() / copy.cpu_of_both_ends()).collect())
}

fn measure_cell(
    place: &Place,
    cell: &Cell,
    duration: Duration,
    thresholds: Thresholds,
    stop: &AtomicBool,
) -> Result<Figures, Error> {
    let failed = || Error::io(format!("sending {} bytes by {}", cell.size, cell.sender.name()));
    let mut sending = Sending::start(place.connect()?, cell, thresholds).map_err(failed())?;
    // Memory, tables and the congestion window are as they stay after a while.
    run(&mut sending, duration / 10, stop, |_| {}).map_err(failed())?;
    let before = sending.settle().map_err(failed())?;
    let mut latency = latency_histogram();
    let meter = Meter::start(place.receiver());
    let start = Instant::now();
    run(&mut sending, duration, stop, |nanos| latency.saturating_record(nanos)).map_err(failed())?;
    let after = sending.settle().map_err(failed())?;
    let (seconds, cpu_seconds) = (start.elapsed().as_secs_f64(), meter.spent());
    if stop.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    let count = Count {
        sends: after.sends - before.sends,
        bytes: after.bytes - before.bytes,
        reported: after.reported - before.reported,
        copied: after.copied - before.copied,
    };
    Ok(Figures { count, seconds, cpu_seconds, latency })
}

fn run(
    sending: &mut Sending,
    length: Duration,
    stop: &AtomicBool,
    mut record: impl FnMut(u64),
) -> std::io::Result<()> {
    let start = Instant::now();
    let mut last = start;
    while last - start < length && !stop.load(Ordering::Relaxed) {
        sending.turn()?;
        let now = Instant::now();
        record((now - last).as_nanos() as u64);
        last = now;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            paths: Path::ALL.to_vec(),
            senders: vec![Sender::Send, Sender::Fixed],
            sizes: Vec::new(),
            batches: vec![1, 8],
            flushes: Flush::ALL.to_vec(),
            duration: Duration::from_millis(20),
            repeat: 2,
            thresholds: Thresholds::default(),
            receiver: Peer { program: "none".into(), arguments: Vec::new() },
        }
    }

    #[test]
    fn what_has_no_batches_or_slots_is_measured_once() {
        let cells = plan().cells(Path::Sink);
        let of_size: Vec<_> =
            cells[3].iter().map(|cell| (cell.sender.name(), cell.batch, cell.flush.name())).collect();
        let expected =
            [("send", 1, "request"), ("fixed", 1, "request"), ("fixed", 8, "request"), ("fixed", 8, "batch")];
        assert_eq!(of_size, expected);
        assert_eq!(cells[3][0].size, 65_435);
        assert_eq!(plan().total(), Duration::from_millis(20 * 2 * 4 * (4 + 5 + 5)));
    }

    #[test]
    fn no_datagram_is_larger_than_a_datagram() {
        let mut plan = Plan { sizes: vec![65_536], ..plan() };
        assert!(plan.check().unwrap_err().to_string().contains("65536"));
        plan.paths = vec![Path::Loopback];
        plan.check().unwrap();
    }

    #[test]
    fn names_are_read_again() {
        for sender in Sender::ALL {
            assert_eq!(sender.name().parse(), Ok(*sender));
        }
        assert_eq!("air".parse::<Path>().unwrap_err(), "\"air\" is none of sink, loopback, veth");
    }
}
