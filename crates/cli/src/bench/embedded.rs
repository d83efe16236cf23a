//! The embedded cluster that is measured.

use crate::access::Access;
use crate::failure::Failure;
use crate::interrupt::Unfinished;
use crate::process::this_program;
use onego::ceph::Config;
use onego_bench::embedded::EmbeddedCluster;
use std::fs;
use std::path::Path;

/// A cluster in a process of its own, with room for an image of `image` bytes.
pub(crate) fn start_embedded(
    access: &Access,
    image: u64,
    null_writes: bool,
) -> Result<(EmbeddedCluster, Unfinished), Failure> {
    // Objects are not as tight as their data, and for a moment an old and a new state of a block are there.
    let memory = image.saturating_mul(2).saturating_add(256 << 20).to_string();
    // Connections are encrypted with a key of their own, which only cephx gives them.
    let auth = if access.wants_secure() { "cephx" } else { "none" };
    let mut options = ["--memory", &memory, "--auth", auth].map(str::to_owned).to_vec();
    options.extend(access.movement());
    // It says so in its ceph.conf, by which its clients compress, too.
    options.extend(access.compression_options());
    if null_writes {
        options.push("--null-writes".to_owned());
    }
    let cluster = EmbeddedCluster::start(&this_program()?, &options)?;
    let directory = cluster.conf().parent().map(Path::to_owned);
    let clear = Unfinished::new(move || {
        // It is a temporary one: what does not go now goes with all such.
        drop(directory.map(fs::remove_dir_all));
        None
    });
    Ok((cluster, clear))
}

/// Makes the pool, unless the cluster has it.
pub(crate) fn make_pool(config: &Config, name: &str) -> Result<(), Failure> {
    let (mut reactor, cluster) = onego::ceph::Reactor::new(config)?;
    reactor.block_on(async {
        cluster.ready().await?;
        match cluster.create_pool(name, 0).await {
            Err(onego::ceph::Error::Exists { .. }) => Ok(()),
            other => other.map(drop),
        }
    })??;
    Ok(())
}
