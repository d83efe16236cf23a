//! The end of a device.

use super::options::DeviceType;
use super::records::{self, Record};
use super::{nbd, ublk};
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

pub(crate) fn unmap(options: UnmapOptions) -> Result<(), Failure> {
    let Some(what) = &options.what else { return unmap_all(options.force) };
    let record = find(what, options.pool.as_deref())?;
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

/// The device that is meant.
fn find(what: &str, pool: Option<&str>) -> Result<Record, Failure> {
    let named = what.parse::<Source>().map_or_else(|_| what.to_owned(), |source| source.identity(pool));
    let is_meant = |record: &Record| {
        let device = record.device();
        device == Path::new(what) || device.file_name() == Some(what.as_ref()) || record.source == named
    };
    let mut found = records::all()?.into_iter().filter(is_meant);
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
