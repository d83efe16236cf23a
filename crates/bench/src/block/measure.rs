//! All loads on all devices, one after the other.

use super::bed::{Bed, DeviceKind, ImageCluster};
use super::callers::{Callers, CallersLoad};
use super::row::BlockRow;
use super::way::Way;
use crate::Error;
use crate::report::progress::Progress;
use crate::report::table::short_size;
use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often it is told how far a measurement is.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// What is measured, and how.
#[derive(Debug, Clone)]
pub struct BlockPlan {
    /// The devices.
    pub devices: Vec<DeviceKind>,
    /// The loads.
    pub loads: Vec<CallersLoad>,
    /// Bytes of each device.
    pub size: u64,
    /// How long to measure each load and way.
    pub duration: Duration,
    /// Times that each is measured, in turns with the other ways of its load.
    pub repeat: u32,
    /// Where images are, if a device is one.
    pub cluster: Option<ImageCluster>,
}

impl BlockPlan {
    /// Fails if a load cannot be put on the devices.
    pub fn check(&self) -> Result<(), Error> {
        for CallersLoad { block_size, callers, batch, .. } in &self.loads {
            let needed = block_size.saturating_mul((*callers).into()).saturating_mul((*batch).into());
            if needed > self.size {
                return Err(Error::Unfit(format!(
                    "{callers} callers with {batch} blocks of {block_size} bytes need a device of {needed} bytes, not of {}",
                    self.size
                )));
            }
        }
        Ok(())
    }

    /// How long all of it takes, as far as it is known before.
    pub fn total(&self) -> Duration {
        let ways =
            |device: &DeviceKind| self.loads.iter().map(|load| ways(*device, load).len()).sum::<usize>();
        let all: usize = self.devices.iter().map(ways).sum();
        self.duration * self.repeat * all as u32
    }

    /// Measures everything. `each` hears of every load on every device when it is done, with a row for each way; `stop` ends it
    /// all early.
    pub fn measure(
        &self,
        progress: &Progress,
        stop: &AtomicBool,
        mut each: impl FnMut(&[BlockRow]),
    ) -> Result<Vec<BlockRow>, Error> {
        self.check()?;
        let (mut all, passed) = (Vec::new(), Cell::new(Duration::ZERO));
        for device in &self.devices {
            progress.task(&format!("filling {}", device.name()));
            let mut bed = Bed::prepare(*device, self.size, self.cluster.as_ref())?;
            for load in &self.loads {
                let task = format!("{} {} {}", device.name(), load.rw.name(), short_size(load.block_size));
                progress.task(&task);
                let told = |elapsed| {
                    progress.at((passed.get() + elapsed).as_millis() as u64);
                    if stop.load(Ordering::Relaxed) {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                };
                let rows = self.measure_one(*device, &mut bed, load, &passed, told)?;
                each(&rows);
                all.extend(rows);
            }
        }
        Ok(all)
    }

    fn measure_one(
        &self,
        device: DeviceKind,
        bed: &mut Bed,
        load: &CallersLoad,
        passed: &Cell<Duration>,
        told: impl Fn(Duration) -> ControlFlow<()>,
    ) -> Result<Vec<BlockRow>, Error> {
        let ways = ways(device, load);
        let mut rows = vec![Vec::new(); ways.len()];
        for _ in 0..self.repeat {
            for (way, rows) in ways.iter().zip(&mut rows) {
                let mut next = Duration::ZERO;
                let callers = Callers::new(bed, way.route(load.callers), *load, self.size);
                let counted = callers.run(self.duration, |elapsed| {
                    if elapsed < next {
                        return ControlFlow::Continue(());
                    }
                    next = elapsed + TELL_EVERY;
                    told(elapsed)
                })?;
                rows.push(BlockRow::new(device, &bed.engine, load, *way, &counted));
                passed.set(passed.get() + self.duration);
            }
        }
        Ok(rows.into_iter().filter_map(BlockRow::median).collect())
    }
}

/// The ways that a load is measured on. What the loop costs is measured where it does not do all that it can.
fn ways(device: DeviceKind, load: &CallersLoad) -> Vec<Way> {
    let ways = if load.batch > 1 { Way::OF_SMALL } else { Way::OF_LARGE };
    let alone = (load.rate.is_some() && device == DeviceKind::Null).then_some(Way::Alone);
    alone.into_iter().chain(ways).collect()
}
