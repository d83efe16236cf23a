//! `onego rbd export-diff`.

use super::diff::Scope;
use super::stream_file::StreamFile;
use crate::access::Access;
use crate::failure::Failure;
use crate::partial_import::IncompleteArgs;
use crate::rbd::names::{Snap, SnapOptions};
use onego::rbd::ExportDiff;
use onego::rbd::stream::{DiffDecoder, DiffEvent, DiffRecord};
use onego_bench::report::progress::Progress;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct ExportDiffOptions {
    /// The image, or a snapshot of it, unless options name it; the file, which must be new ("-" is standard output)
    #[arg(value_name = "[IMAGE] PATH", num_args = 1..=2, required = true)]
    words: Vec<String>,
    #[command(flatten)]
    named: SnapOptions,
    #[command(flatten)]
    scope: Scope,
    #[command(flatten)]
    incomplete: IncompleteArgs,
    /// Go on where an earlier export was interrupted; the image must not have changed since
    #[arg(long)]
    resume: bool,
    /// Show no progress
    #[arg(long)]
    no_progress: bool,
}

pub(crate) fn export_diff(access: &Access, options: &ExportDiffOptions) -> Result<(), Failure> {
    let (word, path) = match &options.words[..] {
        [image, path] => (Some(image.as_str()), PathBuf::from(path)),
        words => (None, PathBuf::from(words.concat())),
    };
    let image = options.named.named(word, Snap::May)?;
    let mut file = StreamFile::create(&path, options.resume, &[])?;
    access.with_cluster(async |cluster| {
        let pool = image.pool(cluster).await?;
        options.incomplete.check_named(&pool, &image.name).await?;
        let scope = options.scope.up_to(image.snap.as_deref());
        let mut stream = ExportDiff::open(&pool, &image.name, &scope).await?;
        let progress = Progress::of_bytes("Exporting", Some(stream.size()), !options.no_progress);
        if options.resume {
            let mut earlier = EarlierDiff::default();
            let kept = file.whole_records(|bytes| earlier.take(bytes))?;
            if kept > 0 {
                let header = stream.next().await?.unwrap_or_default();
                file.check_begins_with(&header)?;
                stream.skip_to(earlier.offset);
            }
            file.keep(kept)?;
        }
        while let Some(bytes) = stream.next().await? {
            file.write(&bytes)?;
            progress.at(stream.position());
        }
        progress.finish();
        Ok(())
    })?;
    file.finish()
}

/// What an earlier export has left.
#[derive(Default)]
struct EarlierDiff {
    decoder: DiffDecoder,
    /// Everything of the image before this byte is there.
    offset: u64,
    /// What comes next ends there.
    next: u64,
    whole: u64,
}

impl EarlierDiff {
    /// More of it. Gives how many bytes are whole records, without the last.
    fn take(&mut self, bytes: Vec<u8>) -> Result<u64, Failure> {
        self.decoder.push(bytes);
        let failed = |error| Failure::Usage(format!("what the earlier export has left is no diff: {error}"));
        loop {
            let before = self.decoder.position();
            let Some(event) = self.decoder.next_event().map_err(failed)? else { return Ok(self.whole) };
            let DiffEvent::Record(record) = event else { continue };
            if self.next > 0 {
                (self.offset, self.whole) = (self.next, before);
            }
            if let DiffRecord::Write { offset, length } | DiffRecord::Zero { offset, length } = record {
                self.next = offset + length;
            }
        }
    }
}
