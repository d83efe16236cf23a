//! Loads, measured one after the other on any target that several clients can open.

mod fill;
pub(crate) mod session;
mod workload;

use crate::Error;
use crate::floor::{self, Traffic};
use crate::jobs;
use crate::pattern::SECTOR;
use crate::peer::Peer;
use crate::report::progress::Progress;
use crate::report::table::short_size;
use crate::row::{Count, Ends, Load, Pattern, Row, latency_histogram};
use fill::fill;
use session::{Session as _, Target};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use workload::{Done, LoadClient, Workload};

const TELL_EVERY: Duration = Duration::from_millis(100);

/// Bounds of the floor's duration, which is half of a load's. It needs no warm-up except its connection.
const LEAST_FLOOR: Duration = Duration::from_millis(500);
const MOST_FLOOR: Duration = Duration::from_secs(1);

/// Loads to be measured one after the other.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The loads.
    pub loads: Vec<Load>,
    /// Duration of each measurement.
    pub duration: Duration,
    /// Checks read data against written data.
    pub verify: bool,
    /// Writes everything before it is read or overwritten.
    pub fill: bool,
    /// Percentage of zeros in each written sector if data is not checked; the rest is incompressible.
    pub zeros: u8,
    /// Also measures bare sockets under the same load, with this server.
    pub floor: Option<Peer>,
    /// Seed of random offsets and written bytes.
    pub seed: u64,
}

/// Result of a load.
#[derive(Debug, Clone)]
pub struct Measured {
    /// The figures.
    pub row: Row,
    /// The figures of bare sockets.
    pub floor: Option<Row>,
    /// The first errors, if any.
    pub errors: Vec<String>,
}

impl Plan {
    /// Fails if a load does not fit `size` bytes.
    pub fn check(&self, size: u64) -> Result<(), Error> {
        for Load { block_size, jobs, io_depth, .. } in &self.loads {
            let share = size / u64::from(*jobs) / block_size;
            let needed = if self.verify { u64::from(*io_depth) + 1 } else { 1 };
            if share < needed {
                return Err(Error::Unfit(format!(
                    "{size} bytes have {share} blocks of {block_size} bytes for each of {jobs} jobs, \
                     but {needed} are needed: choose a larger size, or a smaller block size, depth or number of jobs"
                )));
            }
            if self.verify && !block_size.is_multiple_of(SECTOR as u64) {
                return Err(Error::Unfit(format!(
                    "blocks of {block_size} bytes cannot be verified: they are not whole sectors of {SECTOR} bytes"
                )));
            }
        }
        Ok(())
    }

    fn floor_duration(&self) -> Duration {
        match self.floor {
            Some(_) => (self.duration / 2).clamp(self.duration.min(LEAST_FLOOR), MOST_FLOOR),
            None => Duration::ZERO,
        }
    }

    /// Returns the total duration, as far as it is known in advance.
    pub fn total(&self) -> Duration {
        (self.duration + self.floor_duration()) * self.loads.len() as u32
    }
}

/// Measures the loads of a plan. Calls `each` after every load; `stop` ends the measurement early.
pub(crate) fn measure<T: Target>(
    target: &T,
    plan: &Plan,
    progress: &Progress,
    stop: &AtomicBool,
    mut each: impl FnMut(&Measured),
) -> Result<Vec<Measured>, Error> {
    plan.check(target.size())?;
    let (mut all, mut from) = (Vec::new(), Duration::ZERO);
    for load in &plan.loads {
        // Each client fills its own part for verification; a sequential write starts with an empty target.
        if plan.fill && !plan.verify && load.rw != Pattern::Write && !target.is_full()? {
            progress.task("filling");
            fill_all(target, plan, stop)?;
        }
        let doing = if plan.verify { "verifying " } else { "" };
        progress.task(&format!("{doing}{} {}", load.rw.name(), short_size(load.block_size)));
        let told = |elapsed| progress.at((from + elapsed).as_millis() as u64);
        let mut measured = measure_one(target, plan, *load, told, stop)?;
        from += plan.duration;
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        if let Some(server) = &plan.floor {
            let duration = plan.floor_duration();
            let floor = floor::measure(server, Traffic::of(*load), duration.as_secs_f64())
                .map_err(Error::io("measuring bare sockets"))?;
            measured.floor = Some(Row::new(target.bench(), "sockets", "floor", *load, &floor.count));
            from += duration;
        }
        progress.at(from.as_millis() as u64);
        each(&measured);
        all.push(measured);
    }
    Ok(all)
}

fn fill_all<T: Target>(target: &T, plan: &Plan, stop: &AtomicBool) -> Result<(), Error> {
    let mut session = target.open()?;
    let filled = fill(&mut session, 0..target.size(), plan.seed, plan.zeros, stop);
    session.close()?;
    filled
}

fn measure_one<T: Target>(
    target: &T,
    plan: &Plan,
    load: Load,
    told: impl Fn(Duration) + Sync,
    stop: &AtomicBool,
) -> Result<Measured, Error> {
    let prepare = |number: u32| {
        let mut client = LoadClient::new(target.open()?, share(target.size(), plan, load, number));
        client.prepare(stop)?;
        Ok((number, client))
    };
    let work = |(number, client): &mut (u32, LoadClient<T::Session>)| {
        // The first client reports for all, and not at every turn, which would cost more than the turn.
        let mut next = if *number == 0 { Duration::ZERO } else { Duration::MAX };
        client.run(|elapsed| {
            if elapsed >= next {
                next = elapsed + TELL_EVERY;
                told(elapsed);
            }
            !stop.load(Ordering::Relaxed)
        })
    };
    let finish = |(_, client): (u32, LoadClient<T::Session>)| client.finish(stop);
    let (done, cpu_seconds) = jobs::run(load.jobs, target.server(), prepare, work, finish)?;
    let (count, errors) = sum(done, cpu_seconds);
    let row = Row::new(target.bench(), &target.engine(), target.mode(), load, &count);
    Ok(Measured { row, floor: None, errors })
}

fn share(size: u64, plan: &Plan, load: Load, number: u32) -> Workload {
    let blocks = size / u64::from(load.jobs) / load.block_size;
    let length = blocks * load.block_size;
    let start = u64::from(number) * length;
    Workload {
        load,
        range: start..start + length,
        duration: plan.duration,
        verify: plan.verify,
        zeros: plan.zeros,
        // Distinct for each client and kind of load, so that their data is distinguishable.
        seed: plan.seed ^ (u64::from(number) << 48) ^ (load.block_size << 8) ^ load.rw as u64,
    }
}

fn sum(done: Vec<Done>, cpu_seconds: Ends) -> (Count, Vec<String>) {
    let first = done.iter().map(|done| done.span.0).min();
    let last = done.iter().map(|done| done.span.1).max();
    let seconds = last.zip(first).map_or(0.0, |(last, first)| (last - first).as_secs_f64());
    let mut count = Count { ios: 0, errors: 0, seconds, latency: latency_histogram(), cpu_seconds };
    let mut errors = Vec::new();
    for done in done {
        count.ios += done.ios;
        count.errors += done.errors;
        count.latency += done.latency;
        errors.extend(done.shown);
    }
    (count, errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(block_size: u64, jobs: u32, io_depth: u32, verify: bool) -> Plan {
        let load = Load { rw: Pattern::RandWrite, block_size, jobs, io_depth };
        let duration = Duration::from_secs(4);
        Plan { loads: vec![load; 3], duration, verify, fill: true, zeros: 0, floor: None, seed: 1 }
    }

    #[test]
    fn loads_that_there_are_too_few_bytes_for_are_refused() {
        assert!(plan(4096, 1, 128, true).check(1 << 20).is_ok());
        assert!(plan(4096, 2, 128, true).check(1 << 20).is_err(), "a verified block is in flight once");
        assert!(plan(4096, 2, 128, false).check(1 << 20).is_ok());
        let error = plan(1 << 20, 2, 1, false).check(1 << 20).unwrap_err().to_string();
        assert!(error.contains("0 blocks of 1048576 bytes"), "{error}");
        assert!(plan(1000, 1, 1, true).check(1 << 20).is_err(), "only whole sectors can be verified");
    }

    #[test]
    fn the_total_duration_includes_the_floor() {
        let mut plan = plan(4096, 1, 1, false);
        assert_eq!(plan.total(), Duration::from_secs(12));
        plan.floor = Some(Peer { program: "onego".into(), arguments: Vec::new() });
        assert_eq!(plan.total(), Duration::from_secs(15));
    }
}
