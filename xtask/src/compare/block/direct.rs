//! The same I/O on an image without a server of NBD, and a bare socket hop.

use super::load::NbdLoad;
use super::server::SIZE;
use crate::cluster::Stage;
use crate::compare::row::Row;
use crate::interop;
use anyhow::{Result, ensure};

/// `onego bench rbd` on the stage's cluster: our client's row, and that of bare sockets.
pub(super) fn measure(stage: &Stage, load: &NbdLoad, seconds: u32) -> Result<Vec<Row>> {
    stage.onego(&format!(
        "bench rbd --cluster ceph.conf --rw {} --block-size {} --io-depth {} --size {SIZE} --seconds {seconds} \
         --json rows.json",
        load.rw, load.block_size, load.io_depth
    ))?;
    let rows: Vec<Row> = interop::read_rows(&stage.path("rows.json"))?;
    ensure!(rows.iter().any(|row| !row.is_floor()), "`onego bench rbd` wrote no row of its own");
    Ok(rows)
}
