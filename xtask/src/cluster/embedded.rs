//! Our servers, as the `onego` program starts them.

use super::process::Daemon;
use super::stage::{ADDRESS, Stage};
use anyhow::Result;
use std::fs;
use std::time::Duration;

/// How long a server may take to come up on a busy machine. It takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server of ours in the background. It is gone when this value goes.
pub(crate) struct Embedded {
    server: Daemon,
}

impl Embedded {
    /// Starts a cluster with more arguments for `onego cluster start`.
    pub(crate) fn start(stage: &Stage, arguments: &str) -> Result<Self> {
        let line = format!("cluster start --listen {ADDRESS}:3300 --conf-dir . {arguments}");
        Self::start_line(stage, "cluster", &line)
    }

    /// Starts a server of NFS with more arguments for `onego nfs serve`: the export is `/export`, all is on port 2049.
    pub(crate) fn start_nfs(stage: &Stage, arguments: &str) -> Result<Self> {
        Self::start_line(stage, "nfs", &format!("nfs serve --listen {ADDRESS} {arguments}"))
    }

    /// Starts a server of NBD with options for `onego` itself and more arguments for `onego export nbd`.
    pub(crate) fn start_nbd(stage: &Stage, options: &str, arguments: &str) -> Result<Self> {
        Self::start_line(stage, "nbd", &format!("{options} export nbd {arguments}"))
    }

    /// Starts a server of a disk for a virtual machine, on the socket `disk.sock`.
    pub(crate) fn start_vhost_user(stage: &Stage, options: &str, arguments: &str) -> Result<Self> {
        let line = format!("{options} export vhost-user {arguments} --socket disk.sock");
        Self::start_line(stage, "vhost-user", &line)
    }

    /// Starts a server of NFS for a new directory of the stage, to which root may do everything. Guests come from any port:
    /// those that their clients take are not seen outside.
    pub(crate) fn start_nfs_directory(stage: &Stage, name: &str) -> Result<Self> {
        fs::create_dir(stage.path(name))?;
        Self::start_nfs(stage, &format!("{name} --squash none --insecure --rdma"))
    }

    fn start_line(stage: &Stage, name: &str, line: &str) -> Result<Self> {
        let log = stage.path(&format!("{name}.out"));
        // What an earlier server on the stage has said is not this one's word.
        if log.exists() {
            fs::remove_file(&log)?;
        }
        let mut server = Daemon::spawn(&format!("onego {name}"), stage.onego_daemon(line), &log)?;
        // It says so when it takes connections.
        let ready =
            || fs::read_to_string(&log).is_ok_and(|said| said.lines().any(|line| line.starts_with("ready:")));
        server.wait_until("its word that it is ready", PATIENCE, ready)?;
        Ok(Self { server })
    }

    /// Asks the server to end in order, and waits until it has.
    pub(crate) fn stop(self) -> Result<()> {
        self.server.stop()
    }

    /// The server's process.
    pub(crate) fn server(&mut self) -> &mut Daemon {
        &mut self.server
    }
}
