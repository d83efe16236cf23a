//! What every kind of device begins with: its record, the claim on its source, and how its threads open that.

use super::identity;
use super::options::MapOptions;
use super::queues::QueuePlan;
use super::records::{self, Claim, Record};
use super::resize::kernels_size;
use crate::access::Access;
use crate::background;
use crate::device::{Prepared, Source};
use crate::failure::Failure;
use crate::output::{self, Format};
use serde_json::json;

/// What is to be remembered of the device; its number is not known yet.
pub(super) fn record(access: &Access, options: &MapOptions, source: &Source) -> Result<Record, Failure> {
    let pool = options.pool.as_deref();
    let (pool, namespace, image, snap) = match source {
        Source::Image(spec) => {
            let place = spec.image.place(pool);
            (place.pool, place.namespace, spec.image.image.clone(), spec.snapshot.clone())
        }
        _ => Default::default(),
    };
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    Ok(Record {
        kind: options.device_type,
        id: u32::MAX,
        source: source.identity(options.pool.as_deref()),
        identity: identity::of(access, source, options.pool.as_deref())?,
        pool,
        namespace,
        image,
        snap,
        pid: std::process::id(),
        arguments: arguments.collect(),
        directory: std::env::current_dir().map_err(Failure::io("finding the folder"))?,
    })
}

/// Who makes a device of a source.
pub(super) enum Claimed {
    /// This process.
    Own(Claim),
    /// Another process, which has made this device.
    Mapped(Record),
}

/// Claims the source of the device that is to be made.
pub(super) fn claim(options: &MapOptions, source: &Source, wanted: &Record) -> Result<Claimed, Failure> {
    let name = &wanted.source;
    if options.recovers.as_ref().is_some_and(|identity| *identity != wanted.identity) {
        let why = format!(
            "{name} is another source now than the one its device was made of: unmap that with --force"
        );
        return Err(Failure::Device(why));
    }
    let Some(claim) = Claim::take(&wanted.identity, !source.is_one_thing())? else {
        let known = records::all()?.into_iter().find(|record| record.identity == wanted.identity);
        return match known {
            Some(record) if options.unless_mapped => Ok(Claimed::Mapped(record)),
            Some(record) => {
                let device = record.device();
                let why = format!("{name} is {} already: use that, or unmap it first", device.display());
                Err(Failure::Device(why))
            }
            None => Err(Failure::Device(format!("{name} is being mapped by another process"))),
        };
    };
    match records::all()?.into_iter().find(|record| record.is_other_kind(wanted)) {
        None => Ok(Claimed::Own(claim)),
        Some(left) => {
            let (device, kind) = (left.device(), left.kind);
            let why = format!(
                "{name} was mapped as {}, which may wait for it: map it with --type {kind}, or unmap it first",
                device.display()
            );
            Err(Failure::Device(why))
        }
    }
}

/// Fails if a device that waits for its source has more bytes than that has now.
pub(super) fn check_size(left: &Record, size: u64) -> Result<(), Failure> {
    let device = left.device();
    match kernels_size(&device) {
        Some(known) if known > size => Err(Failure::Device(format!(
            "{} has {known} bytes and its source {} has {size} now: make the source longer, or unmap the device with \
             --force",
            device.display(),
            left.source
        ))),
        _ => Ok(()),
    }
}

/// How each thread opens the source.
pub(super) fn plan(access: &Access, options: &MapOptions, source: &Source) -> Result<QueuePlan, Failure> {
    let prepared = Prepared::new(access, source, options.read_only, options.files)?;
    let prepared = prepared.with_encryption(&options.encryption)?;
    Ok(QueuePlan {
        source: prepared.with_incomplete(options.incomplete),
        pool: options.pool.clone(),
        read_only: options.read_only,
        cluster: source.is_image().then(|| options.metrics.config(access)).transpose()?,
        slow: options.metrics.slow(),
        engine: access.engine,
        zero_copy: access.zero_copy()?,
        spin: access.spin,
    })
}

/// Prints the name of a device.
pub(super) fn print(options: &MapOptions, record: &Record) -> Result<(), Failure> {
    let device = record.device();
    match options.format {
        Format::Plain => output::lines([device.display()]),
        Format::Json => output::json(&json!({ "id": record.id.to_string(), "device": device })),
    }
}

/// Says which device it is, which is usable, and goes to the background if that is asked for.
pub(super) fn announce(options: &MapOptions, record: &Record) -> Result<(), Failure> {
    if options.detached {
        background::detach(&record.log())?;
    }
    print(options, record)?;
    if options.detached { background::end_output() } else { Ok(()) }
}
