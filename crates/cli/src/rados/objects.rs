//! Objects as wholes: made, removed, copied, and what is known of them.

use super::arguments::{ObjectArg, ObjectsArg};
use super::omap::PAGE;
use super::scope::Scope;
use super::time::stamp;
use super::window::Window;
use crate::ceph::errno::{because, because_twice, failed, sentence};
use crate::failure::Failure;
use crate::output;
use onego::ceph::{Errno, Error};
use onego::rados::{Pool, ReadOp, WriteOp};
use std::time::{Duration, SystemTime};

#[derive(clap::Args)]
pub(super) struct RmOptions {
    #[command(flatten)]
    objects: ObjectsArg,
    /// Also if the cluster is full
    #[arg(long)]
    force_full: bool,
}

#[derive(clap::Args)]
pub(super) struct TruncateOptions {
    /// The object
    object: String,
    /// Bytes that it has then
    #[arg(allow_hyphen_values = true)]
    size: String,
}

#[derive(clap::Args)]
pub(super) struct TouchOptions {
    /// The object
    object: String,
    /// Seconds since 1970 [default: now]
    #[arg(allow_hyphen_values = true)]
    timestamp: Option<String>,
}

#[derive(clap::Args)]
pub(super) struct CpOptions {
    /// The object
    object: String,
    /// The copy's name [default: the object's, for another pool]
    target: Option<String>,
    /// The copy's pool [default: the object's]
    #[arg(long, value_name = "POOL")]
    target_pool: Option<String>,
    /// The copy's placement key
    #[arg(long, value_name = "KEY")]
    target_locator: Option<String>,
    /// The copy's namespace [default: that of no name]
    #[arg(long, value_name = "NAMESPACE")]
    target_nspace: Option<String>,
}

pub(super) async fn create(pool: &Pool, ObjectArg { object }: &ObjectArg) -> Result<(), Failure> {
    let what = format!("error creating {}/{object}", pool.name());
    pool.create(object, true).await.map_err(because(what))
}

pub(super) async fn remove(pool: &Pool, options: &RmOptions) -> Result<(), Failure> {
    let full_try = options.force_full.then(|| pool.with_full_try());
    let pool = full_try.as_ref().unwrap_or(pool);
    for object in &options.objects.objects {
        let slash = if pool.namespace().is_empty() { "" } else { "/" };
        let what = format!("error removing {}>{}{slash}{object}", pool.name(), pool.namespace());
        pool.remove(object).await.map_err(because(what))?;
    }
    Ok(())
}

/// Removes objects, as many at a time as `depth` says, and gives how many there were.
pub(super) async fn remove_all(
    pool: &Pool,
    names: impl Iterator<Item = String>,
    depth: usize,
) -> Result<u64, Error> {
    let mut window = Window::new(depth);
    let (mut removed, mut names) = (0, names.fuse());
    loop {
        while window.has_room()
            && let Some(name) = names.next()
        {
            window.begin(async move { pool.remove(&name).await });
        }
        match window.oldest().await {
            None => return Ok(removed),
            Some(Ok(())) => removed += 1,
            Some(Err(Error::NotFound { .. })) => {}
            Some(Err(error)) => return Err(error),
        }
    }
}

pub(super) async fn truncate(pool: &Pool, options: &TruncateOptions) -> Result<(), Failure> {
    let TruncateOptions { object, size } = options;
    let size = match size.parse::<i64>() {
        Err(_) => return Err(failed(format!("Invalid value for size: '{size}'"))),
        Ok(..0) => return Err(failed("error, cannot truncate to negative value")),
        Ok(size) => size as u64,
    };
    let what = format!("error truncating oid {object} to {size}");
    pool.truncate(object, size).await.map_err(because_twice(what))
}

/// Prints size and age; `precise` keeps the parts of seconds.
pub(super) async fn stat(
    pool: &Pool,
    ObjectArg { object }: &ObjectArg,
    precise: bool,
) -> Result<(), Failure> {
    // `rados` begins these words with a blank.
    let what = format!(" error stat-ing {}/{object}", pool.name());
    let stat = pool.stat(object).await.map_err(because(what))?;
    let since = stat.modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let since = if precise { since } else { Duration::from_secs(since.as_secs()) };
    let modified = stamp(SystemTime::UNIX_EPOCH + since);
    output::lines([format!("{}/{object} mtime {modified}, size {}", pool.name(), stat.size)])
}

pub(super) async fn touch(pool: &Pool, options: &TouchOptions) -> Result<(), Failure> {
    let TouchOptions { object, timestamp } = options;
    let time = match timestamp {
        None => SystemTime::now(),
        Some(text) => {
            let seconds = text.parse::<u32>();
            let seconds = seconds.map_err(|_| failed(format!("Invalid value for timestamp: '{text}'")))?;
            SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.into())
        }
    };
    let what = format!(" error touch-ing {}/{object}", pool.name());
    let op = WriteOp::new().create(false).modified(time);
    pool.operate_write(object, op).await.map(drop).map_err(because(what))
}

pub(super) async fn copy(pool: &Pool, scope: &Scope, options: &CpOptions) -> Result<(), Failure> {
    let CpOptions { object, target, target_pool, target_locator, target_nspace } = options;
    let to_pool = target_pool.as_deref().unwrap_or(pool.name());
    let to = match target {
        Some(target) => target,
        None if to_pool == pool.name() => return Err(failed("cannot copy object into itself")),
        None => object,
    };
    let target = pool.cluster().pool(to_pool).await;
    let target = target.map_err(because(format!("error opening target pool {to_pool}")))?;
    let target = target
        .in_namespace(target_nspace.as_deref().unwrap_or_default())
        .with_locator(target_locator.as_deref().unwrap_or_default());
    let what = format!("error copying {}/{object} => {to_pool}/{to}", pool.name());
    let is_itself = (to, target.id(), target.namespace()) == (object, pool.id(), pool.namespace());
    if is_itself && target.locator() == pool.locator() {
        return Err(failed(format!("{what}: {}", sentence(Errno::INVAL.0))));
    }
    let size = scope.op_size()?;
    copy_object(pool, object, &target, to, size).await.map_err(because(what))
}

/// Copies through this program, in the order bytes, attributes, map: so it takes no help of OSDs. The copy is not whole
/// before the end.
async fn copy_object(from: &Pool, object: &str, to: &Pool, name: &str, size: u64) -> Result<(), Error> {
    let mut op = ReadOp::new();
    let (bytes, attributes, header) = (op.read(0, size), op.xattrs(), op.omap_header());
    let reply = from.operate_read(object, op).await?;
    match to.remove(name).await {
        Ok(()) | Err(Error::NotFound { .. }) => {}
        Err(error) => return Err(error),
    }
    let bytes = reply.get(&bytes)?;
    let mut done = bytes.len() as u64;
    let mut op = WriteOp::new().create(false).write(0, bytes);
    for (name, value) in reply.get(&attributes)? {
        op = op.set_xattr(&name, value);
    }
    let header = reply.get(&header)?;
    if !header.is_empty() {
        op = op.set_omap_header(header);
    }
    to.operate_write(name, op).await?;
    let mut is_whole = done < size;
    while !is_whole {
        let bytes = from.read(object, done, size).await?;
        let length = bytes.len() as u64;
        if length > 0 {
            to.write(name, done, bytes).await?;
        }
        done += length;
        is_whole = length < size;
    }
    copy_map(from, object, to, name).await
}

async fn copy_map(from: &Pool, object: &str, to: &Pool, name: &str) -> Result<(), Error> {
    let mut last = Vec::new();
    loop {
        let page = from.omap(object, &last, PAGE).await?;
        let Some((key, _)) = page.entries.last_key_value() else { return Ok(()) };
        last = key.clone();
        to.set_omap(name, page.entries).await?;
        if !page.more {
            return Ok(());
        }
    }
}
