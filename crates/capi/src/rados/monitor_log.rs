//! Programs follow the cluster's log.

use super::cluster::Rados;
use super::log::{LogFollower, LogTold, Tell, TellMore};
use crate::border::{Errno, Handle, Opaque, Text, done};
use crate::runtime::{block_on, spawn};
use onego::rados::LogLevel;
use std::ffi::c_int;
use std::sync::{Arc, Mutex};

/// Sets a program's callback in place of the one before; `None` removes it.
fn monitor(cluster: Handle<Rados>, level: Text, told: Option<LogTold>, argument: Opaque) -> c_int {
    done(|| {
        let cluster = cluster.get()?;
        let client = cluster.client()?;
        let Some(told) = told else {
            cluster.follow_log(None);
            return Ok(());
        };
        let level = LogLevel::named(&level.text()?).ok_or(Errno::INVAL)?;
        let log = block_on(client.cluster().follow_log(level))?;
        let follower = Arc::new(LogFollower { log: Mutex::new(Some(log)), told, argument });
        cluster.follow_log(Some(Arc::clone(&follower)));
        spawn(follower.follow(client.callbacks()));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_monitor_log(
    cluster: Handle<Rados>,
    level: Text,
    tell: Option<Tell>,
    argument: Opaque,
) -> c_int {
    monitor(cluster, level, tell.map(LogTold::Short), argument)
}

#[unsafe(no_mangle)]
extern "C" fn rados_monitor_log2(
    cluster: Handle<Rados>,
    level: Text,
    tell: Option<TellMore>,
    argument: Opaque,
) -> c_int {
    monitor(cluster, level, tell.map(LogTold::Long), argument)
}
