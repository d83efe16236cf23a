//! nfs-ganesha with its file system in memory: another NFS server in userspace.

use crate::{ADDRESS, Daemon, Sandbox, sh};
use anyhow::Result;
use std::env::consts::ARCH;
use std::time::Duration;

/// Time it gets to start. It takes three seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// nfs-ganesha with the port mapper that it requires. Dropping it kills both.
pub struct Ganesha {
    server: Daemon,
    _port_mapper: Daemon,
}

impl Ganesha {
    /// Export for clients with ports below 1024.
    pub const EXPORT: &str = "/mem";

    /// Most bytes of a file that its file system in memory can keep; it drops the rest.
    pub const FILE_MAX: u64 = 2 << 20;

    /// Starts it with an empty file system that keeps that many bytes of each file.
    pub fn start(sandbox: &Sandbox, kept: u64) -> Result<Self> {
        sandbox.tool("mkdir -p /run/rpcbind /run/ganesha /var/lib/nfs/ganesha")?;
        let port_is_open = |port: u16| {
            let mut command = sandbox.tool_daemon("bash -c");
            let probe = command.arg(format!(": < /dev/tcp/{ADDRESS}/{port}"));
            sh::output(probe).is_ok_and(|output| output.status.success())
        };
        let mapper = sandbox.tool_daemon("rpcbind -w -f");
        let mut mapper = Daemon::spawn("rpcbind", mapper, &sandbox.path("rpcbind.out"))?;
        mapper.wait_until("open port", PATIENCE, || port_is_open(111))?;
        sandbox.write("ganesha.conf", conf(kept))?;
        let line = "ganesha.nfsd -F -f ganesha.conf -L ganesha.log -p ganesha.pid";
        let mut server =
            Daemon::spawn("ganesha.nfsd", sandbox.tool_daemon(line), &sandbox.path("ganesha.out"))?;
        server.wait_until("open port", PATIENCE, || port_is_open(2049))?;
        Ok(Self { server, _port_mapper: mapper })
    }

    /// Returns the server's process.
    pub fn daemon(&self) -> &Daemon {
        &self.server
    }
}

fn conf(kept: u64) -> String {
    let export = Ganesha::EXPORT;
    format!(
        "NFS_CORE_PARAM {{
    Protocols = 3;
    Enable_NLM = false;
    Enable_RQUOTA = false;
    Plugins_Dir = \"/usr/lib/{ARCH}-linux-gnu/ganesha\";
}}
MEM {{ Inode_Size = {kept}; }}
EXPORT {{
    Export_Id = 1;
    Path = {export};
    Pseudo = {export};
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
