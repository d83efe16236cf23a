//! `onego nfs rm`, `mkdir` and `mv`: what changes directories.

use super::target::Url;
use crate::access::Access;
use crate::failure::Failure;
use onego::nfs::{FileType, Mount, SetAttributes, Status};

#[derive(clap::Args)]
pub(crate) struct RmOptions {
    /// The files
    #[arg(value_name = "URL", required = true)]
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
                return empty(mount, "").await;
            }
            let found = mount.lstat(path).await?;
            match (found.is_dir(), options.recursive) {
                (false, _) => Ok(mount.remove(path).await?),
                (true, true) => remove_all(mount, path).await,
                (true, false) => Err(refusal(url, "it is a directory: --recursive removes it")),
            }
        })
    })
}

fn refusal(url: &Url, reason: &str) -> Failure {
    Failure::Usage(format!("{} is not removed: {reason}", url.text()))
}

/// Returns whether a path names the mounted directory. Fails for other paths that do not end in a name, as POSIX `rm` does.
fn is_root(path: &str) -> Result<bool, &'static str> {
    if path.split('/').all(|name| matches!(name, "" | ".")) {
        return Ok(true);
    }
    match path.trim_end_matches('/').rsplit('/').next() {
        Some("." | "..") => Err("its path ends in \".\" or \"..\": name the directory"),
        _ => Ok(false),
    }
}

/// Removes a directory with all that is in it, without following symbolic links.
async fn remove_all(mount: &Mount, path: &str) -> Result<(), Failure> {
    empty(mount, path).await?;
    Ok(mount.rmdir(path).await?)
}

async fn empty(mount: &Mount, path: &str) -> Result<(), Failure> {
    let mut stream = mount.read_dir(path).await?;
    while let Some(entry) = stream.try_next().await? {
        let below = format!("{path}/{}", name(&entry.name)?);
        let known = match entry.attributes {
            Some(known) => known,
            None => mount.lstat(&below).await?.attributes,
        };
        if known.file_type == FileType::Directory {
            Box::pin(remove_all(mount, &below)).await?;
        } else {
            mount.remove(&below).await?;
        }
    }
    Ok(())
}

fn name(bytes: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(bytes)
        .map_err(|_| Failure::Usage(format!("the name {:?} is not UTF-8", String::from_utf8_lossy(bytes))))
}

#[derive(clap::Args)]
pub(crate) struct MkdirOptions {
    /// The directories
    #[arg(value_name = "URL", required = true)]
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
            let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
            for end in ends.filter(|end| *end > 0) {
                make(mount, &path[..end], true).await?;
            }
            Ok(())
        })
    })
}

async fn make(mount: &Mount, path: &str, may_exist: bool) -> Result<(), Failure> {
    let attributes = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
    match mount.mkdir(path, attributes).await {
        Err(error) if may_exist && error.status() == Some(Status::Exist) && is_dir(mount, path).await => {
            Ok(())
        }
        made => Ok(made.map(drop)?),
    }
}

async fn is_dir(mount: &Mount, path: &str) -> bool {
    mount.stat(path).await.is_ok_and(|found| found.is_dir())
}

#[derive(clap::Args)]
pub(crate) struct MvOptions {
    /// The file
    #[arg(value_name = "URL")]
    from: Url,
    /// Its new place: a URL on the same server, or a path in the same export
    #[arg(value_name = "TO")]
    to: String,
}

pub(super) fn mv(access: &Access, options: &MvOptions) -> Result<(), Failure> {
    let mut from = options.from.mount(access)?;
    let to = if options.to.contains("://") {
        let url: Url = options.to.parse()?;
        let to = url.mount(access)?;
        if to.mount.root() != from.mount.root() {
            return Err(Failure::Usage("a file can only be moved within its export: copy it".to_owned()));
        }
        to.path
    } else {
        options.to.clone()
    };
    from.reactor.block_on(async {
        let to = if is_dir(&from.mount, &to).await {
            format!("{to}/{}", from.path.trim_end_matches('/').rsplit('/').next().unwrap_or_default())
        } else {
            to
        };
        Ok(from.mount.rename(&from.path, &to).await?)
    })?
}
