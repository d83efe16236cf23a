//! `onego rbd namespace`.

use super::trash::PoolWord;
use crate::access::Access;
use crate::failure::Failure;
use crate::rbd::print::PrintOptions;
use crate::rbd::table::Alignment::Left;
use crate::spec::PoolSpec;
use onego::rbd::pools;
use serde_json::{Value, json};

#[derive(clap::Subcommand)]
pub(crate) enum NamespaceCommand {
    /// Make a namespace for images in a pool
    #[command(after_help = "Example:\n  onego rbd namespace create rbd/tenant")]
    Create {
        #[command(flatten)]
        place: PoolWord,
    },
    /// Show the namespaces of a pool
    #[command(visible_alias = "list", after_help = "Example:\n  onego rbd namespace ls rbd")]
    Ls {
        #[command(flatten)]
        place: PoolWord,
        #[command(flatten)]
        print: PrintOptions,
    },
    /// Remove a namespace without images
    #[command(visible_alias = "remove", after_help = "Example:\n  onego rbd namespace rm rbd/tenant")]
    Rm {
        #[command(flatten)]
        place: PoolWord,
    },
}

pub(crate) fn namespace(access: &Access, command: &NamespaceCommand) -> Result<(), Failure> {
    match command {
        NamespaceCommand::Create { place } => {
            let PoolSpec { pool, namespace } = named(place)?;
            access.with_cluster(async |cluster| {
                Ok(pools::create_namespace(&cluster.pool(&pool).await?, &namespace).await?)
            })
        }
        NamespaceCommand::Ls { place, print } => access.with_cluster(async |cluster| {
            let names = pools::namespaces(&place.place().open(cluster).await?).await?;
            let rows: Vec<_> = names.iter().map(|name| vec![name.clone()]).collect();
            let values = || names.iter().map(|name| json!({"name": name})).collect::<Value>();
            print.table(&[("NAME", Left)], &rows, values)
        }),
        NamespaceCommand::Rm { place } => {
            let PoolSpec { pool, namespace } = named(place)?;
            access.with_cluster(async |cluster| {
                Ok(pools::remove_namespace(&cluster.pool(&pool).await?, &namespace).await?)
            })
        }
    }
}

/// The place, whose namespace must be named.
fn named(place: &PoolWord) -> Result<PoolSpec, Failure> {
    let place = place.place();
    if place.namespace.is_empty() {
        return Err(Failure::Usage("namespace name was not specified".into()));
    }
    Ok(place)
}
