//! Measures cell by cell, alternating between those of one size.

use super::cell::{Cell, Flush, Path, Sender};
use super::figures::Figures;
use super::place::Destination;
use super::plan::Plan;
use super::ratio::Ratio;
use super::report::Row;
use super::sending::Sending;
use crate::Error;
use crate::cpu::Meter;
use crate::report::progress::Progress;
use crate::row::latency_histogram;
use onego_engine::zero_copy::Thresholds;
use onego_engine::zero_copy::bare::Count;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Measures everything; calls `each` with the rows of each size.
pub fn measure(
    plan: &Plan,
    progress: &Progress,
    stop: &AtomicBool,
    mut each: impl FnMut(&[Row]) + Send,
) -> Result<Vec<Row>, Error> {
    let mut done = Done { progress, time: Duration::ZERO };
    let mut rows = Vec::new();
    for &path in &plan.paths {
        // Uses a thread of its own, which stays in the namespace that it enters.
        let of_path = thread::scope(|scope| {
            let measuring = scope.spawn(|| measure_path(plan, path, stop, &mut done, &mut each));
            measuring.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        rows.extend(of_path);
    }
    Ok(rows)
}

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
    let place = Destination::enter(path, &plan.receiver)?;
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

/// Returns the CPU time of a cell, both ends together, relative to that of our copying sends with submissions of the
/// same size. Compares turn by turn, because consecutive measurements have similar conditions.
fn to_copy(cell: &Cell, cells: &[Cell], figures: &[Vec<Figures>]) -> Option<Ratio> {
    let position = |wanted: &Cell| cells.iter().position(|cell| cell == wanted);
    let sender = if cell.sender.has_batches() { Sender::Copy } else { Sender::SocketOff };
    let copy = position(&Cell { sender, flush: Flush::Request, ..*cell })?;
    let own = position(cell).filter(|own| *own != copy)?;
    let pairs = figures[own].iter().zip(&figures[copy]);
    Ratio::of(pairs.map(|(own, copy)| own.cpu_of_both_ends() / copy.cpu_of_both_ends()).collect())
}

pub(super) fn measure_cell(
    place: &Destination,
    cell: &Cell,
    duration: Duration,
    thresholds: Thresholds,
    stop: &AtomicBool,
) -> Result<Figures, Error> {
    let failed = || Error::io(format!("sending {} bytes by {}", cell.size, cell.sender.name()));
    let mut sending = Sending::start(place.connect()?, cell, thresholds).map_err(failed())?;
    // Warms up memory, tables and the congestion window.
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
