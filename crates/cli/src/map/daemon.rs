//! The process that serves a device.

use super::background;
use super::options::{MapOptions, QUEUES_MAX};
use super::queues::{QueuePlan, Queues};
use super::records::{self, Claim, Record};
use super::served::Served;
use crate::access::Access;
use crate::device::{Prepared, Source};
use crate::failure::Failure;
use crate::metrics::ReactorMetrics;
use crate::output::{self, Format};
use crate::process;
use onego_export::ublk::Params;
use onego_ublk::{Control, DeviceInfo, DeviceState, Features, NewDevice};
use serde_json::json;
use std::sync::mpsc::channel;

/// Makes the device, or takes over the one that was made of the same source, and serves it.
pub(super) fn run(access: &Access, options: &MapOptions, source: &Source) -> Result<(), Failure> {
    if options.detached {
        background::leave_terminal()?;
    }
    let mut control = Control::open()?;
    let features = control.features()?;
    if !features.contains(Features::IOCTL_ENCODING) {
        return Err(onego_ublk::Error::TooOld("commands as those of ioctl (Linux 6.5)").into());
    }
    let record = record(options, source)?;
    let claim = claim(source, &record.source)?;
    let left = match claim {
        Some(_) => find_left(&mut control, &record)?,
        None => None,
    };
    // Before anything is up, so that a signal finds somebody who listens.
    let signals = process::ending_signals()?;
    let metrics = options.metrics.start()?;
    let plan = plan(access, options, source)?;
    let (failed, failure) = channel();
    let asked = left.as_ref().map(DeviceInfo::queues).or(options.queues);
    let threads = asked.unwrap_or_else(|| queues_of(source));
    let queues = Queues::open(&plan, threads, &ReactorMetrics::new(metrics.registry(), source), &failed)?;
    drop(failed);
    let geometry = queues.geometry();
    let belongs_to_one = geometry.volatile_cache && !geometry.shared_flush;
    if belongs_to_one && asked.is_some_and(|asked| asked > 1) {
        let why = format!("a flush of {source} covers one thread's writes alone, so it takes --queues 1");
        return Err(Failure::Device(why));
    }
    // Threads that have no queue end.
    let count = if belongs_to_one { 1 } else { threads };
    let mut served = match left {
        Some(info) => {
            let record = Record { id: info.id(), ..record };
            Served::take_over(control, queues, claim, info, record)?
        }
        None => {
            let params = Params::new(&geometry, options.read_only);
            let params = params.map_err(|error| Failure::Device(error.to_string()))?;
            let device = new_device((count, options.depth), source, &params, features);
            Served::make(control, queues, claim, (device, &params.encode()), record)?
        }
    };
    if options.detached {
        background::detach(&served.record.log())?;
    }
    // If nobody reads it any more, nobody has a use for the device.
    announce(&served.record, options.format)?;
    served.set_usable();
    metrics.ready();
    if options.detached {
        background::end_output()?;
    }
    process::serve((metrics.until_dropped(), served, metrics), Some(failure), signals)
}

/// What is to be remembered of the device; its number is not known yet.
fn record(options: &MapOptions, source: &Source) -> Result<Record, Failure> {
    let pool = options.pool.as_deref();
    let (pool, namespace, image) = match source {
        Source::Image(spec) => {
            let place = spec.place(pool);
            (place.pool, place.namespace, spec.image.clone())
        }
        _ => Default::default(),
    };
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    Ok(Record {
        id: u32::MAX,
        source: source.identity(options.pool.as_deref()),
        pool,
        namespace,
        image,
        pid: std::process::id(),
        arguments: arguments.collect(),
        directory: std::env::current_dir().map_err(Failure::io("finding the folder"))?,
    })
}

/// Claims a source that there is only one of.
fn claim(source: &Source, name: &str) -> Result<Option<Claim>, Failure> {
    if !source.is_one_thing() {
        return Ok(None);
    }
    match Claim::take(name)? {
        Some(claim) => Ok(Some(claim)),
        None => {
            let known = records::all()?.into_iter().find(|record| record.source == name);
            Err(Failure::Device(match known {
                Some(record) => {
                    let device = record.device();
                    format!("{name} is {} already: use that, or unmap it first", device.display())
                }
                None => format!("{name} is being mapped by another process"),
            }))
        }
    }
}

/// The device that was made of this source, which is claimed, and that waits for a process. What else is left of others is
/// removed.
fn find_left(control: &mut Control, wanted: &Record) -> Result<Option<DeviceInfo>, Failure> {
    for record in records::all()?.into_iter().filter(|record| record.source == wanted.source) {
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

fn plan(access: &Access, options: &MapOptions, source: &Source) -> Result<QueuePlan, Failure> {
    Ok(QueuePlan {
        source: Prepared::new(access, source, options.read_only)?,
        pool: options.pool.clone(),
        read_only: options.read_only,
        cluster: source.is_image().then(|| options.metrics.config(access)).transpose()?,
        slow: options.metrics.slow(),
        engine: access.engine,
        zero_copy: access.zero_copy()?,
        spin: access.spin,
    })
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

fn announce(record: &Record, format: Format) -> Result<(), Failure> {
    let device = record.device();
    match format {
        Format::Plain => output::lines([device.display()]),
        Format::Json => output::json(&json!({ "id": record.id.to_string(), "device": device })),
    }
}
