//! The end of a device.

use super::identity;
use super::options::DeviceType;
use super::records::{self, Record};
use super::{nbd, ublk};
use crate::access::Access;
use crate::device::Source;
use crate::failure::Failure;
use crate::interrupt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the process that has served a device may take to end, once the device is gone: it says farewell to its cluster.
const END: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub(crate) struct UnmapOptions {
    /// The block device, or what it is made of
    #[arg(value_name = "DEVICE|SOURCE", required_unless_present = "all")]
    what: Option<String>,
    /// Remove every device that "onego showmapped" lists
    #[arg(long, conflicts_with = "what")]
    all: bool,
    /// The pool of an image that names none
    #[arg(short, long, value_name = "POOL")]
    pool: Option<String>,
    /// Remove it although somebody uses it
    #[arg(long)]
    force: bool,
}

pub(crate) fn unmap(access: &Access, options: UnmapOptions) -> Result<(), Failure> {
    let Some(what) = &options.what else { return unmap_all(options.force) };
    let record = find(access, what, options.pool.as_deref())?;
    remove(&record, options.force)
}

/// Removes all devices that can be removed.
fn unmap_all(force: bool) -> Result<(), Failure> {
    let records = records::all()?;
    if records.is_empty() {
        return Ok(());
    }
    let mut left = 0;
    for record in &records {
        if let Err(error) = remove(record, force) {
            interrupt::say(&error.sentence());
            left += 1;
        }
    }
    match left {
        0 => Ok(()),
        left => Err(Failure::Device(format!("{left} of {} devices stay", records.len()))),
    }
}

fn remove(record: &Record, force: bool) -> Result<(), Failure> {
    match record.kind {
        DeviceType::Ublk => ublk::remove(record, force)?,
        DeviceType::Nbd => nbd::remove(record, force)?,
    }
    let until = Instant::now() + END;
    while record.has_process() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    record.remove();
    Ok(())
}

/// The device that is meant. An image is looked up, because clusters have images of the same name.
fn find(access: &Access, what: &str, pool: Option<&str>) -> Result<Record, Failure> {
    let source = what.parse::<Source>().ok();
    let named = source.as_ref().map_or_else(|| what.to_owned(), |source| source.identity(pool));
    let is_meant = |record: &Record| {
        let device = record.device();
        device == Path::new(what) || device.file_name() == Some(what.as_ref()) || record.source == named
    };
    let mut found: Vec<Record> = records::all()?.into_iter().filter(is_meant).collect();
    if let Some(image) = source.as_ref().filter(|source| source.is_image())
        && let Some(first) = found.first()
    {
        let identity = identity::of(access, image, pool).map_err(|error| {
            let device = first.device();
            Failure::Device(format!(
                "{what} cannot be looked up, so it may be another image than that of {0}: unmap {0} by its name ({1})",
                device.display(),
                error.sentence()
            ))
        })?;
        found.retain(|record| record.identity == identity);
    }
    let mut found = found.into_iter();
    let record = found.next().ok_or_else(|| {
        Failure::NotMapped(format!(
            "{what} is no device that onego has mapped: \"onego showmapped\" lists them"
        ))
    })?;
    match found.next() {
        None => Ok(record),
        Some(_) => Err(Failure::Usage(format!("{what} is mapped several times: name the device"))),
    }
}
