//! `onego rbd diff`.

use crate::access::Access;
use crate::failure::Failure;
use crate::rbd::names::{Snap, SnapOptions};
use crate::rbd::print::PrintOptions;
use crate::rbd::table::Alignment;
use onego::rbd::{Diff, DiffEnd, DiffOptions};
use serde_json::json;

#[derive(clap::Args)]
pub(crate) struct DiffCommand {
    /// The image, or a snapshot of it: [POOL/[NAMESPACE/]]IMAGE[@SNAPSHOT]
    #[arg(value_name = "IMAGE")]
    word: Option<String>,
    #[command(flatten)]
    named: SnapOptions,
    #[command(flatten)]
    scope: Scope,
    #[command(flatten)]
    print: PrintOptions,
}

/// What is compared, beside what it ends at.
#[derive(clap::Args)]
pub(super) struct Scope {
    /// The snapshot that it begins at; without it, it begins with nothing
    #[arg(long, value_name = "SNAPSHOT")]
    from_snap: Option<String>,
    /// Count objects of which anything changed as changed in whole
    #[arg(long)]
    whole_object: bool,
}

impl Scope {
    /// The comparison that ends at a snapshot, or at the image as it is.
    pub(super) fn up_to(&self, snapshot: Option<&str>) -> DiffOptions {
        let mut options = DiffOptions::new();
        options.from = self.from_snap.clone().map(DiffEnd::Name);
        options.to = snapshot.map(|name| DiffEnd::Name(name.to_owned()));
        options.whole_object = self.whole_object;
        options
    }
}

pub(crate) fn diff(access: &Access, options: &DiffCommand) -> Result<(), Failure> {
    let image = options.named.named(options.word.as_deref(), Snap::May)?;
    access.with_cluster(async |cluster| {
        let pool = image.pool(cluster).await?;
        let scope = options.scope.up_to(image.snap.as_deref());
        let mut diff = Diff::open(&pool, &image.name, &scope).await?;
        let mut ranges = Vec::new();
        while let Some(range) = diff.next().await? {
            ranges.push(range);
        }
        let rows: Vec<_> = ranges
            .iter()
            .map(|range| {
                let kind = if range.exists { "data" } else { "zero" };
                vec![range.offset.to_string(), range.length.to_string(), kind.to_owned()]
            })
            .collect();
        let head = ["Offset", "Length", "Type"].map(|name| (name, Alignment::Left));
        options.print.table(&head, &rows, || {
            let range = |range: &onego::rbd::DiffRange| {
                json!({"offset": range.offset, "length": range.length, "exists": range.exists.to_string()})
            };
            ranges.iter().map(range).collect()
        })
    })
}
