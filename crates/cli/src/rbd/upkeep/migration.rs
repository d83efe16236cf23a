//! `onego rbd migration`.

use super::snapshots::ImageWord;
use crate::access::Access;
use crate::failure::Failure;
use crate::partial_import::IncompleteArgs;
use crate::rbd::bar::Bar;
use crate::rbd::names::{DestOptions, Named, Snap, SnapOptions};
use crate::rbd::shape::Shape;
use crate::rbd::transfer::open_input;
use onego::rbd::migration::{self as moves, SourceSpec};
use onego::rbd::upkeep::CopyKind;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The most bytes of a source-spec that are read: more than any has.
const MAX_SPEC: u64 = 1 << 20;

const PREPARE_EXAMPLES: &str = "\
Examples:
  onego rbd migration prepare rbd/disk fast/disk --object-size 1M
  onego rbd migration prepare --import-only rbd/disk@monday fast/copy
  onego rbd migration prepare --import-only --source-spec-path disk.json fast/copy

A source-spec is JSON, as Ceph's documentation has it (\"Image Live-Migration\"). It names a snapshot, or a file:
  {\"type\": \"native\", \"pool_name\": \"rbd\", \"image_name\": \"disk\", \"snap_name\": \"monday\"}
  {\"type\": \"raw\", \"stream\": {\"type\": \"file\", \"file_path\": \"/srv/disk.raw\"}}";

#[derive(clap::Subcommand)]
pub(crate) enum MigrationCommand {
    /// Make the destination, which shows what the source has and is used from then on
    #[command(after_help = PREPARE_EXAMPLES)]
    Prepare(Box<PrepareOptions>),
    /// Copy what the destination does not have yet
    #[command(after_help = "Example:\n  onego rbd migration execute fast/disk")]
    Execute(EndOptions),
    /// Remove a source that was moved, and leave one that was imported as it is
    #[command(after_help = "Example:\n  onego rbd migration commit fast/disk")]
    Commit(EndOptions),
    /// Remove the destination, and have a source that was moved again
    #[command(after_help = "Example:\n  onego rbd migration abort fast/disk")]
    Abort(EndOptions),
}

#[derive(clap::Args)]
pub(crate) struct PrepareOptions {
    /// The image, and where it goes [default: the same name]; with --import-only a snapshot of it; with a source-spec the
    /// destination alone
    #[arg(value_names = ["SOURCE", "DESTINATION"], num_args = 0..=2)]
    words: Vec<String>,
    /// Leave the source as it is
    #[arg(long)]
    import_only: bool,
    /// What is imported, as JSON
    #[arg(long, value_name = "JSON", requires = "import_only", conflicts_with = "source_spec_path")]
    source_spec: Option<String>,
    /// A file with that ("-": standard input)
    #[arg(long, value_name = "PATH", requires = "import_only")]
    source_spec_path: Option<PathBuf>,
    #[command(flatten)]
    source: SnapOptions,
    #[command(flatten)]
    dest: DestOptions,
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    incomplete: IncompleteArgs,
    /// Make the destination of a clone an image of its own
    #[arg(long)]
    flatten: bool,
}

#[derive(clap::Args)]
pub(crate) struct EndOptions {
    #[command(flatten)]
    image: ImageWord,
    /// Show no progress
    #[arg(long)]
    no_progress: bool,
}

impl PrepareOptions {
    fn named(&self, snap: Snap) -> Result<(Named, Named), Failure> {
        let mut words = self.words.iter().map(String::as_str);
        let from = self.source.named(words.next(), snap)?;
        let same = Some(from.name.as_str()).filter(|_| !self.dest.has_name() && !self.import_only);
        let to = self.dest.named(words.next().or(same), &from.place, Snap::MustNot)?;
        Ok((from, to))
    }

    /// The destination where a source-spec names the source. It is named as the source is otherwise, as `rbd` has it.
    fn destination(&self) -> Result<Named, Failure> {
        match (&self.words[..], self.dest.has_name()) {
            ([], true) => self.dest.named(None, &self.source.pool(), Snap::MustNot),
            ([], false) => self.source.named(None, Snap::MustNot),
            ([word], false) => self.source.named(Some(word), Snap::MustNot),
            _ => Err(Failure::Usage("with a source-spec, only the destination is named".into())),
        }
    }

    /// The source-spec that the options give.
    fn source_spec(&self) -> Result<Option<SourceSpec>, Failure> {
        let text = match (&self.source_spec, &self.source_spec_path) {
            (Some(text), _) => text.clone(),
            (None, Some(path)) => read_spec(path)?,
            (None, None) => return Ok(None),
        };
        Ok(Some(text.parse()?))
    }
}

fn read_spec(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    open_input(path)?.take(MAX_SPEC).read_to_string(&mut text).map_err(Failure::file(path))?;
    Ok(text)
}

pub(crate) fn migration(access: &Access, command: &MigrationCommand) -> Result<(), Failure> {
    match command {
        MigrationCommand::Prepare(options) => prepare(access, options),
        MigrationCommand::Execute(options) => options.image.with(access, async |pool, name| {
            let bar = options.bar("Image migration");
            Ok(moves::execute(pool, name, |done, all| bar.at(done, all)).await?)
        }),
        MigrationCommand::Commit(options) => options.image.with(access, async |pool, name| {
            let bar = options.bar("Commit image migration");
            Ok(moves::commit(pool, name, |done, all| bar.at(done, all)).await?)
        }),
        MigrationCommand::Abort(options) => options.image.with(access, async |pool, name| {
            let bar = options.bar("Abort image migration");
            Ok(moves::abort(pool, name, |done, all| bar.at(done, all)).await?)
        }),
    }
}

impl EndOptions {
    fn bar(&self, what: &'static str) -> Bar {
        Bar::new(what, !self.no_progress)
    }
}

fn prepare(access: &Access, options: &PrepareOptions) -> Result<(), Failure> {
    if options.import_only {
        return prepare_import(access, options);
    }
    let (from, to) = options.named(Snap::MustNot)?;
    access.with_cluster(async |cluster| {
        let (pool, to_pool) = (from.pool(cluster).await?, to.pool(cluster).await?);
        let source = onego::rbd::info(&pool, &from.name).await?;
        options.incomplete.check(&pool, &source).await?;
        let create = options.shape.like(&source, cluster).await?;
        let kind = if options.flatten { CopyKind::Flat } else { CopyKind::AsSource };
        Ok(moves::prepare((&pool, &from.name), (&to_pool, &to.name), &create, kind).await?)
    })
}

/// What an image is imported from.
enum ImportSource {
    Spec(SourceSpec),
    Snapshot(Named),
}

/// An import is flattened in any case.
fn prepare_import(access: &Access, options: &PrepareOptions) -> Result<(), Failure> {
    let (source, to) = match options.source_spec()? {
        Some(spec) => (ImportSource::Spec(spec), options.destination()?),
        None => {
            let (from, to) = options.named(Snap::Must)?;
            (ImportSource::Snapshot(from), to)
        }
    };
    let shape = options.shape.clone().or(&access.config()?.image_defaults);
    access.with_cluster(async |cluster| {
        let spec = match source {
            ImportSource::Spec(spec) => spec,
            ImportSource::Snapshot(from) => {
                let pool = from.pool(cluster).await?;
                // The destination inherits the mark.
                options.incomplete.check_named(&pool, &from.name).await?;
                SourceSpec::native(&pool, &from.name, from.snap())?
            }
        };
        let create = shape.new_image(cluster, 0).await?;
        Ok(moves::prepare_import(&spec, (&to.pool(cluster).await?, &to.name), &create).await?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct PrepareLine {
        #[command(flatten)]
        options: PrepareOptions,
    }

    fn parsed(words: &[&str]) -> Result<PrepareOptions, clap::Error> {
        let line = ["prepare"].iter().chain(words);
        PrepareLine::try_parse_from(line).map(|line| line.options)
    }

    #[test]
    fn an_import_names_a_snapshot_and_where_it_goes_or_a_spec_and_where_it_goes() {
        let named = |words: &[&str]| {
            let (from, to) = parsed(words).unwrap().named(Snap::Must)?;
            Ok::<_, Failure>(format!("{from} {to}"))
        };
        assert_eq!(
            named(&["--import-only", "disk@monday", "fast/copy"]).ok().unwrap(),
            "rbd/disk@monday fast/copy"
        );
        assert!(named(&["--import-only", "disk", "copy"]).is_err());
        assert!(named(&["--import-only", "disk@monday"]).is_err());
        let made = |words: &[&str]| Some(parsed(words).unwrap().destination().ok()?.to_string());
        let spec = ["--import-only", "--source-spec", "{}"];
        let with = |words: &[&'static str]| made(&[&spec[..], words].concat());
        assert_eq!(with(&["fast/copy"]).unwrap(), "fast/copy");
        assert_eq!(with(&["--dest-pool", "fast", "--dest", "copy"]).unwrap(), "fast/copy");
        assert_eq!(with(&["--pool", "fast", "--image", "copy"]).unwrap(), "fast/copy");
        assert_eq!((with(&["a", "b"]), with(&[]), with(&["a", "--dest", "b"])), (None, None, None));
    }

    #[test]
    fn a_source_spec_is_given_once_and_for_imports() {
        for words in [&["--source-spec", "{}", "copy"][..], &["--source-spec-path", "spec.json", "copy"]] {
            assert!(parsed(words).is_err(), "{words:?}");
        }
        let both = ["--import-only", "--source-spec", "{}", "--source-spec-path", "spec.json", "copy"];
        assert!(parsed(&both).is_err());
        assert!(parsed(&["--import-only", "--source-spec", "{}", "x"]).unwrap().source_spec().is_err());
    }
}
