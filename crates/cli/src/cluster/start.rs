//! `onego cluster start`: a cluster that serves until a signal comes.

use super::ClusterOptions;
use super::conf_dir::ConfDir;
use crate::access::Access;
use crate::background::{self, Started};
use crate::failure::Failure;
use crate::interrupt;
use crate::metrics::Metrics;
use crate::output::{self, Format};
use crate::process::{self, die_with_parent};
use crate::size;
use onego::ceph::Versions;
use onego_bench::embedded::READY;
use onego_cluster::{Cluster, Config, KEYRING, Lifetimes, MAX_OSDS, NewPool};
use serde_json::json;
use std::ffi::OsString;
use std::fs::File;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Name of the file with the messages of a detached cluster, next to its `ceph.conf`.
const LOG_FILE: &str = "cluster.log";

#[derive(clap::Args)]
pub(crate) struct StartOptions {
    #[command(flatten)]
    cluster: ClusterOptions,
    /// Run in the background: return once the cluster serves
    #[arg(long)]
    detach: bool,
    /// How to say that it serves
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// End when the program that started this one ends
    #[arg(long, hide = true)]
    die_with_parent: bool,
    /// Leave the terminal, and the process that started this one once the cluster serves
    #[arg(long, hide = true)]
    detached: bool,
}

pub(super) fn run(access: &Access, options: StartOptions) -> Result<(), Failure> {
    if options.detach && !options.detached {
        return detach();
    }
    if options.die_with_parent {
        die_with_parent()?;
    }
    if options.detached {
        background::leave_terminal()?;
    }
    // Before anything is up, so that no signal is lost.
    let signals = process::ending_signals()?;
    let listen = options.cluster.listen.ip;
    let serving = Serving::start(access, options.cluster)?;
    process::is_up();
    if let Some(warning) = warning(listen, serving.cluster.keyring().is_some()) {
        interrupt::say(&warning);
    }
    if options.detached {
        let log = serving.dir.path().join(LOG_FILE);
        File::options().create(true).append(true).open(&log).map_err(Failure::file(&log))?;
        background::detach(&log)?;
    }
    announce(&serving, options.format)?;
    if options.detached {
        background::end_output()?;
    }
    let Serving { cluster, failure, metrics, dir, .. } = serving;
    process::serve((metrics.until_dropped(), cluster, metrics, dir), failure, signals)
}

/// Starts this program once more in the background, and prints what it says of the cluster that serves.
fn detach() -> Result<(), Failure> {
    let arguments = std::env::args_os().skip(1).filter(|argument| argument != "--detach");
    match background::start(arguments.chain([OsString::from("--detached")]), None)? {
        Started::Said(said) => output::lines([said]),
        // It has said why.
        Started::Failed(code) => std::process::exit(code),
    }
}

/// A cluster that serves, and its files.
pub(super) struct Serving {
    pub(super) cluster: Cluster,
    failure: Option<Receiver<onego_cluster::Error>>,
    metrics: Metrics,
    pub(super) conf: PathBuf,
    /// Last: it is free once the cluster has ended.
    dir: ConfDir,
}

impl Serving {
    pub(super) fn start(access: &Access, options: ClusterOptions) -> Result<Self, Failure> {
        let osds = options.osds.unwrap_or(if options.data.is_some() { MAX_OSDS } else { 1 });
        if options.pool_size.is_some_and(|size| !(1..=osds).contains(&size)) {
            return Err(Failure::Usage(format!(
                "--pool-size must be from 1 to the number of OSDs, which is {osds}"
            )));
        }
        // Whether there are keys in a data directory is not known yet.
        let auth = options.auth.as_deref().or(options.data.is_none().then_some("none"));
        if options.secure_only && (auth == Some("none") || access.messenger != Versions::Two) {
            return Err(Failure::Usage("--secure-only wants --auth cephx --messenger v2".into()));
        }
        let ticket_lifetimes = options.auth_ticket_lifetime.map_or_else(Lifetimes::default, |seconds| {
            let lifetime = Duration::from_secs(seconds.into());
            Lifetimes { monitor: lifetime, service: lifetime }
        });
        access.refuse_cluster("a cluster that is started reads no configuration")?;
        let data = options.data.as_deref().map(std::path::absolute).transpose();
        let data = data.map_err(Failure::io("finding the working directory"))?;
        let mut dir = ConfDir::open(options.conf_dir.or(data.clone()), data.is_some())?;
        let metrics = options.metrics.start()?;
        let mut config = Config::default()
            .with_listen(options.listen.ip)
            .with_versions(access.messenger)
            .with_mon_port(options.listen.with_default_port(0).port())
            .with_null_writes(options.null_writes)
            .with_ticket_lifetimes(ticket_lifetimes)
            .with_secure_only(options.secure_only)
            .with_pools(vec![NewPool { size: options.pool_size, ..NewPool::for_images("rbd") }])
            .with_engine(access.engine)
            .with_zero_copy(access.zero_copy()?)
            .with_spin(access.spin);
        config.memory_limit = options.memory;
        config.cephx = options.auth.map(|method| method == "cephx");
        config.data = data;
        config.compression = access.compression()?;
        config.osds = options.osds;
        let cluster = Cluster::start(config)?;
        let conf = dir.write(&cluster)?;
        metrics.registry().add(cluster.figures());
        metrics.ready();
        let failure = cluster.failure();
        Ok(Self { cluster, failure, metrics, conf, dir })
    }

    /// Fails if the cluster has.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match self.failure.as_ref().and_then(|failure| failure.try_recv().ok()) {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}

/// Says that the cluster serves, where, and how to stop it.
fn announce(serving: &Serving, format: Format) -> Result<(), Failure> {
    let Serving { cluster, conf, metrics, dir, .. } = serving;
    let osds: Vec<String> = cluster.osd_addrs().iter().map(ToString::to_string).collect();
    if format == Format::Json {
        return output::json(&json!({
            "fsid": cluster.fsid().to_string(),
            "monitor": cluster.mon_addr().to_string(),
            "osds": osds,
            "conf": conf,
            "keyring": cluster.keyring().map(|_| conf.with_file_name(KEYRING)),
            "metrics": metrics.url(),
            "pid": std::process::id(),
        }));
    }
    let conf = conf.display();
    if let Some(old) = cluster.old_mon_addr() {
        output::lines([format!(
            "the monitor was at {old} before: users of an older ceph.conf need this one (--listen ADDRESS:PORT keeps it)"
        )])?;
    }
    output::lines([
        format!("cluster {}", cluster.fsid()),
        format!(
            "monitor {}, OSD {}, {} of memory{}",
            cluster.mon_addr(),
            osds.join(" "),
            size::human(cluster.memory_limit()),
            if osds.len() > 1 { " each" } else { "" }
        ),
        format!("try:  ceph -c {conf} -s"),
        format!("      onego -c {conf} rbd create disk --size 10G"),
        format!("stop: onego cluster stop --conf-dir {}", dir.path().display()),
    ])?;
    output::lines(metrics.line().into_iter().chain([format!("{READY} {conf}")]))
}

/// Warns where users may do more than people may think.
fn warning(listen: IpAddr, needs_key: bool) -> Option<String> {
    (!needs_key && !listen.is_loopback()).then(|| {
        format!(
            "warning: everybody who reaches {listen} may read, change and delete all data, and stop OSDs: --auth cephx lets \
             in only those who have the key"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_lets_everybody_in_warns() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        for (listen, needs_key, warned) in [
            ("10.0.0.5", false, true),
            ("10.0.0.5", true, false),
            ("127.0.0.1", false, false),
            ("::1", false, false),
        ] {
            let said = warning(address(listen), needs_key);
            assert_eq!(said.is_some(), warned, "{listen}: {said:?}");
            assert!(said.is_none_or(|said| said.contains(listen) && said.contains("--auth cephx")));
        }
    }
}
