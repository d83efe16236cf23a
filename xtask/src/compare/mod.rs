//! Our figures beside a peer's and beside the floor, taken in one run on this machine.

mod block;
mod builds;
mod capi;
mod fio;
mod load;
mod metrics;
mod mode;
mod modes;
mod nfs;
mod options;
mod rbd;
mod rbd_features;
mod repeated;
mod report;
mod row;
mod subject;

use crate::cluster::Home;
use crate::packages;
use crate::program::{build_bare_nbd, find_onego};
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use options::What;
use serde::Serialize;
use std::fs;

pub(crate) use options::Options;

/// Measures everything, prints the tables and writes the rows.
pub(crate) fn run(options: &Options) -> Result<()> {
    packages::ensure()?;
    let workspace = Workspace::load()?;
    let onego = find_onego(&workspace, options.onego.as_deref())?;
    let home = Home::enter(&workspace)?;
    let lines = match options.what {
        What::Rbd => json(&rbd::compare(options, &home, &onego)?),
        What::RbdFeatures => json(&rbd_features::compare(options, &home, &onego)?),
        What::Modes => json(&modes::compare(options, &home, &onego)?),
        What::Block => {
            let bare = (!options.no_peers).then(|| build_bare_nbd(&workspace)).transpose()?;
            json(&block::compare(options, &home, &onego, bare.as_deref())?)
        }
        What::Capi => json(&capi::compare(options, &home, &onego)?),
        What::Metrics => json(&metrics::compare(options, &home, &onego)?),
        What::Nfs => json(&nfs::compare(options, &home, &onego)?),
    }?;
    if let Some(path) = &options.json {
        fs::write(path, lines).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// One object a line.
fn json<T: Serialize>(taken: &[T]) -> Result<String> {
    let lines: serde_json::Result<Vec<_>> = taken.iter().map(serde_json::to_string).collect();
    Ok(lines?.join("\n") + "\n")
}
