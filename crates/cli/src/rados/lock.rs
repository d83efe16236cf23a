//! Advisory locks of objects.

use super::scope::{Scope, json};
use super::time::stamp;
use super::watch::legacy;
use crate::ceph::errno::{because_twice, failed, sentence};
use crate::failure::Failure;
use crate::output;
use onego::ceph::{EntityName, Errno};
use onego::rados::{LockKind, LockRequest, Pool};
use serde::Serialize;
use std::time::{Duration, SystemTime};

#[derive(clap::Args)]
pub(super) struct LockOptions {
    #[command(subcommand)]
    command: LockCommand,
}

#[derive(clap::Subcommand)]
enum LockCommand {
    /// Take a lock, or fail if it is held
    #[command(
        after_help = "Example:\n  onego rados -p rbd lock get door mine --lock-cookie key --lock-duration 60"
    )]
    Get {
        #[command(flatten)]
        lock: LockArg,
        #[command(flatten)]
        hold: HoldOptions,
        /// What others see of it
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        lock_description: String,
        /// Seconds until it is let go by itself; 0: never
        #[arg(long, value_name = "SECONDS", default_value = "0")]
        lock_duration: String,
        /// How it is held: exclusive or shared
        #[arg(long, value_name = "TYPE", default_value = "exclusive")]
        lock_type: String,
    },
    /// List an object's locks
    #[command(after_help = "Example:\n  onego rados -p rbd lock list door")]
    List {
        /// The object
        object: String,
    },
    /// Show a lock and its holders
    #[command(after_help = "Example:\n  onego rados -p rbd lock info door mine")]
    Info(LockArg),
    /// Take a lock away from a client
    #[command(
        after_help = "Example:\n  onego rados -p rbd lock break door mine client.4123 --lock-cookie key"
    )]
    Break {
        #[command(flatten)]
        lock: LockArg,
        /// The client, like client.4123
        holder: String,
        #[command(flatten)]
        hold: HoldOptions,
    },
}

#[derive(clap::Args)]
struct LockArg {
    /// The object
    object: String,
    /// The lock
    name: String,
}

#[derive(clap::Args)]
struct HoldOptions {
    /// The holder's own name for its hold
    #[arg(long, value_name = "COOKIE", default_value = "", hide_default_value = true)]
    lock_cookie: String,
    /// A tag on which all holders agree
    #[arg(long, value_name = "TAG", default_value = "", hide_default_value = true)]
    lock_tag: String,
}

/// An object's locks as JSON has them.
#[derive(Serialize)]
struct Locks<'a> {
    objname: &'a str,
    locks: Vec<LockName>,
}

#[derive(Serialize)]
struct LockName {
    name: String,
}

/// A lock as JSON has it.
#[derive(Serialize)]
struct LockShown<'a> {
    name: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    tag: String,
    lockers: Vec<Locker>,
}

#[derive(Serialize)]
struct Locker {
    name: String,
    cookie: String,
    description: String,
    expiration: String,
    addr: String,
}

pub(super) async fn run(pool: &Pool, scope: &Scope, options: &LockOptions) -> Result<(), Failure> {
    match &options.command {
        LockCommand::Get { lock, hold, lock_description, lock_duration, lock_type } => {
            let request = LockRequest {
                kind: match lock_type.as_str() {
                    "exclusive" => LockKind::Exclusive,
                    "shared" => LockKind::Shared,
                    _ => return Err(invalid("unknown lock type was specified, aborting")),
                },
                cookie: hold.lock_cookie.clone(),
                tag: hold.lock_tag.clone(),
                description: lock_description.clone(),
                duration: match lock_duration.parse::<u32>() {
                    Ok(seconds) => Duration::from_secs(seconds.into()),
                    Err(error) => return Err(invalid(&format!("Invalid value for lock-duration: {error}"))),
                },
            };
            pool.lock(&lock.object, &lock.name, request).await.map_err(because_twice("ERROR: failed locking"))
        }
        LockCommand::List { object } => {
            let names = pool.locks(object).await.map_err(because_twice("ERROR: rados_list_locks()"))?;
            let locks = names.into_iter().map(|name| LockName { name }).collect();
            output::bytes(json(&Locks { objname: object, locks }, scope.json_style()?).as_bytes())
        }
        LockCommand::Info(lock) => show(pool, scope, lock).await,
        LockCommand::Break { lock, holder, hold } => {
            let holder: EntityName = holder
                .parse()
                .map_err(|_| invalid(&format!("ERROR: failed to parse locker name ({holder})")))?;
            let broken = pool.break_lock(&lock.object, &lock.name, holder, &hold.lock_cookie).await;
            broken.map_err(because_twice("ERROR: failed breaking lock"))
        }
    }
}

async fn show(pool: &Pool, scope: &Scope, LockArg { object, name }: &LockArg) -> Result<(), Failure> {
    let info = pool.lock_info(object, name).await;
    let info = info.map_err(because_twice("ERROR: rados_lock_get_lock_info()"))?;
    let kind = match info.kind {
        None => "none",
        Some(LockKind::Exclusive) => "exclusive",
        Some(LockKind::Shared) => "shared",
        Some(_) => "exclusive-ephemeral",
    };
    let holder = |holder: onego::rados::LockHolder| Locker {
        name: holder.client.to_string(),
        cookie: holder.cookie,
        description: holder.description,
        expiration: stamp(holder.expires.unwrap_or(SystemTime::UNIX_EPOCH)),
        addr: legacy(&holder.addr),
    };
    let lockers = info.holders.into_iter().map(holder).collect();
    let shown = LockShown { name, kind, tag: info.tag, lockers };
    output::bytes(json(&shown, scope.json_style()?).as_bytes())
}

/// What makes no sense, and the line by which `rados` ends.
fn invalid(said: &str) -> Failure {
    let Errno(number) = Errno::INVAL;
    failed(format!("{said}\nerror {number}: {}", sentence(number)))
}
