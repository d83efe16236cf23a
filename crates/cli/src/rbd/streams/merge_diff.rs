//! `onego rbd merge-diff`.

use super::stream_file::StreamFile;
use crate::failure::Failure;
use crate::identity::SourceFacts;
use crate::rbd::transfer::{PIECE, STANDARD, open_input};
use onego::SegmentMut;
use onego::rbd::stream::{Merge, MergeInput, MergeStep};
use onego_bench::report::progress::Progress;
use std::io::Read;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct MergeDiffOptions {
    /// The earlier diff; "-" is standard input
    #[arg(value_name = "FIRST")]
    first: PathBuf,
    /// The later diff, which begins where the first ends
    #[arg(value_name = "SECOND")]
    second: PathBuf,
    /// The file for both, which must be new; "-" is standard output
    path: PathBuf,
    /// Show no progress
    #[arg(long)]
    no_progress: bool,
}

/// A diff that is being read.
struct DiffInput<'a> {
    path: &'a Path,
    reader: Box<dyn Read>,
    facts: SourceFacts,
}

impl<'a> DiffInput<'a> {
    fn open(path: &'a Path) -> Result<Self, Failure> {
        let facts = match path == Path::new(STANDARD) {
            true => SourceFacts::of_input(),
            false => SourceFacts::here(&path.metadata().map_err(Failure::file(path))?, None),
        };
        Ok(Self { path, reader: open_input(path)?, facts })
    }
}

pub(crate) fn merge_diff(options: &MergeDiffOptions) -> Result<(), Failure> {
    if options.second == Path::new(STANDARD) {
        return Err(Failure::Usage("the first diff alone can come from standard input".to_owned()));
    }
    let mut inputs = [DiffInput::open(&options.first)?, DiffInput::open(&options.second)?];
    let mut file = StreamFile::create(&options.path, false, &[&inputs[0].facts, &inputs[1].facts])?;
    let size: u64 =
        [&options.first, &options.second].iter().filter_map(|path| Some(path.metadata().ok()?.len())).sum();
    let progress = Progress::of_bytes("Merging", Some(size), !options.no_progress);
    let (mut merge, mut done) = (Merge::new(), 0);
    let failed = |error| Failure::Usage(format!("{error}"));
    loop {
        match merge.step().map_err(failed)? {
            MergeStep::Bytes(bytes) => file.write(&bytes)?,
            MergeStep::Need(which) => {
                let input = &mut inputs[usize::from(which == MergeInput::Second)];
                let mut bytes = SegmentMut::zeroed(PIECE as usize);
                let read = input.reader.read(&mut bytes).map_err(Failure::file(input.path))?;
                if read == 0 {
                    merge.finish(which).map_err(failed)?;
                }
                bytes.truncate(read);
                merge.push(which, bytes.freeze());
                done += read as u64;
                progress.at(done);
            }
            MergeStep::Done => break,
        }
    }
    progress.finish();
    file.finish()
}
