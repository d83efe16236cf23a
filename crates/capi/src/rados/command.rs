//! Commands to the cluster, and what is asked of its monitors.

use super::cluster::Rados;
use super::pool::quoted;
use crate::border::{Errno, Handle, In, Out, Text, call, copied, done};
use crate::missing;
use crate::runtime::block_on;
use onego::rados::CommandReply;
use onego_buf::List;
use std::ffi::{c_char, c_int};
use std::sync::atomic::AtomicBool;

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
        give(reply.status.as_bytes(), self.status, self.status_len)
    }
}

/// Gives the monitors a command. They pass those on that are a manager's.
fn command(
    cluster: Handle<Rados>,
    (commands, count): (In<Text>, usize),
    (input, input_len): (In<u8>, usize),
    outputs: &Outputs,
) -> c_int {
    call(|| {
        let [command] = commands.slice(count)? else { return Err(Errno::INVAL) };
        let (command, input) = (command.text()?, input.slice(input_len)?);
        let reply = block_on(cluster.get()?.client()?.cluster().command_reply(&command, input.into()))?;
        outputs.give(&reply)?;
        Ok(reply.result)
    })
}

/// Commands to OSDs take a session with each, which this client has for objects alone.
fn unsupported(name: &str, outputs: &Outputs) -> c_int {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    missing::say(name, &IS_SAID);
    done(|| {
        outputs.give(&CommandReply { result: 0, status: String::new(), output: Vec::new() })?;
        Err(Errno::NOTSUP)
    })
}

/// Functions that take a command and give two outputs, to a daemon that some name; `$how` carries them out.
macro_rules! commands {
    (|$cluster:ident, $name:ident, $commands:ident, $input:ident, $outputs:ident| $how:expr =>
     $($function:ident($($who:ident: $type:ty)?);)*) => { $(
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
            $(let _: $type = $who;)?
            let ($name, $commands, $input) = (stringify!($function), (commands, count), (input, input_len));
            let $outputs = Outputs { output, output_len, status, status_len };
            $how
        }
    )* };
}

commands! {
    |cluster, _name, commands, input, outputs| command(cluster, commands, input, &outputs) =>
    rados_mon_command();
    rados_mon_command_target(_monitor: Text);
    rados_mgr_command();
    rados_mgr_command_target(_manager: Text);
}

commands! {
    |_cluster, name, _commands, _input, outputs| unsupported(name, &outputs) =>
    rados_osd_command(_osd: c_int);
    rados_pg_command(_group: Text);
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
    _service: Text,
    _daemon: Text,
    _metadata: In<u8>,
) -> c_int {
    done(|| cluster.get().map(drop))
}

#[unsafe(no_mangle)]
extern "C" fn rados_service_update_status(cluster: Handle<Rados>, _status: In<u8>) -> c_int {
    done(|| cluster.get().map(drop))
}
