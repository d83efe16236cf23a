//! What every kind of device begins with: its record, the claim on its source, and how its threads open that.

use super::background;
use super::options::MapOptions;
use super::queues::QueuePlan;
use super::records::{self, Claim, Record};
use crate::access::Access;
use crate::device::{Prepared, Source};
use crate::failure::Failure;
use crate::output::{self, Format};
use serde_json::json;

/// What is to be remembered of the device; its number is not known yet.
pub(super) fn record(options: &MapOptions, source: &Source) -> Result<Record, Failure> {
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
        kind: options.device_type,
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
pub(super) fn claim(source: &Source, wanted: &Record) -> Result<Option<Claim>, Failure> {
    if !source.is_one_thing() {
        return Ok(None);
    }
    let name = &wanted.source;
    match Claim::take(name)? {
        Some(claim) => match records::all()?.into_iter().find(|record| record.is_other_kind(wanted)) {
            None => Ok(Some(claim)),
            Some(left) => {
                let (device, kind) = (left.device(), left.kind);
                let why = format!(
                    "{name} was mapped as {}, which may wait for it: map it with --type {kind}, or unmap it first",
                    device.display()
                );
                Err(Failure::Device(why))
            }
        },
        None => {
            let known = records::all()?.into_iter().find(|record| record.source == *name);
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

/// How each thread opens the source.
pub(super) fn plan(access: &Access, options: &MapOptions, source: &Source) -> Result<QueuePlan, Failure> {
    Ok(QueuePlan {
        source: Prepared::new(access, source, options.read_only)?.with_encryption(&options.encryption)?,
        pool: options.pool.clone(),
        read_only: options.read_only,
        cluster: source.is_image().then(|| options.metrics.config(access)).transpose()?,
        slow: options.metrics.slow(),
        engine: access.engine,
        zero_copy: access.zero_copy()?,
        spin: access.spin,
    })
}

/// Says which device it is, which is usable, and goes to the background if that is asked for.
pub(super) fn announce(options: &MapOptions, record: &Record) -> Result<(), Failure> {
    if options.detached {
        background::detach(&record.log())?;
    }
    let device = record.device();
    match options.format {
        Format::Plain => output::lines([device.display()])?,
        Format::Json => output::json(&json!({ "id": record.id.to_string(), "device": device }))?,
    }
    if options.detached { background::end_output() } else { Ok(()) }
}
