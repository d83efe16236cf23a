//! Files on servers that are written beside their names until they are whole.

use super::identity::Identity;
use crate::interrupt::{Unfinished, say};
use crate::partial::{self, Existing};
use onego::nfs::{File, FileType, Found, Mount, SetAttributes};

/// A file on a server that is being written. It has its name once it is [finished](Self::finish).
pub(crate) struct RemotePartial {
    file: File,
    /// What the file is called until it is whole, and then; none: it has its name already.
    names: Option<(String, String)>,
    existing: Existing,
    _unfinished: Option<Unfinished>,
}

impl RemotePartial {
    /// Opens the file to write to: that of the source's name in the directory that the path leads to, or else at the path
    /// itself. Fails before anything changes if that is the source itself.
    pub(crate) async fn open(
        mount: &Mount,
        path: &str,
        source: (Option<&str>, Option<Identity>),
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
                mount.link(partial, path).await?;
                mount.remove(partial).await?;
            } else {
                mount.rename(partial, path).await?;
            }
        }
        self.names = None;
        Ok(())
    }
}

impl Drop for RemotePartial {
    fn drop(&mut self) {
        if let Some((partial, _)) = &self.names {
            say(&left_there(partial));
        }
    }
}

fn left_there(partial: &str) -> String {
    format!("{partial} on the server has what has come so far: --resume goes on, \"onego nfs rm\" removes it")
}

/// The file to write to, in the directory that the path leads to, or else at the path itself; and what it is called until
/// it is whole, and then, if that is not the same.
async fn create(
    mount: &Mount,
    path: &str,
    (name, source): (Option<&str>, Option<Identity>),
    existing: Existing,
) -> Result<(File, Option<(String, String)>), onego::nfs::Error> {
    let mut path = path.to_owned();
    let mut there = mount.stat(&path).await.ok();
    if there.as_ref().is_some_and(Found::is_dir) {
        path = format!("{}/{}", path.trim_end_matches('/'), name.unwrap_or_default());
        there = mount.stat(&path).await.ok();
    }
    if source.is_some() && there.as_ref().map(|found| Identity::there(&found.attributes)) == source {
        return Err(onego::nfs::Error::Invalid(format!("{path} on the server is the source itself")));
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
    let (dir, name) = path.rsplit_once('/').map_or(("", path.as_str()), |(dir, name)| (dir, name));
    let partial = String::from_utf8_lossy(&partial::name_of(name.as_bytes())).into_owned();
    let partial = if path.contains('/') { format!("{dir}/{partial}") } else { partial };
    if existing == Existing::Resume && there.is_some() && mount.lstat(&partial).await.is_err() {
        mount.rename(&path, &partial).await?;
    }
    let size = (existing != Existing::Resume).then_some(0);
    let file = mount.create(&partial, attributes(size), false).await?;
    Ok((file, Some((partial, path))))
}
