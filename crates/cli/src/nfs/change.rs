//! `onego nfs rm`, `mkdir` and `mv`: what changes directories.

use crate::access::Access;
use crate::failure::Failure;
use crate::nfs_files::{Url, join, last_name, split, without_slashes};
use onego::nfs::{Dir, FileType, Handle, Mount, SetAttributes, Status};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

#[derive(clap::Args)]
pub(crate) struct RmOptions {
    /// The files
    #[arg(value_name = "URL", required = true, value_parser = Url::parser())]
    urls: Vec<Url>,
    /// Remove directories, with all that is in them
    #[arg(short, long)]
    recursive: bool,
    /// Let --recursive remove all that is in an export, which itself stays
    #[arg(long, requires = "recursive")]
    no_preserve_root: bool,
}

pub(super) fn rm(access: &Access, options: &RmOptions) -> Result<(), Failure> {
    let mut targets = Vec::new();
    for url in &options.urls {
        let target = url.mount(access)?;
        let is_root = is_root(&target.path).map_err(|reason| refusal(url, reason))?;
        if is_root && !options.no_preserve_root {
            return Err(refusal(url, "it is the export itself: --no-preserve-root empties it"));
        }
        targets.push((url, is_root, target));
    }
    // Nothing is removed before all is checked.
    targets.into_iter().try_for_each(|(url, is_root, target)| {
        target.run(async |mount, path| {
            if is_root {
                return empty(&mount.dir("").await?).await;
            }
            let has_slash = path.ends_with(b"/");
            let (dir, name) = split(path);
            let dir = mount.dir(dir).await?;
            let found = dir.lookup(name).await?;
            match (found.is_dir(), options.recursive) {
                (false, _) if has_slash => Err(refusal(url, "it is no directory: leave the slash out")),
                (false, _) => Ok(dir.remove(name).await?),
                (true, true) => remove_all(&dir, name, found.handle).await,
                (true, false) => Err(refusal(url, "it is a directory: --recursive removes it")),
            }
        })
    })
}

fn refusal(url: &Url, reason: &str) -> Failure {
    Failure::Usage(format!("{url} is not removed: {reason}"))
}

/// Returns whether a path names the mounted directory. Fails for other paths that do not end in a name, as POSIX `rm` does.
fn is_root(path: &[u8]) -> Result<bool, &'static str> {
    if path.split(|byte| *byte == b'/').all(|name| matches!(name, b"" | b".")) {
        return Ok(true);
    }
    match last_name(path) {
        b"." | b".." => Err("its path ends in \".\" or \"..\": name the directory"),
        _ => Ok(false),
    }
}

/// Removes a directory with all that is in it. Symbolic links are removed and never followed: everything is named by the
/// handle of its directory, which stays the same if another client puts a link in its place.
async fn remove_all(dir: &Dir, name: &[u8], handle: Handle) -> Result<(), Failure> {
    empty(&dir.below(name, handle)).await?;
    Ok(dir.rmdir(name).await?)
}

async fn empty(dir: &Dir) -> Result<(), Failure> {
    let mut entries = dir.entries();
    while let Some(entry) = entries.try_next().await? {
        let (file_type, handle) = match (entry.attributes, entry.handle) {
            (Some(known), Some(handle)) => (known.file_type, handle),
            _ => {
                let found = dir.lookup(&entry.name).await?;
                (found.attributes.file_type, found.handle)
            }
        };
        if file_type == FileType::Directory {
            Box::pin(remove_all(dir, &entry.name, handle)).await?;
        } else {
            dir.remove(&entry.name).await?;
        }
    }
    Ok(())
}

#[derive(clap::Args)]
pub(crate) struct MkdirOptions {
    /// The directories
    #[arg(value_name = "URL", required = true, value_parser = Url::parser())]
    urls: Vec<Url>,
    /// Make the directories above, too, and be content if it is there
    #[arg(short, long)]
    parents: bool,
}

pub(super) fn mkdir(access: &Access, options: &MkdirOptions) -> Result<(), Failure> {
    options.urls.iter().try_for_each(|url| {
        url.mount(access)?.run(async |mount, path| {
            if !options.parents {
                return make(mount, path, false).await;
            }
            let path = without_slashes(path);
            let ends = (1..path.len()).filter(|at| path[*at] == b'/' && path[at - 1] != b'/');
            for end in ends.chain([path.len()]) {
                make(mount, &path[..end], true).await?;
            }
            Ok(())
        })
    })
}

async fn make(mount: &Mount, path: &[u8], may_exist: bool) -> Result<(), Failure> {
    let attributes = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
    match mount.mkdir(path, attributes).await {
        Err(error) if may_exist && error.status() == Some(Status::Exist) && is_dir(mount, path).await => {
            Ok(())
        }
        made => Ok(made.map(drop)?),
    }
}

async fn is_dir(mount: &Mount, path: &[u8]) -> bool {
    mount.stat(path).await.is_ok_and(|found| found.is_dir())
}

#[derive(clap::Args)]
pub(crate) struct MvOptions {
    /// The file
    #[arg(value_name = "URL", value_parser = Url::parser())]
    from: Url,
    /// Its new place: a URL on the same server, or a path in the same export
    #[arg(value_name = "TO")]
    to: OsString,
}

pub(super) fn mv(access: &Access, options: &MvOptions) -> Result<(), Failure> {
    let mut from = options.from.mount(access)?;
    let to = if is_url(&options.to) {
        let to = Url::from_os(&options.to)?.mount(access)?;
        if to.mount.root() != from.mount.root() {
            return Err(Failure::Usage("a file can only be moved within its export: copy it".to_owned()));
        }
        to.path
    } else {
        options.to.as_bytes().to_vec()
    };
    from.reactor.block_on(async {
        let to = if is_dir(&from.mount, &to).await { join(&to, last_name(&from.path)) } else { to };
        Ok(from.mount.rename(&from.path, &to).await?)
    })?
}

/// Returns whether an argument that may be a path or a URL is a URL.
pub(super) fn is_url(text: &OsStr) -> bool {
    text.as_bytes().windows(3).any(|bytes| bytes == b"://")
}
