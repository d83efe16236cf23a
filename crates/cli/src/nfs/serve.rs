//! `onego nfs serve`: a server of NFS.

use crate::access::Access;
use crate::failure::Failure;
use crate::listen::Listen;
use crate::metrics::MetricsOptions;
use crate::output::{self, Format};
use crate::process::{self, die_with_parent};
use crate::size;
use onego_bench::embedded::READY;
use onego_nfs_server::{Config, Export, Limits, Network, Rdma, Server, Source, Squash};
use serde_json::json;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

pub(crate) const EXAMPLES: &str = "\
Examples:
  onego nfs serve --mem
  onego nfs serve --mem --size 4G --listen 10.0.0.5 --allow 10.0.0.0/8 --squash root
  onego nfs serve /srv/data --read-only
  onego nfs serve /srv/data --handle-key /var/lib/onego-nfs.key
  onego nfs serve --mem --listen 127.0.0.1:0 --format json
  onego nfs serve --mem --rdma --inline 16K
  onego nfs serve --mem --listen 10.0.0.5 --rdma --rdma-device

Other programs use it, too; with a port that is not 2049 they need to be told, and there is no port mapper:
  mount -t nfs -o vers=3,proto=tcp,port=2049,mountport=2049,nolock 127.0.0.1:/export /mnt
  nfs-ls 'nfs://127.0.0.1/export?nfsport=2049&mountport=2049'

The rights of callers:
  Clients say which user makes a call, and nothing proves it (AUTH_SYS). So the owner of a host that is let in has the
  files of every user but root (and of root with --squash none). --allow says which hosts are let in; calls over TCP come
  from ports below 1024, which only root and the like have on a host, unless --insecure is given. Over RDMA ports say
  nothing, and kernels use any: with --rdma, a user of a host that is let in who learns the handle of a file can use it as
  any user, by iWARP in software (without --rdma-device) without privileges. Only MOUNT gives the first handle, and it
  takes a port below 1024 in any case.
  A server that runs as root has the system check each call with the rights of its caller, ACLs included. One that does
  not does everything as the user that it runs as, for all callers.

A line that starts with \"ready:\" says that it serves, and under which URL.";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The directory to serve
    #[arg(value_name = "DIR", required_unless_present = "mem")]
    dir: Option<PathBuf>,
    /// Serve an empty file system in memory instead, which is lost at the end
    #[arg(long, conflicts_with = "dir")]
    mem: bool,
    /// Where to listen; the port is that of NFS and MOUNT over TCP, 0: any, no port: 2049
    #[arg(long, value_name = "ADDRESS[:PORT]", default_value = "127.0.0.1")]
    listen: Listen,
    /// The port alone
    #[arg(long, value_name = "PORT", hide = true)]
    tcp: Option<u16>,
    /// Serve NFS over RDMA, too, by iWARP in software; 0: at any port
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "20049")]
    rdma: Option<u16>,
    /// Serve NFS over RDMA by the devices of this machine, and not by iWARP in software
    #[arg(long, requires = "rdma")]
    rdma_device: bool,
    /// Bytes of a message over RDMA, from 1K to 64K: what is longer goes by RDMA Reads and Writes
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = size::bytes)]
    inline: u64,
    /// Leave it to clients to end the registration of their memory
    #[arg(long)]
    no_remote_invalidation: bool,
    /// The path by which clients mount it
    #[arg(long, value_name = "PATH", default_value = "/export")]
    export: String,
    /// Keep the key of file handles in FILE, so that clients go on after the server was started anew; FILE is made
    #[arg(long, value_name = "FILE", conflicts_with = "mem")]
    handle_key: Option<PathBuf>,
    /// Bytes that the file system in memory takes
    #[arg(long, conflicts_with = "dir", value_name = "LIMIT", default_value = "1G", value_parser = size::some_bytes)]
    size: u64,
    /// Files that the file system in memory takes, its root included
    #[arg(long, conflicts_with = "dir", value_name = "COUNT", default_value_t = 1 << 20,
        value_parser = clap::value_parser!(u64).range(2..))]
    files: u64,
    /// Let nobody change anything
    #[arg(long)]
    read_only: bool,
    /// Reply before changes are durable, as async of exports(5): a crash of the machine loses them, also after a COMMIT
    #[arg(long = "async", requires = "dir")]
    asynchronous: bool,
    /// Hosts or networks that are let in [default: all that reach the address]
    #[arg(long, value_name = "NETWORK")]
    allow: Vec<Network>,
    /// Users who are not believed to be who they say, and are nobody: none, root or all [default: root for a directory,
    /// none in memory]
    #[arg(long, value_name = "USERS", value_parser = squash)]
    squash: Option<Squash>,
    /// Take calls from all ports, also from those that every user of a host may have
    #[arg(long)]
    insecure: bool,
    #[command(flatten)]
    metrics: MetricsOptions,
    /// How to say that it serves
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// End when the program that started this one ends
    #[arg(long, hide = true)]
    die_with_parent: bool,
}

/// The port of NFS (RFC 1813, section 2.2).
const NFS_PORT: u16 = 2049;

/// Reads which users are nobody.
fn squash(text: &str) -> Result<Squash, String> {
    match text {
        "none" => Ok(Squash::None),
        "root" => Ok(Squash::Root),
        "all" => Ok(Squash::All),
        _ => Err("it is none, root or all".to_owned()),
    }
}

pub(crate) fn run(access: &Access, options: Options) -> Result<(), Failure> {
    if options.die_with_parent {
        die_with_parent()?;
    }
    // Before anything is up, so that a signal finds somebody who listens.
    let signals = process::ending_signals()?;
    let listen = options.listen.with_default_port(options.tcp.unwrap_or(NFS_PORT));
    let devices = options.rdma_device.then(onego::nfs::rdma_devices).transpose()?;
    let rdma = options.rdma.map(|port| {
        let mut rdma = Rdma::new(SocketAddr::new(listen.ip(), port))
            .with_inline(u32::try_from(options.inline).unwrap_or(u32::MAX))
            .with_remote_invalidation(!options.no_remote_invalidation);
        rdma.devices = devices;
        rdma
    });
    // Anybody may say to be root, and in a directory of this machine that would count.
    let squash = if options.dir.is_some() { Squash::Root } else { Squash::None };
    let (what, source) = match options.dir {
        Some(dir) => {
            (dir.display().to_string(), Source::Directory { path: dir, handle_key: options.handle_key })
        }
        None => {
            let limits = Limits { bytes: options.size, files: options.files };
            (format!("{} of memory", size::human(options.size)), Source::Memory(limits))
        }
    };
    let squash = options.squash.unwrap_or(squash);
    if let Some(warning) = warning(listen.ip(), &options.allow, options.insecure, squash) {
        tracing::warn!("{warning}");
    }
    let export = Export::default()
        .with_path(&options.export)
        .with_read_only(options.read_only)
        .with_squash(squash)
        .with_allow(options.allow)
        .with_secure(!options.insecure)
        .with_sync(!options.asynchronous);
    let mut config = Config::default()
        .with_listen(listen)
        .with_export(export)
        .with_source(source)
        .with_engine(access.engine)
        .with_zero_copy(access.zero_copy()?)
        .with_spin(access.spin);
    config.rdma = rdma;
    config.slow = options.metrics.slow();
    let metrics = options.metrics.start()?;
    let server = Server::start(config)?;
    metrics.registry().add(server.figures());
    process::is_up();
    metrics.ready();
    let (addr, export) = (server.addr(), options.export);
    let url = format!("nfs://{addr}{export}");
    let over_rdma = server.rdma_addr().map(|addr| format!(", over RDMA at {addr}")).unwrap_or_default();
    match options.format {
        Format::Json => output::json(&json!({
            "url": url,
            "address": addr.ip().to_string(),
            "port": addr.port(),
            "rdma_port": server.rdma_addr().map(|addr| addr.port()),
            "export": export,
            "metrics": metrics.url(),
        }))?,
        Format::Plain => {
            let served = [format!("{export} at {addr}{over_rdma}: {what}")].into_iter().chain(metrics.line());
            output::lines(served.chain([format!("{READY} {url}")]))?;
        }
    }
    let failure = server.failure();
    process::serve((metrics.until_dropped(), server, metrics), failure, signals)
}

/// What users should know who serve files to more people than they may think of.
fn warning(listen: IpAddr, allow: &[Network], insecure: bool, squash: Squash) -> Option<String> {
    if !allow.is_empty() || listen.is_loopback() && !insecure {
        return None;
    }
    let who = match (listen.is_loopback(), insecure) {
        (true, _) => "every user of this machine".to_owned(),
        (false, true) => format!("everybody who reaches {listen}"),
        (false, false) => format!("everybody who is root on a host that reaches {listen}"),
    };
    let as_whom = match squash {
        Squash::None => "as any user, root included",
        Squash::Root => "as any user but root",
        Squash::All => "as nobody",
    };
    Some(format!(
        "{who} can use these files {as_whom}: clients prove nothing (--allow NETWORK lets in only some hosts)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_serves_everybody_is_told_who_that_is() {
        let warned = |listen: &str, allow: &[&str], insecure, squash| {
            let allow: Vec<Network> = allow.iter().map(|network| network.parse().unwrap()).collect();
            warning(listen.parse().unwrap(), &allow, insecure, squash)
        };
        assert_eq!(warned("127.0.0.1", &[], false, Squash::None), None);
        assert_eq!(warned("::1", &[], false, Squash::Root), None);
        assert_eq!(warned("0.0.0.0", &["10.0.0.0/8"], true, Squash::None), None);
        let said = warned("0.0.0.0", &[], false, Squash::Root).unwrap();
        assert!(said.starts_with(
            "everybody who is root on a host that reaches 0.0.0.0 can use these files as any user but root"
        ));
        let said = warned("127.0.0.1", &[], true, Squash::None).unwrap();
        assert!(
            said.starts_with("every user of this machine can use these files as any user, root included")
        );
    }
}
