//! Our embedded cluster, as the `onego` program starts it.

use super::process::Daemon;
use super::stage::{ADDRESS, Stage};
use anyhow::Result;
use std::time::Duration;

/// How long the cluster may take to come up on a busy machine. It takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// `onego cluster start` in the background. It is gone when this value goes.
pub(crate) struct Embedded {
    server: Daemon,
}

impl Embedded {
    /// Starts a cluster with more arguments for `onego cluster start`.
    pub(crate) fn start(stage: &Stage, arguments: &str) -> Result<Self> {
        let line = format!("cluster start --listen {ADDRESS} --conf-dir . {arguments}");
        let mut server =
            Daemon::spawn("onego cluster", stage.onego_daemon(&line), &stage.path("cluster.out"))?;
        let conf = stage.path("ceph.conf");
        server.wait_until("a ceph.conf", PATIENCE, || conf.exists())?;
        Ok(Self { server })
    }

    /// The server's process.
    pub(crate) fn server(&mut self) -> &mut Daemon {
        &mut self.server
    }
}
