//! `onego rbd diff`.

use super::image::SnapArg;
use super::table::{self, Side};
use crate::access::Access;
use crate::failure::Failure;
use crate::output::{self, Format};
use onego::rbd::{Diff, DiffOptions};
use serde_json::json;

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    image: SnapArg,
    #[command(flatten)]
    scope: Scope,
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What is compared, beside what it ends at.
#[derive(clap::Args)]
pub(crate) struct Scope {
    /// The snapshot that it begins at; without it, it begins with nothing
    #[arg(long, value_name = "SNAPSHOT")]
    from_snap: Option<String>,
    /// Count objects of which anything changed as changed in whole
    #[arg(long)]
    whole_object: bool,
}

impl Scope {
    pub(super) fn up_to(&self, snapshot: Option<&str>) -> DiffOptions {
        let mut options = DiffOptions::new();
        options.from.clone_from(&self.from_snap);
        options.to = snapshot.map(str::to_owned);
        options.whole_object = self.whole_object;
        options
    }
}

pub(super) fn run(access: &Access, options: &Options) -> Result<(), Failure> {
    access.with_cluster(async |cluster| {
        let pool = options.image.open_pool(cluster).await?;
        let scope = options.scope.up_to(options.image.snapshot());
        let mut diff = Diff::open(&pool, options.image.name(), &scope).await?;
        let mut ranges = Vec::new();
        while let Some(range) = diff.next().await? {
            ranges.push(range);
        }
        match options.format {
            Format::Plain if ranges.is_empty() => Ok(()),
            Format::Plain => {
                let rows: Vec<_> = ranges
                    .iter()
                    .map(|range| {
                        let kind = if range.exists { "data" } else { "zero" };
                        vec![range.offset.to_string(), range.length.to_string(), kind.to_owned()]
                    })
                    .collect();
                output::lines(table::lines(&["Offset", "Length", "Type"].map(|name| (name, Side::Left)), &rows))
            }
            Format::Json => {
                let ranges = ranges.iter().map(|range| {
                    json!({"offset": range.offset, "length": range.length, "exists": range.exists.to_string()})
                });
                output::json(&ranges.collect())
            }
        }
    })
}
