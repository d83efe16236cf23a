//! Finds the sizes from which a zero-copy send is cheaper than a copy on this machine.

use super::cell::{Cell, Flush, Path, Sender};
use super::measure::measure_cell;
use super::place::Destination;
use crate::Error;
use crate::peer::Peer;
use crate::report::progress::Progress;
use onego_engine::zero_copy::Thresholds;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

/// Sends per submission: as many as on a busy connection.
const BATCH: u32 = 8;

/// Sizes to try; the largest is what a datagram of whole pages holds.
const SIZES: [u32; 7] = [2 << 10, 4 << 10, 8 << 10, 16 << 10, 24 << 10, 32 << 10, 60 << 10];

/// Size of sends in several pieces, and the sizes of the pieces.
const IN_PIECES: u32 = 32 << 10;
const PIECES: [u32; 4] = [2 << 10, 4 << 10, 8 << 10, 16 << 10];

const MARGIN: f64 = 0.98;

const NEVER: usize = usize::MAX;

/// Parameters of a calibration.
#[derive(Debug, Clone, Copy)]
pub struct Calibration {
    /// Duration of each measurement.
    pub duration: Duration,
    /// Number of measurements of each kind; the median counts.
    pub repeat: u32,
}

/// One threshold: compares a zero-copy sender with a copying one, over sizes.
struct Contest {
    name: &'static str,
    without: Sender,
    with: Sender,
    /// The sizes to vary, and the cell for each.
    sizes: &'static [u32],
    cell: fn(Sender, u32) -> Cell,
}

fn whole(sender: Sender, size: u32) -> Cell {
    Cell { path: Path::Sink, sender, size, batch: BATCH, flush: Flush::Batch, pieces: 1 }
}

fn in_pieces(sender: Sender, piece: u32) -> Cell {
    Cell { pieces: IN_PIECES / piece, ..whole(sender, IN_PIECES) }
}

const CONTESTS: [Contest; 4] = [
    Contest { name: "registered", without: Sender::Fixed, with: Sender::Copy, sizes: &SIZES, cell: whole },
    Contest { name: "unregistered", without: Sender::Zc, with: Sender::Copy, sizes: &SIZES, cell: whole },
    Contest {
        name: "msg_zerocopy",
        without: Sender::SocketOn,
        with: Sender::SocketOff,
        sizes: &SIZES,
        cell: whole,
    },
    Contest { name: "segment", without: Sender::Fixed, with: Sender::Copy, sizes: &PIECES, cell: in_pieces },
];

impl Calibration {
    /// Returns the total duration.
    pub fn total(&self) -> Duration {
        let measurements: usize = CONTESTS.iter().map(|contest| contest.sizes.len() * 2).sum();
        self.duration * self.repeat * u32::try_from(measurements).unwrap_or(u32::MAX)
    }

    /// Runs the calibration; prints the relative cost of a zero-copy send for each size.
    pub fn run(&self, progress: &Progress, stop: &AtomicBool) -> Result<Thresholds, Error> {
        // Uses a thread of its own, which stays in the namespace that it enters.
        thread::scope(|scope| {
            let measuring = scope.spawn(|| self.measure(progress, stop));
            measuring.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn measure(&self, progress: &Progress, stop: &AtomicBool) -> Result<Thresholds, Error> {
        let no_receiver = Peer { program: Default::default(), arguments: Vec::new() };
        let place = Destination::enter(Path::Sink, &no_receiver)?;
        let mut time = Duration::ZERO;
        let mut found = [NEVER; CONTESTS.len()];
        for (contest, found) in CONTESTS.iter().zip(&mut found) {
            progress.task(contest.name);
            let mut ratios = Vec::new();
            for &size in contest.sizes {
                let cells = [contest.without, contest.with].map(|sender| (contest.cell)(sender, size));
                let ratio = self.ratio(&place, cells, stop)?;
                let line = format!("{:14} {size:>6}  {ratio:.2}", contest.name);
                progress.print(&line).map_err(Error::io("writing to standard output"))?;
                ratios.push((size as usize, ratio));
                time += self.duration * self.repeat * 2;
                progress.at(time.as_millis() as u64);
            }
            *found = threshold(&ratios);
        }
        let [registered, unregistered, msg_zerocopy, segment] = found;
        Ok(Thresholds { registered, unregistered, msg_zerocopy, segment })
    }

    /// Returns the CPU time per byte without a copy, relative to that with one: the median of pairs, each measured back
    /// to back.
    fn ratio(&self, place: &Destination, cells: [Cell; 2], stop: &AtomicBool) -> Result<f64, Error> {
        let mut ratios = Vec::new();
        for _ in 0..self.repeat {
            let mut cost = [0.0; 2];
            for (cost, cell) in cost.iter_mut().zip(&cells) {
                let figures = measure_cell(place, cell, self.duration, Thresholds::default(), stop)?;
                *cost = figures.cpu_per_gb().client.unwrap_or(f64::INFINITY);
            }
            ratios.push(cost[0] / cost[1]);
        }
        ratios.sort_by(f64::total_cmp);
        Ok(ratios[ratios.len() / 2])
    }
}

fn threshold(ratios: &[(usize, f64)]) -> usize {
    let cheaper = ratios.iter().rev().take_while(|(_, ratio)| *ratio < MARGIN);
    cheaper.last().map_or(NEVER, |(size, _)| *size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_follows_the_last_loss() {
        let ratios = [(2, 1.3), (4, 0.9), (8, 1.0), (16, 0.8), (32, 0.5)];
        assert_eq!(threshold(&ratios), 16);
        assert_eq!(threshold(&ratios[..3]), NEVER);
        assert_eq!(threshold(&ratios[3..]), 16);
    }

    #[test]
    fn pieces_make_up_what_is_sent() {
        for piece in PIECES {
            assert_eq!(in_pieces(Sender::Fixed, piece).pieces * piece, IN_PIECES);
        }
    }
}
