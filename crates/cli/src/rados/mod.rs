//! `onego rados`: objects in pools, with the names, options, output and exit codes of Ceph's `rados`.
//!
//! Sources: what `rados` of Ceph 16.2 and 18.2 prints, and ceph `doc/man/8/rados.rst`.

mod arguments;
mod attributes;
mod bench;
mod df;
mod hexdump;
mod listing;
mod lock;
mod objects;
mod omap;
mod scope;
mod time;
mod transfer;
mod watch;
mod window;

use crate::access::Access;
use crate::ceph::errno::failed;
use crate::failure::Failure;
use onego::rados::Cluster;
use scope::Scope;

/// Options and commands of `onego rados`.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    scope: Scope,
    #[command(subcommand)]
    command: RadosCommand,
}

#[derive(clap::Subcommand)]
enum RadosCommand {
    /// List the pools
    #[command(after_help = "Example:\n  onego rados lspools")]
    Lspools,
    /// Show how full pools are, and what was done with them
    #[command(after_help = "Example:\n  onego rados df --format json")]
    Df,
    /// List the objects of a pool
    #[command(after_help = "Examples:\n  onego rados -p rbd ls\n  onego rados -p rbd ls --all --format json")]
    Ls(listing::LsOptions),
    /// Write an object's bytes to a file
    #[command(
        after_help = "Examples:\n  onego rados -p rbd get greeting file\n  onego rados -p rbd get greeting -"
    )]
    Get(transfer::GetOptions),
    /// Make an object of a file
    #[command(
        after_help = "Examples:\n  onego rados -p rbd put greeting file\n  echo hello | onego rados -p rbd put greeting -"
    )]
    Put(transfer::PutOptions),
    /// Write a file behind an object's end
    #[command(after_help = "Example:\n  onego rados -p rbd append greeting file")]
    Append(transfer::AppendOptions),
    /// Cut an object, or extend it with zeros
    #[command(after_help = "Example:\n  onego rados -p rbd truncate greeting 5")]
    Truncate(objects::TruncateOptions),
    /// Make an empty object, which must be new
    #[command(after_help = "Example:\n  onego rados -p rbd create greeting")]
    Create(arguments::ObjectArg),
    /// Remove objects
    #[command(after_help = "Example:\n  onego rados -p rbd rm greeting farewell")]
    Rm(objects::RmOptions),
    /// Copy an object with all that belongs to it
    #[command(
        after_help = "Examples:\n  onego rados -p rbd cp greeting farewell\n  onego rados -p rbd cp greeting --target-pool archive"
    )]
    Cp(objects::CpOptions),
    /// Show size and age of an object
    #[command(after_help = "Example:\n  onego rados -p rbd stat greeting")]
    Stat(arguments::ObjectArg),
    /// The same with parts of seconds
    #[command(after_help = "Example:\n  onego rados -p rbd stat2 greeting")]
    Stat2(arguments::ObjectArg),
    /// Set the age of an object, which is made if it is not there
    #[command(after_help = "Example:\n  onego rados -p rbd touch greeting 1700000000")]
    Touch(objects::TouchOptions),
    /// List extended attributes
    #[command(after_help = "Example:\n  onego rados -p rbd listxattr greeting")]
    Listxattr(arguments::ObjectArg),
    /// Print an extended attribute
    #[command(after_help = "Example:\n  onego rados -p rbd getxattr greeting colour")]
    Getxattr(attributes::NameArg),
    /// Set an extended attribute
    #[command(
        after_help = "Examples:\n  onego rados -p rbd setxattr greeting colour green\n  onego rados -p rbd setxattr greeting colour < file"
    )]
    Setxattr(attributes::SetOptions),
    /// Remove an extended attribute
    #[command(after_help = "Example:\n  onego rados -p rbd rmxattr greeting colour")]
    Rmxattr(attributes::NameArg),
    /// List the keys of an object's map
    #[command(after_help = "Example:\n  onego rados -p rbd listomapkeys greeting")]
    Listomapkeys(arguments::ObjectArg),
    /// List the keys of an object's map with their values
    #[command(after_help = "Example:\n  onego rados -p rbd listomapvals greeting")]
    Listomapvals(arguments::ObjectArg),
    /// Show a value of an object's map
    #[command(after_help = "Example:\n  onego rados -p rbd getomapval greeting key")]
    Getomapval(omap::GetOptions),
    /// Set a value of an object's map
    #[command(after_help = "Example:\n  onego rados -p rbd setomapval greeting key value")]
    Setomapval(omap::SetOptions),
    /// Remove a key from an object's map
    #[command(after_help = "Example:\n  onego rados -p rbd rmomapkey greeting key")]
    Rmomapkey(omap::KeyArg),
    /// Empty the maps of objects
    #[command(after_help = "Example:\n  onego rados -p rbd clearomap greeting")]
    Clearomap(arguments::ObjectsArg),
    /// Show the header of an object's map
    #[command(after_help = "Example:\n  onego rados -p rbd getomapheader greeting")]
    Getomapheader(omap::GetHeaderOptions),
    /// Set the header of an object's map
    #[command(after_help = "Example:\n  onego rados -p rbd setomapheader greeting text")]
    Setomapheader(omap::SetHeaderOptions),
    /// Show notifications of an object until a line is read
    #[command(after_help = "Example:\n  onego rados -p rbd watch bell")]
    Watch(arguments::ObjectArg),
    /// Notify an object's watchers, and show their answers
    #[command(after_help = "Example:\n  onego rados -p rbd notify bell hello")]
    Notify(watch::NotifyOptions),
    /// List an object's watchers
    #[command(after_help = "Example:\n  onego rados -p rbd listwatchers bell")]
    Listwatchers(arguments::ObjectArg),
    /// Measure writes and reads of objects
    #[command(
        after_help = "Examples:\n  onego rados -p rbd bench 10 write -b 64K -t 32 --no-cleanup\n  onego rados -p rbd bench 10 rand\n  onego rados -p rbd cleanup"
    )]
    Bench(bench::BenchOptions),
    /// Remove what a benchmark has left
    #[command(after_help = "Example:\n  onego rados -p rbd cleanup")]
    Cleanup(bench::CleanupOptions),
    /// Advisory locks of objects
    Lock(lock::LockOptions),
}

pub(crate) fn run(access: &Access, options: &Options) -> Result<(), Failure> {
    // What makes no sense is said before anybody is asked.
    options.scope.style()?;
    options.scope.op_size()?;
    let result =
        access.with_cluster(async |cluster| dispatch(cluster, &options.scope, &options.command).await);
    result.map_err(in_words_of_ceph)
}

/// What is no failure of a command has code 1, too, as every failure of `rados`.
fn in_words_of_ceph(failure: Failure) -> Failure {
    match failure {
        failure @ (Failure::AsCeph { .. } | Failure::Interrupted | Failure::Output(_)) => failure,
        other => failed(format!("rados: {}", other.sentence())),
    }
}

async fn dispatch(cluster: &Cluster, scope: &Scope, command: &RadosCommand) -> Result<(), Failure> {
    use RadosCommand as C;
    match command {
        C::Lspools => return listing::pools(cluster).await,
        C::Df => return df::show(cluster, scope).await,
        C::Ls(options) => return listing::objects(cluster, scope, options).await,
        _ => {}
    }
    let pool = &scope.open_pool(cluster).await?;
    match command {
        C::Lspools | C::Df | C::Ls(_) => Ok(()),
        C::Get(options) => transfer::get(pool, scope, options).await,
        C::Put(options) => transfer::put(pool, scope, options).await,
        C::Append(options) => transfer::append(pool, scope, options).await,
        C::Truncate(options) => objects::truncate(pool, options).await,
        C::Create(object) => objects::create(pool, object).await,
        C::Rm(options) => objects::remove(pool, options).await,
        C::Cp(options) => objects::copy(pool, scope, options).await,
        C::Stat(object) => objects::stat(pool, object, false).await,
        C::Stat2(object) => objects::stat(pool, object, true).await,
        C::Touch(options) => objects::touch(pool, options).await,
        C::Listxattr(object) => attributes::list(pool, object).await,
        C::Getxattr(options) => attributes::get(pool, options).await,
        C::Setxattr(options) => attributes::set(pool, options).await,
        C::Rmxattr(options) => attributes::remove(pool, options).await,
        C::Listomapkeys(object) => omap::list_keys(pool, object).await,
        C::Listomapvals(object) => omap::list_values(pool, object).await,
        C::Getomapval(options) => omap::get(pool, options).await,
        C::Setomapval(options) => omap::set(pool, options).await,
        C::Rmomapkey(options) => omap::remove(pool, options).await,
        C::Clearomap(objects) => omap::clear(pool, objects).await,
        C::Getomapheader(options) => omap::get_header(pool, options).await,
        C::Setomapheader(options) => omap::set_header(pool, options).await,
        C::Watch(object) => watch::watch(pool, object).await,
        C::Notify(options) => watch::notify(pool, options).await,
        C::Listwatchers(object) => watch::list(pool, object).await,
        C::Bench(options) => bench::bench(pool, scope, options).await,
        C::Cleanup(options) => bench::cleanup(pool, options).await,
        C::Lock(options) => lock::run(pool, scope, options).await,
    }
}
