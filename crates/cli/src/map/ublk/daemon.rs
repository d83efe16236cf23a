//! The process that serves a device.

use super::served::Served;
use crate::access::Access;
use crate::background;
use crate::device::Source;
use crate::failure::Failure;
use crate::map::begin::{self, Claimed};
use crate::map::options::{MapOptions, QUEUES_MAX};
use crate::map::queues::Queues;
use crate::map::records::{self, Record};
use crate::map::resize::{self, SECTOR};
use crate::metrics::ReactorMetrics;
use crate::process;
use onego::block::Geometry;
use onego_export::ublk::{Params, Target};
use onego_ublk::{Control, DeviceInfo, DeviceState, Features, NewDevice, Queue};
use std::sync::mpsc::channel;

/// Makes the device, or takes over the one that was made of the same source, and serves it.
pub(in crate::map) fn run(access: &Access, options: &MapOptions, source: &Source) -> Result<(), Failure> {
    if options.detached {
        background::leave_terminal()?;
    }
    let mut control = Control::open()?;
    let features = control.features()?;
    if !features.contains(Features::IOCTL_ENCODING) {
        return Err(onego_ublk::Error::TooOld("commands as those of ioctl (Linux 6.5)").into());
    }
    let record = begin::record(access, options, source)?;
    let claim = match begin::claim(options, source, &record)? {
        Claimed::Own(claim) => claim,
        Claimed::Mapped(record) => return begin::print(options, &record),
    };
    let left = find_left(&mut control, &record)?;
    // Before anything is up, so that a signal finds somebody who listens.
    let signals = process::ending_signals()?;
    let metrics = options.metrics.start()?;
    let plan = begin::plan(access, options, source)?;
    let (failed, failure) = channel();
    let asked = left.as_ref().map(DeviceInfo::queues).or(options.queues);
    let threads = asked.unwrap_or_else(|| queues_of(source));
    let figures = ReactorMetrics::new(metrics.registry(), source);
    let mut queues = Queues::open::<Target<Queue>>(&plan, threads, &figures, &failed)?;
    drop(failed);
    let geometry = queues.geometry();
    let belongs_to_one = geometry.volatile_cache && !geometry.shared_flush;
    if belongs_to_one && asked.is_some_and(|asked| asked > 1) {
        let why = format!("a flush of {source} covers one thread's writes alone, so it takes --queues 1");
        return Err(Failure::Device(why));
    }
    // Threads that have no queue end.
    let count = if belongs_to_one { 1 } else { threads };
    let (changes, read_only) = (queues.changes(), options.read_only);
    let mut served = match left {
        Some(info) => {
            let record = Record { id: info.id(), ..record };
            begin::check_size(&record, params(&geometry, read_only)?.sectors() * SECTOR)?;
            Served::take_over(control, queues, claim, info, record)?
        }
        None => {
            let params = params(&geometry, read_only)?;
            let device = new_device((count, options.depth), source, &params, features);
            Served::make(control, queues, claim, (device, &params.encode()), record)?
        }
    };
    process::is_up();
    // If nobody reads it any more, nobody has a use for the device.
    begin::announce(options, &served.record)?;
    served.set_usable();
    metrics.ready();
    let id = served.record.id;
    let size_of = move |geometry: &Geometry| Ok(params(geometry, read_only)?.sectors() * SECTOR);
    resize::follow(&served.record, geometry, changes, size_of, move |size| {
        match features.contains(Features::UPDATE_SIZE) {
            true => Ok(Control::open()?.update_size(id, size / SECTOR)?),
            false => Err(Failure::Device(format!(
                "its source has {size} bytes now, and the kernel's ublk driver changes sizes from Linux 6.16 on; unmap it, and map it \
             again"
            ))),
        }
    })?;
    process::serve((metrics.until_dropped(), served, metrics), Some(failure), signals)
}

fn params(geometry: &Geometry, read_only: bool) -> Result<Params, Failure> {
    Params::new(geometry, read_only).map_err(|error| Failure::Device(error.to_string()))
}

/// The device that was made of this source, which is claimed, and that waits for a process. What else is left of others is
/// removed.
fn find_left(control: &mut Control, wanted: &Record) -> Result<Option<DeviceInfo>, Failure> {
    for record in records::all()?.into_iter().filter(|record| record.is_same(wanted)) {
        match control.info(record.id) {
            // The process ended before the device was there.
            Ok(info) if info.state() == DeviceState::Dead => control.delete(record.id)?,
            Ok(info) => return Ok(Some(info)),
            Err(onego_ublk::Error::NoDevice(_)) => {}
            Err(error) => return Err(error.into()),
        }
        record.remove();
    }
    Ok(None)
}

/// Queues of a device for which nobody has asked for a number of them.
fn queues_of(source: &Source) -> u16 {
    if source.takes_many_threads() { process::processors().min(QUEUES_MAX) } else { 1 }
}

/// A device of that many queues, with that many requests each.
fn new_device(
    (queues, depth): (u16, u16),
    source: &Source,
    params: &Params,
    features: Features,
) -> NewDevice {
    let recovery = match source.is_one_thing() {
        true => Features::USER_RECOVERY.with(Features::RECOVERY_REISSUE),
        false => Features::default(),
    };
    NewDevice { id: None, queues, depth, max_io: params.max_io(), features: recovery.shared_with(features) }
}
