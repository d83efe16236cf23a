//! `onego cp`: the bytes of one device to another.

mod destination;
mod earlier;
mod image;
mod job;
#[cfg(test)]
mod model;
mod options;

use crate::access::Access;
use crate::device::SOURCES;
use crate::failure::Failure;
use crate::output::{self, Format};
use onego::block::copy::CopyProgress;
use serde_json::json;
use std::time::Instant;

pub(crate) use destination::is_block_device;
pub(crate) use earlier::Tuning;
pub(crate) use job::{CopyJob, Copying};
pub(crate) use options::{DEPTH, Options};

pub(crate) fn examples() -> String {
    format!("{EXAMPLES}\n\nSources and destinations:\n{SOURCES}\n{NOTES}")
}

const EXAMPLES: &str = "\
Examples:
  onego cp ubuntu.img rbd:rbd/vm
  onego cp nbd://server/disk /srv/disk.img
  onego cp rbd:vm vm.qcow2
  onego cp rbd:vm nfs://server/export/vm.img --resume
  onego cp /dev/vg/old nbd+unix:///new?socket=/run/nbd.sock --depth 32";

const NOTES: &str = "\
A file or an image that is the destination is made. A file, here or on an NFS server, is called .NAME.onego-partial until it
is whole, and gets the permissions and the time of a file that it is a copy of. Everything else is written to, and has to be
as large as the source; so is a file or an image with --in-place.

A qcow2 file of this machine is the disk in it, and a new file called NAME.qcow2 is made in that format, without --resume. Where
source and name have the same format, the file is copied as it is. Files in other formats (VMDK, VHD, VHDX, VDI) and
compressed ones are refused; --raw takes the bytes of any file as they are. A qcow2 file may need other files, whose names it
contains: they are opened with --follow-backing-files, so use that only with files that you trust.

Holes and zeros of the source become holes, or are left out where there is nothing yet. If the copy is interrupted, --resume
goes on with a file or an image. It compares what is there with the source: in samples if the source is a file that has not
changed since (.NAME.onego-source says which), and in full otherwise. If they differ, nothing is changed.";

pub(crate) fn run(access: &Access, options: &Options) -> Result<(), Failure> {
    if options.source.to_string() == options.destination.to_string() && options.source.is_one_thing() {
        return Err(Failure::Usage(format!("{} is source and destination", options.source)));
    }
    let has_images = [&options.source, &options.destination].iter().any(|side| side.is_image());
    let config = has_images.then(|| access.config()).transpose()?;
    let started = Instant::now();
    let copying = Copying::begin(access, config.as_ref(), &options.job(), &Tuning::default())?;
    let (size, start) = (copying.size(), copying.start());
    let copied = copying.run(!options.no_progress)?;
    report(options, size, start, copied, started)
}

fn report(
    options: &Options,
    size: u64,
    start: u64,
    copied: CopyProgress,
    started: Instant,
) -> Result<(), Failure> {
    let CopyProgress { data, zeros, .. } = copied;
    match options.format {
        Format::Plain => Ok(()),
        Format::Json => output::json(&json!({
            "source": options.source.to_string(),
            "destination": options.destination.to_string(),
            "size": size,
            "resumed_at": start,
            "data": data,
            "zeros": zeros,
            "seconds": started.elapsed().as_secs_f64(),
        })),
    }
}
