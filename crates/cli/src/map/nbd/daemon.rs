//! The process that serves a device.

use super::served::Served;
use crate::access::Access;
use crate::background;
use crate::device::Source;
use crate::failure::Failure;
use crate::map::begin::{self, Claimed};
use crate::map::options::MapOptions;
use crate::map::queues::Queues;
use crate::map::records::{self, Record};
use crate::map::resize;
use crate::metrics::ReactorMetrics;
use crate::nbd_driver::{Driver, NewDevice, block_size, is_connected};
use crate::process;
use onego::block::Geometry;
use onego_export::nbd::{Server, kernel_info};
use std::sync::mpsc::channel;

/// Makes the device, or takes over the one that was made of the same source, and serves it.
pub(in crate::map) fn run(access: &Access, options: &MapOptions, source: &Source) -> Result<(), Failure> {
    if options.detached {
        background::leave_terminal()?;
    }
    if options.queues.is_some_and(|queues| queues > 1) {
        let why = "a device of nbd has one queue: of several connections, the kernel gives up each that has not \
                   answered for 30 seconds";
        return Err(Failure::Usage(why.into()));
    }
    let driver = Driver::open()?;
    let record = begin::record(access, options, source)?;
    let claim = match begin::claim(options, source, &record)? {
        Claimed::Own(claim) => claim,
        Claimed::Mapped(record) => return begin::print(options, &record),
    };
    let left = find_left(&record)?;
    // Before anything is up, so that a signal finds somebody who listens.
    let signals = process::ending_signals()?;
    let metrics = options.metrics.start()?;
    let plan = begin::plan(access, options, source)?;
    let (failed, failure) = channel();
    let figures = ReactorMetrics::new(metrics.registry(), source);
    let mut queues = Queues::open::<Server>(&plan, 1, &figures, &failed)?;
    drop(failed);
    let (geometry, changes, read_only) = (queues.geometry(), queues.changes(), options.read_only);
    let mut served = match left {
        Some(id) => {
            let record = Record { id, ..record };
            begin::check_size(&record, new_device(&geometry, read_only, true)?.size)?;
            Served::take_over(driver, queues, claim, record)?
        }
        None => {
            let device = new_device(&geometry, read_only, source.is_one_thing())?;
            Served::make(driver, queues, claim, device, record)?
        }
    };
    process::is_up();
    // If nobody reads it any more, nobody has a use for the device.
    begin::announce(options, &served.record)?;
    served.set_usable();
    metrics.ready();
    let (id, name) = (served.record.id, served.record.identity.clone());
    let size_of = move |geometry: &Geometry| Ok(new_device(geometry, read_only, false)?.size);
    let update = move |size| Ok(Driver::open()?.resize(id, &name, size)?);
    resize::follow(&served.record, geometry, changes, size_of, update)?;
    process::serve((metrics.until_dropped(), served, metrics), Some(failure), signals)
}

/// The device that was made of this source, which is claimed: whatever process served it is gone.
fn find_left(wanted: &Record) -> Result<Option<u32>, Failure> {
    for record in records::all()?.into_iter().filter(|record| record.is_same(wanted)) {
        if is_connected(record.id, &record.identity) {
            return Ok(Some(record.id));
        }
        record.remove();
    }
    Ok(None)
}

fn new_device(geometry: &Geometry, read_only: bool, waits: bool) -> Result<NewDevice, Failure> {
    let block = block_size(geometry.block).ok_or_else(|| {
        let block = geometry.block;
        Failure::Device(format!("the device has blocks of {block} bytes, and the kernel takes at most 4096"))
    })?;
    let info = kernel_info(geometry, read_only);
    let size = geometry.in_blocks_of(block.into())?;
    Ok(NewDevice { size, block, flags: info.flags.0, waits })
}
