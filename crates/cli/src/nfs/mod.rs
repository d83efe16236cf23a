//! `onego nfs`: NFS version 3.

mod change;
mod copy;
mod serve;
mod show;

use crate::access::Access;
use crate::failure::Failure;

pub(crate) const URLS: &str = "\
Files are named by URLs: nfs://HOST[:PORT]/EXPORT/PATH[?OPTION=VALUE&...], with the options
  nfsport, mountport            ports, where no port mapper is to be asked
  rdma, rdmaport, inline        over RDMA, at that port, with messages of that many bytes
  rdma=device                   by a device of this machine, and not by iWARP in software
  nconnect                      connections
  rsize, wsize                  bytes of a READ and a WRITE
  uid, gid                      whose calls they are
  timeo, timeout                how long a call waits: tenths of a second, milliseconds
  resvport, noresvport          this side's port is below 1024, or never is; else it is where this
                                program may have such a port (root, CAP_NET_BIND_SERVICE), since
                                servers insist on it unless an export is \"insecure\"";

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Serve a file system in memory until interrupted; all of it is lost then
    #[command(after_help = serve::EXAMPLES)]
    Serve(serve::Options),
    /// Show the files of a directory
    #[command(
        visible_alias = "list",
        after_help = "Example:\n  onego nfs ls --long nfs://server/export/images"
    )]
    Ls(show::LsOptions),
    /// Write files to standard output
    #[command(after_help = "Example:\n  onego nfs cat nfs://server/export/notes.txt")]
    Cat(copy::CatOptions),
    /// Copy a file from a server, to one, or between two
    #[command(visible_alias = "get", after_help = copy::CP_EXAMPLES)]
    Cp(copy::CpOptions),
    /// Copy a file to a server
    #[command(after_help = "Example:\n  zcat disk.img.gz | onego nfs put - nfs://server/export/disk.img")]
    Put(copy::PutOptions),
    /// Show what is known of a file
    #[command(after_help = "Example:\n  onego nfs stat nfs://server/export/disk.img --format json")]
    Stat(show::StatOptions),
    /// Remove files
    #[command(
        visible_alias = "remove",
        after_help = "Example:\n  onego nfs rm --recursive nfs://server/export/old"
    )]
    Rm(change::RmOptions),
    /// Make directories
    #[command(after_help = "Example:\n  onego nfs mkdir --parents nfs://server/export/a/b/c")]
    Mkdir(change::MkdirOptions),
    /// Give a file another name or place
    #[command(visible_alias = "rename", after_help = "Example:\n  onego nfs mv nfs://server/export/a b/c")]
    Mv(change::MvOptions),
    /// Show how full a file system is
    #[command(after_help = "Example:\n  onego nfs df nfs://server/export")]
    Df(show::DfOptions),
}

pub(crate) fn run(access: &Access, command: Command) -> Result<(), Failure> {
    access.refuse_cluster("files of a server of NFS belong to no cluster")?;
    match command {
        Command::Serve(options) => serve::run(access, options),
        Command::Ls(options) => show::ls(access, &options),
        Command::Cat(options) => copy::cat(access, &options),
        Command::Cp(options) => copy::cp(access, &options),
        Command::Put(options) => copy::put(access, &options),
        Command::Stat(options) => show::stat(access, &options),
        Command::Rm(options) => change::rm(access, &options),
        Command::Mkdir(options) => change::mkdir(access, &options),
        Command::Mv(options) => change::mv(access, &options),
        Command::Df(options) => show::df(access, &options),
    }
}
