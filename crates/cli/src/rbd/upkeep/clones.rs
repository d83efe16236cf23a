//! `onego rbd clone`, `children` and `flatten`.

use super::snapshots::ImageWord;
use crate::access::Access;
use crate::failure::Failure;
use crate::partial_import::IncompleteArgs;
use crate::rbd::bar::Bar;
use crate::rbd::names::{DestOptions, Snap, SnapOptions};
use crate::rbd::print::PrintOptions;
use crate::rbd::shape::Shape;
use onego::rados::Cluster;
use onego::rbd::clones::{self, Child, CloneFormat};
use serde_json::json;

#[derive(clap::Args)]
pub(crate) struct CloneOptions {
    /// The snapshot, and the image that is made
    #[arg(value_names = ["SNAPSHOT", "IMAGE"], num_args = 0..=2)]
    words: Vec<String>,
    #[command(flatten)]
    source: SnapOptions,
    #[command(flatten)]
    dest: DestOptions,
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    incomplete: IncompleteArgs,
    /// How the clone is noted at its parent: 1 (the snapshot must be protected), 2, or auto (what the cluster's clients know)
    /// [default: the configuration's, or auto]
    #[arg(long, value_name = "FORMAT", alias = "rbd_default_clone_format", value_parser = format)]
    rbd_default_clone_format: Option<Format>,
}

/// A format, unless the cluster says which.
type Format = std::sync::Arc<Option<CloneFormat>>;

fn format(text: &str) -> Result<Format, String> {
    Ok(Format::new(match text {
        "1" => Some(CloneFormat::Listed),
        "2" => Some(CloneFormat::Counted),
        "auto" => None,
        _ => return Err("it is 1, 2 or auto".to_owned()),
    }))
}

pub(crate) fn clone(access: &Access, options: &CloneOptions) -> Result<(), Failure> {
    let mut words = options.words.iter().map(String::as_str);
    let from = options.source.named(words.next(), Snap::Must)?;
    let to = options.dest.named(words.next(), &from.place, Snap::MustNot)?;
    let configured = access.config()?.image_defaults.clone_format;
    let format = match (&options.rbd_default_clone_format, configured) {
        (Some(said), _) => **said,
        (None, Some(text)) => *format(&text).map_err(Failure::Usage)?,
        (None, None) => None,
    };
    access.with_cluster(async |cluster| {
        let (pool, to_pool) = (from.pool(cluster).await?, to.pool(cluster).await?);
        let parent = onego::rbd::info(&pool, &from.name).await?;
        options.incomplete.check(&pool, &parent).await?;
        let create = options.shape.like(&parent, cluster).await?;
        Ok(clones::clone((&pool, &from.name, from.snap()), (&to_pool, &to.name), &create, format).await?)
    })
}

#[derive(clap::Args)]
pub(crate) struct ChildrenOptions {
    /// The image, or a snapshot of it: [POOL/[NAMESPACE/]]IMAGE[@SNAPSHOT]
    #[arg(value_name = "IMAGE")]
    word: Option<String>,
    #[command(flatten)]
    source: SnapOptions,
    /// Show clones in the trash, too
    #[arg(short, long)]
    all: bool,
    /// Show clones of clones, too
    #[arg(long)]
    descendants: bool,
    #[command(flatten)]
    print: PrintOptions,
}

pub(crate) fn children(access: &Access, options: &ChildrenOptions) -> Result<(), Failure> {
    let from = options.source.named(options.word.as_deref(), Snap::May)?;
    access.with_cluster(async |cluster| {
        let pool = from.pool(cluster).await?;
        let mut found = clones::children(&pool, &from.name, from.snap.as_deref()).await?;
        if options.descendants {
            found = with_descendants(cluster, found).await?;
        }
        found.retain(|child| options.all || !child.in_trash);
        let lines = || found.iter().map(|child| shown(child, options.all)).collect();
        options.print.print(lines, || found.iter().map(|child| value(child, options.all)).collect())
    })
}

/// Clones with their clones, and so on. Those in the trash have no names by which theirs could be asked for.
async fn with_descendants(cluster: &Cluster, children: Vec<Child>) -> Result<Vec<Child>, Failure> {
    let (mut all, mut next) = (Vec::new(), children);
    while let Some(child) = next.pop() {
        if !child.in_trash {
            let pool = cluster.pool(&child.pool).await?.in_namespace(&child.namespace);
            next.extend(clones::children(&pool, &child.image, None).await?);
        }
        all.push(child);
    }
    all.sort();
    Ok(all)
}

fn shown(child: &Child, all: bool) -> String {
    let place = if child.namespace.is_empty() {
        child.pool.clone()
    } else {
        format!("{}/{}", child.pool, child.namespace)
    };
    let trash = if all && child.in_trash { format!(" (trash {})", child.id) } else { String::new() };
    format!("{place}/{}{trash}", child.image)
}

fn value(child: &Child, all: bool) -> serde_json::Value {
    let mut value = json!({"pool": child.pool, "pool_namespace": child.namespace, "image": child.image});
    if all {
        value["trash"] = child.in_trash.into();
        if child.in_trash {
            value["id"] = child.id.clone().into();
        }
    }
    value
}

#[derive(clap::Args)]
pub(crate) struct FlattenOptions {
    #[command(flatten)]
    image: ImageWord,
    /// Show no progress
    #[arg(long)]
    no_progress: bool,
}

pub(crate) fn flatten(access: &Access, options: &FlattenOptions) -> Result<(), Failure> {
    options.image.with(access, async |pool, name| {
        let bar = Bar::new("Image flatten", !options.no_progress);
        Ok(clones::flatten(pool, name, |done, all| bar.at(done, all)).await?)
    })
}
