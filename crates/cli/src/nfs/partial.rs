//! Files on servers that are written beside their names until they are whole.

use super::identity::Identity;
use super::target::{join, split};
use crate::interrupt::{Unfinished, say};
use crate::partial::{self, Existing};
use onego::nfs::{CallError, Escaped, File, FileType, Found, Mount, SetAttributes, Status};

/// A file on a server that is being written. It has its name once it is [finished](Self::finish).
pub(crate) struct RemotePartial {
    file: File,
    /// What the file is called until it is whole, and then; none: it has its name already.
    names: Option<(Vec<u8>, Vec<u8>)>,
    existing: Existing,
    _unfinished: Option<Unfinished>,
}

impl RemotePartial {
    /// Opens the file to write to: that of the source's name in the directory that the path leads to, or else at the path
    /// itself. Fails before anything changes if that is the source itself.
    pub(crate) async fn open(
        mount: &Mount,
        path: &[u8],
        source: (Option<&[u8]>, Option<Identity>),
        existing: Existing,
    ) -> Result<Self, onego::nfs::Error> {
        let (file, names) = create(mount, path, source, existing).await?;
        let unfinished = names.as_ref().map(|(partial, _)| {
            let left = left_there(partial);
            Unfinished::new(move || Some(left))
        });
        Ok(Self { file, names, existing, _unfinished: unfinished })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// All bytes are there, and durable: gives the file its name.
    pub(crate) async fn finish(&mut self) -> Result<(), onego::nfs::Error> {
        let mount = self.file.mount();
        if let Some((partial, path)) = &self.names {
            if self.existing == Existing::Refuse {
                // A link replaces nothing, also where a file of that name came meanwhile.
                match mount.link(partial, path).await {
                    Ok(()) => mount.remove(partial).await?,
                    Err(error) if lacks_links(&error) => {
                        // An empty file that must be new takes the name, and is replaced.
                        mount.create(path, SetAttributes::default(), true).await?;
                        mount.rename(partial, path).await?;
                    }
                    Err(error) => return Err(error),
                }
            } else {
                mount.rename(partial, path).await?;
            }
        }
        self.names = None;
        Ok(())
    }
}

/// Returns whether the server, or its file system, has no hard links.
fn lacks_links(error: &onego::nfs::Error) -> bool {
    match error {
        onego::nfs::Error::Call { source: CallError::Failed(status), .. } => {
            matches!(status, Status::Notsupp | Status::Perm | Status::Inval)
        }
        onego::nfs::Error::Call { source: CallError::Refused(_), .. } => true,
        _ => false,
    }
}

impl Drop for RemotePartial {
    fn drop(&mut self) {
        if let Some((partial, _)) = &self.names {
            say(&left_there(partial));
        }
    }
}

fn left_there(partial: &[u8]) -> String {
    let partial = Escaped(partial);
    format!("{partial} on the server has what has come so far: --resume goes on, \"onego nfs rm\" removes it")
}

/// The file to write to, in the directory that the path leads to, or else at the path itself; and what it is called until
/// it is whole, and then, if that is not the same.
async fn create(
    mount: &Mount,
    path: &[u8],
    (name, source): (Option<&[u8]>, Option<Identity>),
    existing: Existing,
) -> Result<(File, Option<(Vec<u8>, Vec<u8>)>), onego::nfs::Error> {
    let mut path = path.to_vec();
    let mut there = mount.stat(&path).await.ok();
    if there.as_ref().is_some_and(Found::is_dir) {
        path = join(&path, name.unwrap_or_default());
        there = mount.stat(&path).await.ok();
    }
    if source.is_some() && there.as_ref().map(|found| Identity::there(&found.attributes)) == source {
        return Err(onego::nfs::Error::Invalid(format!(
            "{} on the server is the source itself",
            Escaped(&path)
        )));
    }
    let is_regular = |found: &Found| found.attributes.file_type == FileType::Regular;
    // A link stays one, and what it leads to is written to.
    let is_plain = match &there {
        Some(found) => is_regular(found) && mount.lstat(&path).await.is_ok_and(|found| is_regular(&found)),
        None => true,
    };
    let mode = there.as_ref().map_or(0o644, |found| found.attributes.mode & 0o777);
    let attributes = |size| SetAttributes { mode: Some(mode), size, ..SetAttributes::default() };
    if existing == Existing::Refuse && there.is_some() {
        // The server says that it is there.
        return Ok((mount.create(&path, attributes(None), true).await?, None));
    }
    if !is_plain || existing == Existing::InPlace {
        let size = (existing != Existing::Resume).then_some(0);
        return Ok((mount.create(&path, attributes(size), false).await?, None));
    }
    let (dir, name) = split(&path);
    let partial = join(dir, &partial::name_of(name));
    if existing == Existing::Resume && there.is_some() && mount.lstat(&partial).await.is_err() {
        mount.rename(&path, &partial).await?;
    }
    let size = (existing != Existing::Resume).then_some(0);
    let file = mount.create(&partial, attributes(size), false).await?;
    Ok((file, Some((partial, path))))
}
