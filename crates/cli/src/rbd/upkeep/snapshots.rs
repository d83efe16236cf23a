//! `onego rbd snap`.

use crate::access::Access;
use crate::failure::Failure;
use crate::interrupt;
use crate::partial_import::IncompleteArgs;
use crate::rbd::bar::Bar;
use crate::rbd::names::{DestOptions, ImageOptions, Named, Snap, SnapOptions};
use crate::rbd::print::{PrintOptions, asctime};
use crate::rbd::table::Alignment::{Left, Right};
use crate::size::human;
use onego::rados::Pool;
use onego::rbd::snapshots::{self, Snapshot, SnapshotKind};
use serde_json::{Value, json};

/// What programs that have an image open do while a snapshot is made.
#[derive(clap::Args)]
pub(crate) struct QuiesceOptions {
    /// Do not ask programs that have the image open to let their writes rest
    #[arg(long)]
    skip_quiesce: bool,
    /// Make the snapshot also if such a program cannot let its writes rest
    #[arg(long)]
    ignore_quiesce_error: bool,
}

impl QuiesceOptions {
    pub(super) fn quiesce(&self) -> snapshots::Quiesce {
        match (self.skip_quiesce, self.ignore_quiesce_error) {
            (true, _) => snapshots::Quiesce::Skip,
            (false, true) => snapshots::Quiesce::May,
            (false, false) => snapshots::Quiesce::Must,
        }
    }
}

#[derive(clap::Subcommand)]
pub(crate) enum SnapCommand {
    /// Make a snapshot
    #[command(visible_alias = "add", after_help = "Example:\n  onego rbd snap create rbd/disk@monday")]
    Create {
        #[command(flatten)]
        snap: SnapWord,
        /// Show no progress
        #[arg(long)]
        no_progress: bool,
        #[command(flatten)]
        quiesce: QuiesceOptions,
        #[command(flatten)]
        incomplete: IncompleteArgs,
    },
    /// Show the snapshots of an image
    #[command(visible_alias = "list", after_help = "Example:\n  onego rbd snap ls rbd/disk")]
    Ls {
        #[command(flatten)]
        image: ImageWord,
        /// Show those that no user asked for, too
        #[arg(short, long)]
        all: bool,
        #[command(flatten)]
        print: PrintOptions,
    },
    /// Remove a snapshot; where clones need it, it stays out of sight until they have gone
    #[command(visible_alias = "remove", after_help = "Example:\n  onego rbd snap rm rbd/disk@monday")]
    Rm {
        #[command(flatten)]
        snap: SnapWord,
        /// Show no progress
        #[arg(long)]
        no_progress: bool,
    },
    /// Give a snapshot another name
    #[command(after_help = "Example:\n  onego rbd snap rename rbd/disk@monday rbd/disk@start")]
    Rename {
        /// The snapshot, and its name from now on
        #[arg(value_names = ["SNAPSHOT", "NEW-SNAPSHOT"], num_args = 0..=2)]
        words: Vec<String>,
        #[command(flatten)]
        options: SnapOptions,
        #[command(flatten)]
        dest: DestOptions,
        /// The name from now on, as an option
        #[arg(long)]
        dest_snap: Option<String>,
    },
    /// Keep a snapshot from being removed, which clones of the first format need
    #[command(after_help = "Example:\n  onego rbd snap protect rbd/disk@monday")]
    Protect {
        #[command(flatten)]
        snap: SnapWord,
    },
    /// Let a snapshot be removed
    #[command(after_help = "Example:\n  onego rbd snap unprotect rbd/disk@monday")]
    Unprotect {
        #[command(flatten)]
        snap: SnapWord,
    },
    /// Make an image what it was at a snapshot
    #[command(visible_alias = "revert", after_help = "Example:\n  onego rbd snap rollback rbd/disk@monday")]
    Rollback {
        #[command(flatten)]
        snap: SnapWord,
        /// Show no progress
        #[arg(long)]
        no_progress: bool,
    },
    /// Remove all snapshots of an image that are not protected
    #[command(after_help = "Example:\n  onego rbd snap purge rbd/disk")]
    Purge {
        #[command(flatten)]
        image: ImageWord,
        /// Show no progress
        #[arg(long)]
        no_progress: bool,
    },
    /// How many snapshots an image may have
    #[command(subcommand)]
    Limit(LimitCommand),
}

#[derive(clap::Subcommand)]
pub(crate) enum LimitCommand {
    /// Have an image have no more snapshots than so many
    #[command(after_help = "Example:\n  onego rbd snap limit set rbd/disk --limit 30")]
    Set {
        #[command(flatten)]
        image: ImageWord,
        /// The most snapshots
        #[arg(long)]
        limit: Option<u64>,
    },
    /// Have an image have any number of snapshots
    #[command(after_help = "Example:\n  onego rbd snap limit clear rbd/disk")]
    Clear {
        #[command(flatten)]
        image: ImageWord,
    },
}

/// A snapshot in one word, or by options.
#[derive(clap::Args)]
pub(crate) struct SnapWord {
    /// The snapshot: [POOL/[NAMESPACE/]]IMAGE@SNAPSHOT
    #[arg(value_name = "SNAPSHOT")]
    word: Option<String>,
    #[command(flatten)]
    options: SnapOptions,
}

/// An image in one word, or by options.
#[derive(clap::Args)]
pub(crate) struct ImageWord {
    /// The image: [POOL/[NAMESPACE/]]IMAGE
    #[arg(value_name = "IMAGE")]
    word: Option<String>,
    #[command(flatten)]
    options: ImageOptions,
}

impl SnapWord {
    fn named(&self) -> Result<Named, Failure> {
        self.options.named(self.word.as_deref(), Snap::Must)
    }

    /// Does something with the snapshot.
    fn with(
        &self,
        access: &Access,
        body: impl AsyncFnOnce(&Pool, &Named) -> Result<(), onego::ceph::Error>,
    ) -> Result<(), Failure> {
        let named = self.named()?;
        access.with_cluster(async |cluster| Ok(body(&named.pool(cluster).await?, &named).await?))
    }
}

impl ImageWord {
    pub(crate) fn named(&self) -> Result<Named, Failure> {
        self.options.image(self.word.as_deref())
    }

    /// Does something with the image.
    pub(crate) fn with<T>(
        &self,
        access: &Access,
        body: impl AsyncFnOnce(&Pool, &str) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let named = self.named()?;
        access.with_cluster(async |cluster| body(&named.pool(cluster).await?, &named.name).await)
    }
}

pub(crate) fn snap(access: &Access, command: SnapCommand) -> Result<(), Failure> {
    match command {
        SnapCommand::Create { snap, quiesce, incomplete, .. } => {
            let quiesce = quiesce.quiesce();
            let named = snap.named()?;
            access.with_cluster(async |cluster| {
                let (pool, at) = (&named.pool(cluster).await?, &named);
                snapshots::check_name(at.snap())?;
                // A snapshot outlasts the mark of the image.
                incomplete.check_named(pool, &at.name).await?;
                Ok(snapshots::create_quiesced(pool, &at.name, at.snap(), quiesce).await?)
            })
        }
        SnapCommand::Ls { image, all, print } => image.with(access, async |pool, name| {
            show(pool, &snapshots::list(pool, name).await?, all, &print).await
        }),
        SnapCommand::Rm { snap, .. } => {
            snap.with(access, async |pool, at| snapshots::remove(pool, &at.name, at.snap()).await)
        }
        SnapCommand::Rename { words, options, dest, dest_snap } => {
            let (from, to) = renamed(&words, &options, &dest, dest_snap)?;
            access.with_cluster(async |cluster| {
                let pool = from.pool(cluster).await?;
                Ok(snapshots::rename(&pool, &from.name, from.snap(), to.snap()).await?)
            })
        }
        SnapCommand::Protect { snap } => {
            snap.with(access, async |pool, at| snapshots::protect(pool, &at.name, at.snap()).await)
        }
        SnapCommand::Unprotect { snap } => {
            snap.with(access, async |pool, at| snapshots::unprotect(pool, &at.name, at.snap()).await)
        }
        SnapCommand::Rollback { snap, no_progress } => snap.with(access, async |pool, at| {
            let bar = Bar::new("Rolling back to snapshot", !no_progress);
            snapshots::rollback(pool, &at.name, at.snap(), |done, all| bar.at(done, all)).await
        }),
        SnapCommand::Purge { image, no_progress } => image.with(access, async |pool, name| {
            let bar = Bar::new("Removing all snapshots", !no_progress);
            let left = snapshots::purge(pool, name, |done, all| bar.at(done, all)).await?;
            if !left.is_empty() {
                // It is no failure, as Ceph's program has it.
                interrupt::say(&format!(
                    "snapshots {} are protected and stay: \"rbd snap unprotect\" lets them be removed",
                    left.join(", ")
                ));
            }
            Ok(())
        }),
        SnapCommand::Limit(LimitCommand::Set { limit: None, .. }) => {
            Err(Failure::Usage("must specify --limit <num>".into()))
        }
        SnapCommand::Limit(LimitCommand::Set { image, limit }) => {
            image.with(access, async |pool, name| Ok(snapshots::set_limit(pool, name, limit).await?))
        }
        SnapCommand::Limit(LimitCommand::Clear { image }) => {
            image.with(access, async |pool, name| Ok(snapshots::set_limit(pool, name, None).await?))
        }
    }
}

/// The snapshot to rename, and what it is called from then on, which must be of the same image.
fn renamed(
    words: &[String],
    options: &SnapOptions,
    dest: &DestOptions,
    dest_snap: Option<String>,
) -> Result<(Named, Named), Failure> {
    let mut words = words.iter().map(String::as_str);
    let from = options.named(words.next(), Snap::Must)?;
    let to = match (words.next(), dest_snap) {
        (Some(word), _) => dest.named(Some(word), &from.place, Snap::Must)?,
        (None, Some(snap)) => Named { snap: Some(snap), ..from.clone() },
        (None, None) => return Err(Failure::Usage("destination snapshot name was not specified".into())),
    };
    if (&from.place, &from.name) != (&to.place, &to.name) {
        return Err(Failure::Usage("source and destination image name must be the same".into()));
    }
    Ok((from, to))
}

async fn show(pool: &Pool, snapshots: &[Snapshot], all: bool, print: &PrintOptions) -> Result<(), Failure> {
    let mut head =
        vec![("SNAPID", Right), ("NAME", Left), ("SIZE", Right), ("PROTECTED", Left), ("TIMESTAMP", Left)];
    if all {
        head.push(("NAMESPACE", Left));
    }
    let (mut rows, mut values) = (Vec::new(), Vec::new());
    for snapshot in snapshots.iter().filter(|snapshot| all || snapshot.is_users()) {
        let created = snapshot.created.map(asctime).unwrap_or_default();
        let protected = snapshot.is_protected();
        let mut row = vec![
            snapshot.id.to_string(),
            snapshot.name.clone(),
            human(snapshot.size),
            if protected { "yes" } else { "" }.to_owned(),
            created.clone(),
        ];
        let mut value = json!({
            "id": snapshot.id, "name": snapshot.name, "size": snapshot.size,
            "protected": protected.to_string(), "timestamp": created,
        });
        if all {
            let (shown, namespace) = kind(pool, &snapshot.kind).await;
            row.push(shown);
            value["namespace"] = namespace;
        }
        rows.push(row);
        values.push(value);
    }
    print.table(&head, &rows, || Value::Array(values))
}

/// What a snapshot is for, for people and for programs. Whoever may not see a group sees its number.
async fn kind(pool: &Pool, kind: &SnapshotKind) -> (String, Value) {
    match kind {
        SnapshotKind::User => ("user".to_owned(), json!({"type": "user"})),
        SnapshotKind::Group { pool: group_pool, group_id, snapshot_id } => {
            let named =
                onego::rbd::pools::group_snapshot_names(pool, *group_pool, group_id, snapshot_id).await;
            let (pool, group, snap) =
                named.unwrap_or_else(|_| (group_pool.to_string(), group_id.clone(), snapshot_id.clone()));
            let shown = format!("group ({pool}/{group}@{snap})");
            (shown, json!({"type": "group", "pool": pool, "group": group, "group snap": snap}))
        }
        SnapshotKind::Trash { original_name, .. } => {
            let shown = format!("trash ({original_name})");
            (shown, json!({"type": "trash", "original_name": original_name}))
        }
        SnapshotKind::Mirror { .. } => ("mirror".to_owned(), json!({"type": "mirror"})),
        SnapshotKind::Other { kind, .. } => {
            (format!("unknown ({kind})"), json!({"type": format!("unknown ({kind})")}))
        }
    }
}
