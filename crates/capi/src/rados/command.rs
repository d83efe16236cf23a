//! Commands to the cluster, and what is asked of its monitors.

use super::cluster::Rados;
use super::daemons::at_monitor;
use super::pool::quoted;
use crate::border::{Errno, Handle, In, Out, Text, call, copied, done};
use crate::runtime::block_on;
use onego::rados::CommandReply;
use onego_buf::List;
use onego_ceph::osdmap::OsdMap;
use onego_ceph::types::PgId;
use onego_wire::text::to_bytes;
use std::ffi::{c_char, c_int};

/// Where the two outputs of a command go.
struct Outputs {
    output: Out<*mut c_char>,
    output_len: Out<usize>,
    status: Out<*mut c_char>,
    status_len: Out<usize>,
}

impl Outputs {
    /// Gives the program copies that it frees. What is empty is null.
    fn give(&self, reply: &CommandReply) -> Result<(), Errno> {
        let give = |bytes: &[u8], out: Out<*mut c_char>, len: Out<usize>| {
            out.set_if_wanted(if bytes.is_empty() { std::ptr::null_mut() } else { copied(bytes)? });
            len.set_if_wanted(bytes.len());
            Ok(())
        };
        give(&reply.output, self.output, self.output_len)?;
        give(&to_bytes(&reply.status), self.status, self.status_len)
    }
}

/// What a program gives a daemon: one command, and its input.
struct Given {
    commands: (In<Text>, usize),
    input: (In<u8>, usize),
}

impl Given {
    /// Has it carried out by `ask`, and gives the program what comes of it.
    fn run(
        &self,
        outputs: &Outputs,
        ask: impl FnOnce(&str, List) -> Result<CommandReply, Errno>,
    ) -> Result<c_int, Errno> {
        let (commands, count) = self.commands;
        let [command] = commands.slice(count)? else { return Err(Errno::INVAL) };
        let (input, input_len) = self.input;
        let reply = ask(&command.text()?, input.slice(input_len)?.into())?;
        outputs.give(&reply)?;
        Ok(reply.result)
    }
}

/// Gives the monitors a command. They pass those on that are a manager's.
fn to_monitors(cluster: Handle<Rados>, given: &Given, outputs: &Outputs) -> c_int {
    call(|| {
        let client = cluster.get()?.client()?;
        given.run(outputs, |json, input| Ok(block_on(client.cluster().command_reply(json, input))?))
    })
}

/// Gives one monitor itself a command.
fn to_monitor(cluster: Handle<Rados>, monitor: Text, given: &Given, outputs: &Outputs) -> c_int {
    call(|| {
        let rados = cluster.get()?;
        rados.client()?;
        given.run(outputs, |json, input| {
            at_monitor(rados, &monitor.text()?, async |alone| alone.monitor_command_reply(json, input).await)
        })
    })
}

/// Gives an OSD itself a command.
fn to_osd(
    cluster: Handle<Rados>,
    osd: impl FnOnce(&OsdMap) -> Result<i32, Errno>,
    given: &Given,
    outputs: &Outputs,
) -> c_int {
    call(|| {
        let client = cluster.get()?.client()?;
        let osd = osd(&*block_on(client.cluster().osd_map())?)?;
        given.run(outputs, |json, input| Ok(block_on(client.cluster().osd_command_reply(osd, json, input))?))
    })
}

/// The OSD that serves a placement group, which is named as in `1.2f`.
fn primary(map: &OsdMap, group: &str) -> Result<i32, Errno> {
    let (pool, seed) = group.split_once('.').ok_or(Errno::INVAL)?;
    let pool: i64 = pool.parse().map_err(|_| Errno::INVAL)?;
    let seed = u32::from_str_radix(seed, 16).map_err(|_| Errno::INVAL)?;
    let known = map.pools.get(&pool).ok_or(Errno::NOENT)?;
    if seed >= known.pg_num {
        return Err(Errno::NOENT);
    }
    match map.place(PgId { pool, seed }).acting_primary {
        osd if osd < 0 => Err(Errno::NXIO),
        osd => Ok(osd),
    }
}

/// Functions that take a command and give two outputs, to a daemon that some name; `$how` carries them out.
macro_rules! commands {
    ($($function:ident($($who:ident: $type:ty)?) |$cluster:ident, $given:ident, $outputs:ident| $how:expr;)*) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $function(
            $cluster: Handle<Rados>,
            $($who: $type,)?
            commands: In<Text>,
            count: usize,
            input: In<u8>,
            input_len: usize,
            output: Out<*mut c_char>,
            output_len: Out<usize>,
            status: Out<*mut c_char>,
            status_len: Out<usize>,
        ) -> c_int {
            let $given = &Given { commands: (commands, count), input: (input, input_len) };
            let $outputs = &Outputs { output, output_len, status, status_len };
            $how
        }
    )* };
}

commands! {
    rados_mon_command() |cluster, given, outputs| to_monitors(cluster, given, outputs);
    rados_mon_command_target(monitor: Text) |cluster, given, outputs| {
        to_monitor(cluster, monitor, given, outputs)
    };
    rados_mgr_command() |cluster, given, outputs| to_monitors(cluster, given, outputs);
    rados_mgr_command_target(_manager: Text) |cluster, given, outputs| to_monitors(cluster, given, outputs);
    rados_osd_command(osd: c_int) |cluster, given, outputs| to_osd(cluster, |_| Ok(osd), given, outputs);
    rados_pg_command(group: Text) |cluster, given, outputs| {
        to_osd(cluster, |map| primary(map, &group.text()?), given, outputs)
    };
}

fn block(cluster: Handle<Rados>, addr: Text, seconds: u32) -> c_int {
    done(|| {
        let addr = quoted(&addr.text()?);
        let expires = if seconds == 0 { String::new() } else { format!(",\"expire\":{seconds}.0") };
        let json =
            format!("{{\"prefix\":\"osd blocklist\",\"blocklistop\":\"add\",\"addr\":{addr}{expires}}}");
        let client = cluster.get()?.client()?;
        let reply = block_on(client.cluster().command_reply(&json, List::new()))?;
        Errno::check(reply.result)?;
        block_on(client.cluster().newest_osd_map())?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_blocklist_add(cluster: Handle<Rados>, addr: Text, seconds: u32) -> c_int {
    block(cluster, addr, seconds)
}

#[unsafe(no_mangle)]
extern "C" fn rados_blacklist_add(cluster: Handle<Rados>, addr: Text, seconds: u32) -> c_int {
    block(cluster, addr, seconds)
}

#[unsafe(no_mangle)]
extern "C" fn rados_get_instance_id(cluster: Handle<Rados>) -> u64 {
    call(|| Ok(block_on(cluster.get()?.client()?.cluster().global_id())?))
}

/// Managers show services that report to them. This client has no session with a manager, so it is shown nowhere.
#[unsafe(no_mangle)]
extern "C" fn rados_service_register(
    cluster: Handle<Rados>,
    service: Text,
    daemon: Text,
    _metadata: In<u8>,
) -> c_int {
    done(|| {
        let (service, daemon) = (service.text()?, daemon.text()?);
        let is_own = ["mon", "mgr", "osd", "mds", "client"].contains(&&*service);
        if is_own || service.is_empty() || daemon.is_empty() {
            return Err(Errno::INVAL);
        }
        cluster.get()?.register_service()
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_service_update_status(cluster: Handle<Rados>, _status: In<u8>) -> c_int {
    done(|| cluster.get().map(drop))
}
