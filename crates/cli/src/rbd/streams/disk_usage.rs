//! `onego rbd du`.

use crate::access::Access;
use crate::failure::Failure;
use crate::interrupt::say;
use crate::rbd::names::{Snap, SnapOptions};
use crate::rbd::print::PrintOptions;
use crate::rbd::table::Alignment;
use crate::size::human;
use crate::spec::PoolSpec;
use onego::rados::Pool;
use onego::rbd::snapshots::Snapshot;
use onego::rbd::{self, Diff, DiffEnd, DiffOptions, Features, ImageDetails};
use serde_json::{Value, json};

#[derive(clap::Args)]
pub(crate) struct DiskUsageOptions {
    /// The image, or a snapshot of it: [POOL/[NAMESPACE/]]IMAGE[@SNAPSHOT]; without one, all images of the pool
    #[arg(value_name = "IMAGE")]
    word: Option<String>,
    #[command(flatten)]
    named: SnapOptions,
    /// The snapshot after which it counts
    #[arg(long, value_name = "SNAPSHOT")]
    from_snap: Option<String>,
    /// Count bytes, not objects; this is slow
    #[arg(long)]
    exact: bool,
    /// Count snapshots with their images
    #[arg(long)]
    merge_snapshots: bool,
    #[command(flatten)]
    print: PrintOptions,
}

/// What an image, or a snapshot of it, takes.
struct Usage {
    image: String,
    id: String,
    snapshot: Option<(String, u64)>,
    provisioned: u64,
    used: u64,
}

/// All that is counted.
#[derive(Default)]
struct Usages {
    rows: Vec<Usage>,
    /// Rows, with those that count with others.
    counted: usize,
    provisioned: u64,
    used: u64,
}

pub(crate) fn disk_usage(access: &Access, options: &DiskUsageOptions) -> Result<(), Failure> {
    access.with_cluster(async |cluster| {
        let mut all = Usages::default();
        if options.word.is_none() && !options.named.names_an_image() {
            let place: PoolSpec = options.named.pool();
            let pool = place.open(cluster).await?;
            let (mut names, mut damaged) = (rbd::list(&pool), None);
            while let Some(name) = names.try_next().await? {
                match all.count(&pool, &name, None, options).await {
                    Err(Failure::Client(onego::ceph::Error::NotFound { .. })) => {
                        say(&format!("warning: image {name} is gone"));
                    }
                    Err(failure) if failure.is_of_one_image() => {
                        say(&format!("warning: image {name}: {}", failure.sentence()));
                        damaged.get_or_insert(failure);
                    }
                    other => other?,
                }
            }
            all.print(options, true)?;
            return damaged.map_or(Ok(()), Err);
        }
        let image = options.named.named(options.word.as_deref(), Snap::May)?;
        all.count(&image.pool(cluster).await?, &image.name, image.snap.as_deref(), options).await?;
        all.print(options, false)
    })
}

impl Usages {
    /// Counts an image with its snapshots, or up to one of them.
    async fn count(
        &mut self,
        pool: &Pool,
        name: &str,
        up_to: Option<&str>,
        options: &DiskUsageOptions,
    ) -> Result<(), Failure> {
        let details = ImageDetails::of(pool, name).await?;
        if !details.info.features.contains(Features::FAST_DIFF) {
            say(&format!("warning: fast-diff map is not enabled for {name}. operation may be slow."));
        }
        for wanted in [up_to, options.from_snap.as_deref()].into_iter().flatten() {
            details.snapshot(wanted)?;
        }
        let mut last: Option<&Snapshot> = None;
        let (mut has_begun, mut whole) = (options.from_snap.is_none(), 0);
        for snapshot in details.snapshots.iter().filter(|snapshot| snapshot.is_users()) {
            if has_begun {
                let used = used(pool, name, last, Some(snapshot), options).await?;
                self.add(&details, Some(snapshot), used, options);
                whole += used;
                if up_to.is_some() {
                    self.provisioned += snapshot.size;
                }
            }
            has_begun |= options.from_snap.as_ref() == Some(&snapshot.name);
            if up_to == Some(&snapshot.name) {
                return Ok(());
            }
            last = Some(snapshot);
        }
        let used = used(pool, name, last, None, options).await?;
        self.add(&details, None, used, options);
        self.provisioned += details.info.size;
        if options.merge_snapshots
            && let Some(row) = self.rows.last_mut()
        {
            row.used = whole + used;
        }
        Ok(())
    }

    fn add(
        &mut self,
        details: &ImageDetails,
        snapshot: Option<&Snapshot>,
        used: u64,
        options: &DiskUsageOptions,
    ) {
        self.used += used;
        self.counted += 1;
        if snapshot.is_some() && options.merge_snapshots {
            return;
        }
        self.rows.push(Usage {
            image: details.info.name.clone(),
            id: details.info.id.clone(),
            snapshot: snapshot.map(|snapshot| (snapshot.name.clone(), snapshot.id)),
            provisioned: snapshot.map_or(details.info.size, |snapshot| snapshot.size),
            used,
        });
    }

    fn print(&self, options: &DiskUsageOptions, is_pool: bool) -> Result<(), Failure> {
        let row = |name: String, provisioned, used| vec![name, human(provisioned), human(used)];
        let mut rows: Vec<_> =
            self.rows.iter().map(|usage| row(usage.name(), usage.provisioned, usage.used)).collect();
        if self.counted > 1 {
            rows.push(row("<TOTAL>".to_owned(), self.provisioned, self.used));
        }
        let head = [("NAME", Alignment::Left), ("PROVISIONED", Alignment::Right), ("USED", Alignment::Right)];
        options.print.table(&head, &rows, || {
            let mut value = json!({"images": self.rows.iter().map(Usage::json).collect::<Vec<_>>()});
            if is_pool {
                value["total_provisioned_size"] = self.provisioned.into();
                value["total_used_size"] = self.used.into();
            }
            value
        })
    }
}

impl Usage {
    fn name(&self) -> String {
        match &self.snapshot {
            Some((snapshot, _)) => format!("{}@{snapshot}", self.image),
            None => self.image.clone(),
        }
    }

    fn json(&self) -> Value {
        let mut value = json!({"name": self.image, "id": self.id});
        if let Some((name, id)) = &self.snapshot {
            value["snapshot"] = name.as_str().into();
            value["snapshot_id"] = (*id).into();
        }
        value["provisioned_size"] = self.provisioned.into();
        value["used_size"] = self.used.into();
        value
    }
}

/// Bytes that a snapshot, or the image, does not share with the snapshot before it.
async fn used(
    pool: &Pool,
    name: &str,
    from: Option<&Snapshot>,
    to: Option<&Snapshot>,
    options: &DiskUsageOptions,
) -> Result<u64, Failure> {
    let mut scope = DiffOptions::new().without_parent();
    scope.from = from.map(|snapshot| DiffEnd::Id(snapshot.id));
    scope.to = to.map(|snapshot| DiffEnd::Id(snapshot.id));
    scope.whole_object = !options.exact;
    let mut diff = Diff::open(pool, name, &scope).await?;
    let mut used = 0;
    while let Some(range) = diff.next().await? {
        used += if range.exists { range.length } else { 0 };
    }
    Ok(used)
}
