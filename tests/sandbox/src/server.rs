//! Our servers, as the `onego` program starts them.

use crate::{ADDRESS, Daemon, Sandbox};
use anyhow::Result;
use std::fs;
use std::time::Duration;

/// Time a server gets to start on a busy machine. It takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// One of our servers in the background. Dropping it kills the process.
pub struct Server {
    daemon: Daemon,
}

impl Server {
    /// Starts a cluster with more arguments for `onego cluster start`.
    pub fn cluster(sandbox: &Sandbox, arguments: &str) -> Result<Self> {
        let line = format!("cluster start --listen {ADDRESS}:3300 --conf-dir . {arguments}");
        Self::start(sandbox, "cluster", &line)
    }

    /// Starts an NFS server with more arguments for `onego nfs serve`. It exports `/export`, all on port 2049.
    pub fn nfs(sandbox: &Sandbox, arguments: &str) -> Result<Self> {
        Self::start(sandbox, "nfs", &format!("nfs serve --listen {ADDRESS} {arguments}"))
    }

    /// Starts an NFS server for a new directory in which root may do everything.
    pub fn nfs_directory(sandbox: &Sandbox, name: &str) -> Result<Self> {
        fs::create_dir(sandbox.path(name))?;
        // The ports that a guest's clients use are not seen outside.
        Self::nfs(sandbox, &format!("{name} --squash none --insecure --rdma"))
    }

    /// Starts an NBD server with more arguments for `onego export nbd`.
    pub fn nbd(sandbox: &Sandbox, arguments: &str) -> Result<Self> {
        Self::start(sandbox, "nbd", &format!("{}export nbd {arguments}", conf(sandbox)))
    }

    /// Starts a server of a virtual machine's disk on the socket `disk.sock`.
    pub fn vhost_user(sandbox: &Sandbox, arguments: &str) -> Result<Self> {
        let line = format!("{}export vhost-user {arguments} --socket disk.sock", conf(sandbox));
        Self::start(sandbox, "vhost-user", &line)
    }

    /// Starts a line of `onego` and waits until it reports that it is ready.
    pub fn start(sandbox: &Sandbox, name: &str, line: &str) -> Result<Self> {
        let log = sandbox.path(format!("{name}.out"));
        // A line of an earlier server must not count.
        if log.exists() {
            fs::remove_file(&log)?;
        }
        let mut daemon = Daemon::spawn(&format!("onego {name}"), sandbox.onego_daemon(line), &log)?;
        let ready =
            || fs::read_to_string(&log).is_ok_and(|said| said.lines().any(|line| line.starts_with("ready:")));
        daemon.wait_until("line `ready:`", PATIENCE, ready)?;
        Ok(Self { daemon })
    }

    /// Ends the server with SIGTERM and waits for it.
    pub fn stop(self) -> Result<()> {
        self.daemon.stop()
    }

    /// Returns the server's process.
    pub fn daemon(&mut self) -> &mut Daemon {
        &mut self.daemon
    }
}

/// Returns the option that names the sandbox's cluster, if there is one.
fn conf(sandbox: &Sandbox) -> &'static str {
    if sandbox.path("ceph.conf").exists() { "-c ceph.conf " } else { "" }
}
