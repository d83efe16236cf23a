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

const TELL_EVERY: Duration = Duration::from_millis(100);

/// Plan of a measurement.
#[derive(Debug, Clone)]
pub struct BlockPlan {
    /// The devices.
    pub devices: Vec<DeviceKind>,
    /// The loads.
    pub loads: Vec<CallersLoad>,
    /// Size of each device in bytes.
    pub size: u64,
    /// Duration of each measurement.
    pub duration: Duration,
    /// Number of measurements of each load, alternating between its ways.
    pub repeat: u32,
    /// The cluster, if a device is an image.
    pub cluster: Option<ImageCluster>,
}

impl BlockPlan {
    /// Fails if a load does not fit the devices.
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

    /// Returns the total duration, as far as it is known in advance.
    pub fn total(&self) -> Duration {
        let ways =
            |device: &DeviceKind| self.loads.iter().map(|load| ways(*device, load).len()).sum::<usize>();
        let all: usize = self.devices.iter().map(ways).sum();
        self.duration * self.repeat * all as u32
    }

    /// Measures everything. Calls `each` after every load on every device, with a row for each way; `stop` ends the
    /// measurement early.
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

/// Returns the ways to measure for a load. The bare loop is measured for paced loads on the null device.
fn ways(device: DeviceKind, load: &CallersLoad) -> Vec<Way> {
    let ways = if load.batch > 1 { Way::OF_SMALL } else { Way::OF_LARGE };
    let alone = (load.rate.is_some() && device == DeviceKind::Null).then_some(Way::Alone);
    alone.into_iter().chain(ways).collect()
}
