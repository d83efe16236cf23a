//! Commands that make and remove snapshots of pools.

use crate::mon::command::call::{Call, CommandOutcome, Reply};
use crate::mon::monitor::Mon;

pub(crate) fn make(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (pool, snap) = (call.text("pool"), call.text("snap"));
    let id = mon.find_pool(pool)?;
    let is_there = mon.find_pool_snap(id, snap).is_some();
    mon.create_pool_snap(call.now, id, snap)?;
    Ok(Reply::done(match is_there {
        true => format!("pool {pool} snap {snap} already exists"),
        false => format!("created pool {pool} snap {snap}"),
    }))
}

pub(crate) fn remove(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let (pool, snap) = (call.text("pool"), call.text("snap"));
    let id = mon.find_pool(pool)?;
    let was_there = mon.find_pool_snap(id, snap).is_some();
    mon.delete_pool_snap(call.now, id, snap)?;
    Ok(Reply::done(match was_there {
        true => format!("removed pool {pool} snap {snap}"),
        false => format!("pool {pool} snap {snap} does not exist"),
    }))
}
