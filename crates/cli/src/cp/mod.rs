//! `onego cp`: the bytes of one device to another.

mod destination;
mod image;
mod options;

use crate::access::Access;
use crate::device::{Opener, Prepared, SOURCES};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{self, Format};
use crate::rbd::PIECE;
use destination::{Begun, Destination};
use onego::block::Host;
use onego::block::copy::{Copier, CopyHandle, CopyPlan, CopyProgress};
use onego_bench::report::progress::Progress;
use serde_json::json;
use std::time::Instant;

pub(crate) use options::Options;

/// Bytes between two looks at how far the copy is.
const LOOK_EVERY: u64 = 4 << 20;

pub(crate) fn examples() -> String {
    format!("{EXAMPLES}\n\nSources and destinations:\n{SOURCES}\n{NOTES}")
}

const EXAMPLES: &str = "\
Examples:
  onego cp ubuntu.img rbd:rbd/vm
  onego cp nbd://server/disk /srv/disk.img
  onego cp rbd:vm nfs://server/export/vm.img --resume
  onego cp /dev/vg/old nbd+unix:///new?socket=/run/nbd.sock --depth 32";

const NOTES: &str = "\
A file or an image that is the destination is made. A file, here or on a server of NFS, is called .NAME.onego-partial until it
is whole. Everything else is written to, and has to be as large as the source; so is a file or an image with --in-place.

Holes and zeros of the source become holes, or are left out where there is nothing yet. If the copy is interrupted, --resume
goes on with a file or an image; the source must not have changed since.";

pub(crate) fn run(access: &Access, options: &Options) -> Result<(), Failure> {
    if options.source.to_string() == options.destination.to_string() && options.source.is_one_thing() {
        return Err(Failure::Usage(format!("{} is source and destination", options.source)));
    }
    let has_images = [&options.source, &options.destination].iter().any(|side| side.is_image());
    let config = has_images.then(|| access.config()).transpose()?;
    let started = Instant::now();
    let mut host = Host::open(access.engine, access.zero_copy()?, access.spin, |_| Copier::default())?;
    let mut opener = Opener::new(config.as_ref(), options.pool.as_deref());
    let source = Prepared::new(access, &options.source, true)?;
    let from = opener.open(&mut host, &source, true)?;
    let size = from.geometry().size;
    let begun = Destination::open(access, options, &mut host, &mut opener, size)?;
    let Begun { mut destination, device, start, reads_as_zeros } = begun;
    let mut plan = CopyPlan::default();
    plan.start = start;
    plan.reads_as_zeros = reads_as_zeros || options.destination_is_zero;
    plan.depth = options.depth.into();
    plan.piece = PIECE;
    let copy = host.export().0.start(from, device, plan);
    let progress = Progress::of_bytes("Copying", Some(size), !options.no_progress);
    let copied = follow(&mut host, &copy, &mut destination, &progress);
    progress.finish();
    match copied {
        Ok(()) => destination.finish(&mut host, size)?,
        Err(failure) => {
            destination.abandon(&mut host, copy.progress().done);
            return Err(failure);
        }
    }
    report(options, size, start, copy.progress(), started)
}

/// Drives a copy to its end.
fn follow(
    host: &mut Host<Copier>,
    copy: &CopyHandle,
    destination: &mut Destination,
    progress: &Progress,
) -> Result<(), Failure> {
    loop {
        let CopyProgress { done, .. } = copy.progress();
        progress.at(done);
        if let Some(result) = copy.result() {
            return Ok(result?);
        }
        destination.mark(host, done)?;
        host.block_on(interrupt::unless(copy.beyond(done + LOOK_EVERY)))??;
    }
}

fn report(
    options: &Options,
    size: u64,
    start: u64,
    progress: CopyProgress,
    started: Instant,
) -> Result<(), Failure> {
    let CopyProgress { data, zeros, .. } = progress;
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
