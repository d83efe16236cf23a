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
}

pub(super) fn rm(access: &Access, options: &RmOptions) -> Result<(), Failure> {
    options.urls.iter().try_for_each(|url| {
        url.mount(access)?.run(async |mount, path| {
            let found = mount.lstat(path).await?;
            match (found.is_dir(), options.recursive) {
                (false, _) => Ok(mount.remove(path).await?),
                (true, true) => remove_all(mount, path).await,
                (true, false) => {
                    Err(Failure::Usage(format!("{} is a directory: remove it with --recursive", url.text())))
                }
            }
        })
    })
}

/// Removes a directory with all that is in it, without following symbolic links.
async fn remove_all(mount: &Mount, path: &str) -> Result<(), Failure> {
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
    Ok(mount.rmdir(path).await?)
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
