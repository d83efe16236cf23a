use super::error::Error;
use super::escaped::Escaped;
use super::file::File;
use super::found::Found;
use super::mount::Mount;
use crate::listing::{Listing, NextPage, Page};
use onego_nfs::client::{Call, Error as CallError};
use onego_nfs::rpc::Accepted;
use onego_nfs::v3::{
    Attributes, Create, CreateArgs, CreateHow, Handle, Link, LinkArgs, Name, Place, Readdir, ReaddirArgs,
    Readdirplus, ReaddirplusArgs, Remove, Rename, RenameArgs, Rmdir, SetAttributes, Status, Verifier,
};
use std::sync::atomic::Ordering;

/// A directory by handle: lookups happen in it even if its path changes meanwhile, and never follow symbolic links.
#[derive(Debug, Clone)]
pub struct Dir {
    mount: Mount,
    handle: Handle,
    path: Vec<u8>,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Name: any bytes except a slash.
    pub name: Vec<u8>,
    /// File number, unique in the file system.
    pub fileid: u64,
    /// Attributes, if the server sent them.
    pub attributes: Option<Attributes>,
    /// Handle, if the server sent it.
    pub handle: Option<Handle>,
}

impl Dir {
    pub(super) fn new(mount: &Mount, handle: Handle, path: Vec<u8>) -> Self {
        Self { mount: mount.clone(), handle, path }
    }

    /// Returns the directory's handle.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// Returns the subdirectory with a name and a handle from the server.
    pub fn below(&self, name: &[u8], handle: Handle) -> Self {
        Self::new(&self.mount, handle, [&self.path, &b"/"[..], name].concat())
    }

    /// Opens a file found in the directory.
    pub fn file(&self, found: Found) -> File {
        File::from_handle(&self.mount, found)
    }

    /// Looks up a name without following a symbolic link.
    pub async fn lookup(&self, name: &[u8]) -> Result<Found, Error> {
        self.mount.look_up(self.handle, name, &[&self.path, &b"/"[..], name].concat()).await
    }

    /// Lists the directory, with the attributes and handles that the server sends along.
    pub fn entries(&self) -> Listing<DirEntry, Error> {
        list(self.mount.clone(), self.handle, &self.path)
    }

    /// Creates and opens a regular file; see [`Mount::create`].
    pub async fn create(&self, name: &[u8], attributes: SetAttributes, new: bool) -> Result<File, Error> {
        let how = if new { CreateHow::Guarded(attributes) } else { CreateHow::Unchecked(attributes) };
        let args = CreateArgs { place: self.place(name)?, how };
        let made = self.mount.make::<Create>(&args, "creating", name, args.place.clone()).await?;
        Ok(File::from_handle(&self.mount, made))
    }

    /// Creates a hard link to a file in this directory.
    pub async fn link(&self, file: &File, name: &[u8]) -> Result<(), Error> {
        let args = LinkArgs { file: file.handle(), link: self.place(name)? };
        self.mount.change::<Link, _, _>(&args, || format!("linking {}", Escaped(name))).await.map(drop)
    }

    /// Renames a file within this directory, replacing any file with the new name.
    pub async fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), Error> {
        let args = RenameArgs { from: self.place(from)?, to: self.place(to)? };
        let what = || format!("renaming {} to {}", Escaped(from), Escaped(to));
        self.mount.change::<Rename, _, _>(&args, what).await.map(drop)
    }

    /// Removes a file that is not a directory.
    pub async fn remove(&self, name: &[u8]) -> Result<(), Error> {
        let place = self.place(name)?;
        self.mount.change::<Remove, _, _>(&place, || format!("removing {}", self.shown(name))).await.map(drop)
    }

    /// Removes an empty directory.
    pub async fn rmdir(&self, name: &[u8]) -> Result<(), Error> {
        let place = self.place(name)?;
        let what = || format!("removing the directory {}", self.shown(name));
        self.mount.change::<Rmdir, _, _>(&place, what).await.map(drop)
    }

    fn place(&self, name: &[u8]) -> Result<Place, Error> {
        if matches!(name, b"" | b"." | b"..") || name.contains(&b'/') {
            return Err(Error::Invalid(format!("\"{}\" names no file in a directory", Escaped(name))));
        }
        Ok(Place { dir: self.handle, name: Name(name.to_vec()) })
    }

    fn shown(&self, name: &[u8]) -> String {
        let dir = self.path.strip_suffix(b"/").unwrap_or(&self.path);
        match dir.is_empty() {
            true => Escaped(name).to_string(),
            false => format!("{}/{}", Escaped(dir), Escaped(name)),
        }
    }
}

#[derive(Clone, Copy)]
struct Cursor {
    cookie: u64,
    verifier: Verifier,
    /// Whether the cookie is READDIR's: cookies of one procedure are invalid for the other.
    plain: bool,
}

struct Listed {
    entries: Vec<(u64, DirEntry)>,
    verifier: Verifier,
    eof: bool,
}

/// Lists a directory without `.` and `..`.
pub(super) fn list(mount: Mount, dir: Handle, path: &[u8]) -> Listing<DirEntry, Error> {
    let plain = mount.facts.plain_listing.load(Ordering::Relaxed);
    let start = Cursor { cookie: 0, verifier: Verifier::default(), plain };
    Listing::new(page(mount, dir, path.to_vec(), start))
}

fn page(mount: Mount, dir: Handle, path: Vec<u8>, mut from: Cursor) -> NextPage<DirEntry, Error> {
    Box::pin(async move {
        let listed = match list_some(&mount, dir, &path, from).await {
            // unfs3 has no READDIRPLUS, and knfsd refuses it for exports with "nordirplus".
            Err(error) if !from.plain && from.cookie == 0 && is_missing(&error) => {
                mount.facts.plain_listing.store(true, Ordering::Relaxed);
                from.plain = true;
                list_some(&mount, dir, &path, from).await?
            }
            listed => listed?,
        };
        // Stop if the server makes no progress, because the listing would never end.
        let last = listed.entries.last().map(|(cookie, _)| *cookie).filter(|last| *last != from.cookie);
        let last = last.filter(|_| !listed.eof);
        let entries = listed.entries.into_iter().map(|(_, entry)| entry);
        let items = entries.filter(|entry| ![&b"."[..], b".."].contains(&&*entry.name)).collect();
        let next = last.map(|cookie| {
            page(mount, dir, path, Cursor { cookie, verifier: listed.verifier, plain: from.plain })
        });
        Ok(Page { items, next })
    })
}

async fn list_some(mount: &Mount, dir: Handle, path: &[u8], from: Cursor) -> Result<Listed, Error> {
    let most = mount.facts.listing;
    let Cursor { cookie, verifier, plain } = from;
    let what = || format!("listing {}", Escaped(path));
    if plain {
        let args = ReaddirArgs { dir, cookie, verifier, count: most };
        let call = Call { results_max: most as usize + 512, ..Call::new::<Readdir>(&args) };
        let listed = mount.change_by::<Readdir, _, _>(call, what).await?;
        let entry = |name: Name, fileid| DirEntry { name: name.0, fileid, attributes: None, handle: None };
        let entries = listed.entries.into_iter().map(|e| (e.cookie, entry(e.name, e.fileid))).collect();
        return Ok(Listed { entries, verifier: listed.verifier, eof: listed.eof });
    }
    let args = ReaddirplusArgs { dir, cookie, verifier, dir_count: most, max_count: most };
    let call = Call { results_max: most as usize + 512, ..Call::new::<Readdirplus>(&args) };
    let listed = mount.change_by::<Readdirplus, _, _>(call, what).await?;
    let entries = listed.entries.into_iter().map(|entry| {
        let (fileid, attributes, handle) = (entry.fileid, entry.attributes, entry.file);
        (entry.cookie, DirEntry { name: entry.name.0, fileid, attributes, handle })
    });
    Ok(Listed { entries: entries.collect(), verifier: listed.verifier, eof: listed.eof })
}

fn is_missing(error: &Error) -> bool {
    match error {
        Error::Call { source: CallError::Failed(status), .. } => *status == Status::Notsupp,
        Error::Call { source: CallError::Refused(why), .. } => *why == Accepted::ProcedureUnavailable,
        _ => false,
    }
}
