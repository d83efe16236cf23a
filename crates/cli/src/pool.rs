//! `onego pool`.

use crate::access::Access;
use crate::failure::Failure;
use crate::output::{self, Format};
use serde_json::json;

#[derive(clap::Subcommand)]
pub(crate) enum PoolCommand {
    /// Make a pool
    #[command(after_help = "Example:\n  onego pool create rbd 32")]
    Create {
        /// Its name
        name: String,
        /// How many placement groups it has [default: what the cluster thinks right]
        #[arg(default_value_t = 0, hide_default_value = true)]
        pg_num: u32,
    },
    /// Show the pools
    #[command(visible_alias = "list", after_help = "Example:\n  onego pool ls --format json")]
    Ls {
        /// How to print them
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Remove a pool and all that is in it
    #[command(
        visible_alias = "remove",
        after_help = "Example:\n  onego pool rm old --yes-i-really-really-mean-it"
    )]
    Rm {
        /// Its name
        name: String,
        /// Say that you mean it
        #[arg(long)]
        yes_i_really_really_mean_it: bool,
    },
}

pub(crate) fn run(access: &Access, command: PoolCommand) -> Result<(), Failure> {
    match command {
        PoolCommand::Create { name, pg_num } => access.with_cluster(async |cluster| {
            cluster.create_pool(&name, pg_num).await?;
            Ok(())
        }),
        PoolCommand::Ls { format } => access.with_cluster(async |cluster| {
            let pools = cluster.pools().await?;
            match format {
                Format::Plain => output::lines(pools.into_iter().map(|pool| pool.name)),
                Format::Json => {
                    let pool = |pool: &onego::rados::PoolInfo| {
                        json!({"id": pool.id, "name": pool.name, "size": pool.size, "pg_num": pool.groups})
                    };
                    output::json(&pools.iter().map(pool).collect())
                }
            }
        }),
        PoolCommand::Rm { name, yes_i_really_really_mean_it: false } => Err(Failure::Usage(format!(
            "removing pool {name} destroys all that is in it: say --yes-i-really-really-mean-it if you do"
        ))),
        PoolCommand::Rm { name, .. } => access.with_cluster(async |cluster| Ok(cluster.delete_pool(&name).await?)),
    }
}
