//! nfs-ganesha with its file system in memory: another server of NFS in userspace.

use super::process::Daemon;
use super::stage::{ADDRESS, Stage};
use crate::sh;
use anyhow::Result;
use std::env::consts::ARCH;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// How long it may take to come up. It takes three seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// What it exports, to clients with ports below 1024.
pub(crate) const EXPORT: &str = "/mem";

/// The most bytes of a file that its file system in memory remembers; it forgets the rest.
pub(crate) const FILE_MAX: u64 = 2 << 20;

/// nfs-ganesha, with the port mapper that it wants. Both are gone when this value goes.
pub(crate) struct Ganesha {
    server: Daemon,
    _port_mapper: Daemon,
}

impl Ganesha {
    /// Starts it on a stage, exporting an empty file system, with a bound on the bytes that it remembers of each file.
    pub(crate) fn start(stage: &Stage, remembered: u64) -> Result<Self> {
        // Both write below here, where the host's own may be.
        for place in ["/run", "/var/lib/nfs"] {
            sh::run(&mut stage.program(Path::new("mount"), &format!("-t tmpfs tmpfs {place}")))?;
        }
        sh::run(&mut stage.program(Path::new("mkdir"), "-p /run/rpcbind /run/ganesha /var/lib/nfs/ganesha"))?;
        let mapper = stage.program(Path::new("rpcbind"), "-w -f");
        let mut mapper = Daemon::spawn("rpcbind", mapper, &stage.path("rpcbind.out"))?;
        let port_open = |port: u16| {
            let line = format!("-c : < /dev/tcp/{ADDRESS}/{port}");
            let (option, script) = line.split_at(2);
            let mut command = stage.program(Path::new("bash"), option);
            succeeds(command.arg(script.trim_start()))
        };
        mapper.wait_until("an open port", PATIENCE, || port_open(111))?;
        fs::write(stage.path("ganesha.conf"), conf(remembered))?;
        let line = "-F -f ganesha.conf -L ganesha.log -p ganesha.pid";
        let server = stage.program(Path::new("ganesha.nfsd"), line);
        let mut server = Daemon::spawn("ganesha.nfsd", server, &stage.path("ganesha.out"))?;
        server.wait_until("an open port", PATIENCE, || port_open(2049))?;
        Ok(Self { server, _port_mapper: mapper })
    }

    /// The server's process, as those on the stage number it.
    pub(crate) fn pid_on_stage(&self) -> Result<u32> {
        self.server.pid_in_namespace()
    }
}

fn succeeds(command: &mut Command) -> bool {
    sh::output(command).is_ok_and(|output| output.status.success())
}

fn conf(remembered: u64) -> String {
    format!(
        "NFS_CORE_PARAM {{
    Protocols = 3;
    Enable_NLM = false;
    Enable_RQUOTA = false;
    Plugins_Dir = \"/usr/lib/{ARCH}-linux-gnu/ganesha\";
}}
MEM {{ Inode_Size = {remembered}; }}
EXPORT {{
    Export_Id = 1;
    Path = {EXPORT};
    Pseudo = {EXPORT};
    Access_Type = RW;
    Squash = No_Root_Squash;
    PrivilegedPort = true;
    SecType = sys, none;
    Protocols = 3;
    Transports = TCP;
    FSAL {{ Name = MEM; }}
}}
LOG {{ Default_Log_Level = WARN; }}
"
    )
}
