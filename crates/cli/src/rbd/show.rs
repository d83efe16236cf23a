//! `onego rbd ls` and `onego rbd info`, as `rbd` prints them.

use super::names::Named;
use super::print::{PrintOptions, asctime};
use super::table::Alignment::{Left, Right};
use crate::failure::Failure;
use crate::interrupt::say;
use crate::partial_import::PartialImport;
use crate::size::human;
use onego::ceph::Error;
use onego::rados::{LockKind, Pool};
use onego::rbd::snapshots::Snapshot;
use onego::rbd::{self, Features, ImageDetails, ImageInfo, ParentName, upkeep};
use serde_json::{Value, json};

/// Names of the bits of an image's flags (`RBD_FLAG_*`).
const FLAGS: [&str; 2] = ["object map invalid", "fast diff invalid"];

/// Names of the bits of an image's operation features (`RBD_OPERATION_FEATURE_*`).
const OP_FEATURES: [&str; 4] = ["clone-parent", "clone-child", "group", "snap-trash"];

/// Prints the images of a pool.
pub(super) async fn list(pool: &Pool, long: bool, print: &PrintOptions) -> Result<(), Failure> {
    let names = rbd::list(pool).all().await?;
    if !long {
        return print.print(|| names.clone(), || json!(names));
    }
    let (mut rows, mut values, mut damaged) = (Vec::new(), Vec::new(), None);
    for name in names {
        let shown = async {
            let details = ImageDetails::of(pool, &name).await?;
            let parent = details.parent_name(pool.cluster()).await?;
            Ok::<_, Failure>((details, parent, lock(pool, &name).await?))
        };
        match shown.await {
            Ok((details, parent, lock)) => {
                for snapshot in [None].into_iter().chain(details.snapshots.iter().map(Some)) {
                    if snapshot.is_none_or(Snapshot::is_users) {
                        let line = Line { details: &details, snapshot, parent: parent.as_ref(), lock };
                        rows.push(line.row());
                        values.push(line.value());
                    }
                }
            }
            // It may be removed by now, or be of a kind that cannot be opened.
            Err(Failure::Client(Error::NotFound { .. })) => {}
            Err(failure) if failure.is_of_one_image() => {
                if !matches!(failure, Failure::Client(Error::Invalid(_) | Error::Features { .. })) {
                    say(&format!("warning: image {name}: {}", failure.sentence()));
                    damaged.get_or_insert(failure);
                }
                rows.push(vec![
                    name.clone(),
                    "?".into(),
                    String::new(),
                    "2".into(),
                    String::new(),
                    String::new(),
                ]);
                values.push(json!({"image": name, "format": 2}));
            }
            Err(failure) => return Err(failure),
        }
    }
    let head =
        [("NAME", Left), ("SIZE", Right), ("PARENT", Left), ("FMT", Right), ("PROT", Left), ("LOCK", Left)];
    print.table(&head, &rows, || Value::Array(values))?;
    damaged.map_or(Ok(()), Err)
}

/// How the lock of an image is held, in few letters.
async fn lock(pool: &Pool, name: &str) -> Result<&'static str, Failure> {
    let lock = upkeep::locks(pool, name).await?;
    Ok(match lock.kind {
        _ if lock.holders.is_empty() => "",
        Some(LockKind::Shared) => "shr",
        _ => "excl",
    })
}

/// An image, or a snapshot of it, in a long list.
struct Line<'a> {
    details: &'a ImageDetails,
    snapshot: Option<&'a Snapshot>,
    parent: Option<&'a ParentName>,
    lock: &'static str,
}

impl Line<'_> {
    fn size(&self) -> u64 {
        self.snapshot.map_or(self.details.info.size, |snapshot| snapshot.size)
    }

    /// What shows through, if anything does at that time.
    fn parent(&self) -> Option<&ParentName> {
        self.parent.filter(|_| self.snapshot.is_none_or(|snapshot| snapshot.overlap.is_some()))
    }

    fn row(&self) -> Vec<String> {
        let name = &self.details.info.name;
        vec![
            self.snapshot.map_or_else(|| name.clone(), |snapshot| format!("{name}@{}", snapshot.name)),
            human(self.size()),
            self.parent().map(shown).unwrap_or_default(),
            self.details.info.format.number().to_string(),
            if self.snapshot.is_some_and(Snapshot::is_protected) { "yes" } else { "" }.to_owned(),
            if self.snapshot.is_none() { self.lock } else { "" }.to_owned(),
        ]
    }

    fn value(&self) -> Value {
        let info = &self.details.info;
        let mut value = json!({"image": info.name, "id": info.id});
        if let Some(snapshot) = self.snapshot {
            value["snapshot"] = snapshot.name.clone().into();
            value["snapshot_id"] = snapshot.id.into();
        }
        value["size"] = self.size().into();
        if let Some(parent) = self.parent() {
            let (pool, namespace) = parent.place.split_once('/').unwrap_or((&parent.place, ""));
            value["parent"] = json!({
                "pool": pool, "pool_namespace": namespace, "image": parent.image, "snapshot": parent.snapshot,
            });
        }
        value["format"] = info.format.number().into();
        if let Some(snapshot) = self.snapshot {
            value["protected"] = snapshot.is_protected().to_string().into();
        } else if !self.lock.is_empty() {
            value["lock_type"] = if self.lock == "excl" { "exclusive" } else { "shared" }.into();
        }
        value
    }
}

fn shown(parent: &ParentName) -> String {
    format!("{}/{}@{}", parent.place, parent.image, parent.snapshot)
}

/// Prints what is known of an image, or of a snapshot of it.
pub(super) async fn info(pool: &Pool, named: &Named, print: &PrintOptions) -> Result<(), Failure> {
    let details = ImageDetails::of(pool, &named.name).await?;
    let snapshot = match &named.snap {
        Some(snap) => Some(details.snapshot(snap)?),
        None => None,
    };
    let info = &details.info;
    let data_pool = match info.data_pool {
        Some(id) => {
            let pools = pool.cluster().pools().await?;
            let known = pools.into_iter().find(|pool| pool.id == id).map(|pool| pool.name);
            Some(known.unwrap_or_else(|| id.to_string()))
        }
        None => None,
    };
    let shown = Shown {
        size: snapshot.map_or(info.size, |snapshot| snapshot.size),
        data_pool,
        group: details.group_name(pool).await?,
        parent: details.parent_name(pool.cluster()).await?,
        snapshot,
        // A user who may not ask sees the rest.
        partial: PartialImport::at(pool, info).await.unwrap_or_default(),
        details: &details,
    };
    print.print(|| shown.lines(), || shown.value())
}

/// What is shown of an image.
struct Shown<'a> {
    details: &'a ImageDetails,
    snapshot: Option<&'a Snapshot>,
    size: u64,
    data_pool: Option<String>,
    group: Option<String>,
    parent: Option<ParentName>,
    partial: Option<PartialImport>,
}

/// The names of the bits that are set.
fn bits<'a>(bits: u64, names: &[&'a str]) -> Vec<&'a str> {
    names.iter().enumerate().filter(|(bit, _)| bits & 1 << bit != 0).map(|(_, name)| *name).collect()
}

impl Shown<'_> {
    fn info(&self) -> &ImageInfo {
        &self.details.info
    }

    /// Times by the names that `rbd` has for them.
    fn times(&self) -> impl Iterator<Item = (&'static str, String)> {
        let times = [
            ("create_timestamp", self.info().created),
            ("access_timestamp", self.details.accessed),
            ("modify_timestamp", self.details.modified),
        ];
        times.into_iter().filter_map(|(name, at)| Some((name, asctime(at?))))
    }

    /// Bytes of the parent that show through.
    fn overlap(&self) -> u64 {
        let head = self.info().parent.as_ref().map(|parent| parent.overlap);
        self.snapshot.map_or(head, |snapshot| snapshot.overlap).unwrap_or(0)
    }

    fn lines(&self) -> Vec<String> {
        let (info, layout) = (self.info(), &self.info().layout);
        let mut lines = vec![
            format!("rbd image '{}':", info.name),
            format!("\tsize {} in {} objects", human(self.size), layout.objects(self.size)),
            format!("\torder {} ({} objects)", layout.order(), human(layout.object_size())),
            format!("\tsnapshot_count: {}", info.snapshots.len()),
        ];
        if !info.is_old_format() {
            lines.push(format!("\tid: {}", info.id));
        }
        lines.extend(self.data_pool.as_ref().map(|pool| format!("\tdata_pool: {pool}")));
        lines.push(format!("\tblock_name_prefix: {}", info.object_prefix));
        lines.push(format!("\tformat: {}", info.format.number()));
        if !info.is_old_format() {
            lines.push(format!("\tfeatures: {}", info.features));
            lines.push(format!("\top_features: {}", bits(self.details.op_features, &OP_FEATURES).join(", ")));
            lines.push(format!("\tflags: {}", bits(self.details.flags, &FLAGS).join(", ")));
        }
        lines.extend(self.group.as_ref().map(|group| format!("\tgroup: {group}")));
        lines.extend(self.times().map(|(name, at)| format!("\t{name}: {at}")));
        lines.extend(self.snapshot.map(|snapshot| {
            format!("\tprotected: {}", if snapshot.is_protected() { "True" } else { "False" })
        }));
        if let Some(parent) = &self.parent {
            let trash = if parent.in_trash { format!(" (trash {})", parent.id) } else { String::new() };
            lines.push(format!("\tparent: {}{trash}", shown(parent)));
            lines.push(format!("\toverlap: {}", human(self.overlap())));
        }
        if layout.is_striped() {
            lines.push(format!("\tstripe unit: {}", human(layout.stripe_unit())));
            lines.push(format!("\tstripe count: {}", layout.stripe_count()));
        }
        lines.extend(
            self.partial
                .as_ref()
                .map(|partial| format!("\tnot whole: {partial} (\"onego rbd import --resume\" goes on)")),
        );
        lines
    }

    fn value(&self) -> Value {
        let (info, layout) = (self.info(), &self.info().layout);
        let mut value = json!({
            "name": info.name,
            "id": info.id,
            "size": self.size,
            "objects": layout.objects(self.size),
            "order": layout.order(),
            "object_size": layout.object_size(),
            "snapshot_count": info.snapshots.len(),
        });
        if let Some(pool) = &self.data_pool {
            value["data_pool"] = pool.clone().into();
        }
        value["block_name_prefix"] = info.object_prefix.clone().into();
        value["format"] = info.format.number().into();
        if !info.is_old_format() {
            value["features"] = json!(Features::names(info.features));
            value["op_features"] = json!(bits(self.details.op_features, &OP_FEATURES));
            value["flags"] = json!(bits(self.details.flags, &FLAGS));
        }
        if let Some(group) = &self.group {
            value["group"] = group.clone().into();
        }
        for (name, at) in self.times() {
            value[name] = at.into();
        }
        if let Some(snapshot) = self.snapshot {
            value["protected"] = snapshot.is_protected().to_string().into();
        }
        if let Some(parent) = &self.parent {
            let (pool, namespace) = parent.place.split_once('/').unwrap_or((&parent.place, ""));
            value["parent"] = json!({
                "pool": pool, "pool_namespace": namespace, "image": parent.image, "id": parent.id,
                "snapshot": parent.snapshot, "trash": parent.in_trash, "overlap": self.overlap(),
            });
        }
        if layout.is_striped() {
            value["stripe_unit"] = layout.stripe_unit().into();
            value["stripe_count"] = layout.stripe_count().into();
        }
        if let Some(PartialImport { done, of, .. }) = &self.partial {
            value["partial_import"] = json!({"done": done, "of": of});
        }
        value
    }
}
