//! What is done with names: paths are walked name by name.

use super::dir::{self, DirEntry};
use super::error::Error;
use super::file::File;
use super::found::Found;
use super::mount::Mount;
use crate::listing::Listing;
use onego_nfs::client::Call;
use onego_nfs::rpc::Procedure;
use onego_nfs::v3::{
    Access, AccessArgs, Answer, Create, CreateArgs, CreateHow, CreateOk, FileType, Fsstat, FsstatOk, Getattr,
    Handle, Link, LinkArgs, Lookup, LookupOk, Mkdir, MkdirArgs, Mknod, MknodArgs, Name, Node, PATH_MAX,
    Place, Readlink, Remove, Rename, RenameArgs, Rmdir, SetAttributes, Setattr, SetattrArgs, Symlink,
    SymlinkArgs,
};
use std::collections::VecDeque;

/// Symbolic links that are followed on one path, as Linux has it.
pub(super) const LINKS_MAX: usize = 40;

/// Paths are UTF-8, begin at the mounted directory with or without a slash, and may have `.` and `..`; nothing is above
/// the mounted directory.
impl Mount {
    /// Opens a file that is there.
    pub async fn open(&self, path: &str) -> Result<File, Error> {
        Ok(File::new(self.clone(), self.stat(path).await?))
    }

    /// Makes a regular file and opens it. If it is there, it is opened as it is, or refused if `new` says that there must
    /// be none.
    pub async fn create(&self, path: &str, attributes: SetAttributes, new: bool) -> Result<File, Error> {
        let place = self.place(path).await?;
        let how = if new { CreateHow::Guarded(attributes) } else { CreateHow::Unchecked(attributes) };
        let args = CreateArgs { place: place.clone(), how };
        let made = self.make::<Create>(&args, "creating", path, place).await?;
        Ok(File::new(self.clone(), made))
    }

    /// What is known of a file; symbolic links are followed.
    pub async fn stat(&self, path: &str) -> Result<Found, Error> {
        self.walk(path, true).await
    }

    /// What is known of a file, which may be a symbolic link.
    pub async fn lstat(&self, path: &str) -> Result<Found, Error> {
        self.walk(path, false).await
    }

    /// Sets attributes of a file.
    pub async fn set_attributes(&self, path: &str, attributes: SetAttributes) -> Result<(), Error> {
        let file = self.stat(path).await?.handle;
        let args = SetattrArgs { file, attributes, guard: None };
        self.change::<Setattr, _, _>(&args, || format!("changing {path}")).await.map(drop)
    }

    /// What of these rights the caller has on a file (see [`access`](onego_nfs::v3::access)).
    pub async fn access(&self, path: &str, wanted: u32) -> Result<u32, Error> {
        let file = self.stat(path).await?.handle;
        let args = AccessArgs { file, wanted };
        Ok(self.change::<Access, _, _>(&args, || format!("asking for rights on {path}")).await?.granted)
    }

    /// Makes a directory.
    pub async fn mkdir(&self, path: &str, attributes: SetAttributes) -> Result<Found, Error> {
        let place = self.place(path).await?;
        let args = MkdirArgs { place: place.clone(), attributes };
        self.make::<Mkdir>(&args, "creating the directory", path, place).await
    }

    /// Makes a symbolic link with that text.
    pub async fn symlink(&self, text: &str, path: &str) -> Result<Found, Error> {
        let place = self.place(path).await?;
        let attributes = SetAttributes::default();
        let args = SymlinkArgs { place: place.clone(), attributes, path: text.into() };
        self.make::<Symlink>(&args, "creating the symbolic link", path, place).await
    }

    /// Makes a device, a socket or a named pipe.
    pub async fn mknod(&self, path: &str, what: Node) -> Result<Found, Error> {
        let place = self.place(path).await?;
        let args = MknodArgs { place: place.clone(), what };
        self.make::<Mknod>(&args, "creating", path, place).await
    }

    /// The text of a symbolic link.
    pub async fn read_link(&self, path: &str) -> Result<Vec<u8>, Error> {
        let link = self.lstat(path).await?;
        self.text_of(link.handle, path).await
    }

    /// Gives a file one more name.
    pub async fn link(&self, file: &str, path: &str) -> Result<(), Error> {
        let (found, link) = (self.lstat(file).await?, self.place(path).await?);
        let args = LinkArgs { file: found.handle, link };
        self.change::<Link, _, _>(&args, || format!("linking {file} to {path}")).await.map(drop)
    }

    /// Gives a file another place. What is there is replaced.
    pub async fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        let args = RenameArgs { from: self.place(from).await?, to: self.place(to).await? };
        self.change::<Rename, _, _>(&args, || format!("renaming {from} to {to}")).await.map(drop)
    }

    /// Removes a file that is no directory.
    pub async fn remove(&self, path: &str) -> Result<(), Error> {
        let place = self.place(path).await?;
        self.change::<Remove, _, _>(&place, || format!("removing {path}")).await.map(drop)
    }

    /// Removes an empty directory.
    pub async fn rmdir(&self, path: &str) -> Result<(), Error> {
        let place = self.place(path).await?;
        self.change::<Rmdir, _, _>(&place, || format!("removing the directory {path}")).await.map(drop)
    }

    /// The names in a directory, with what is known of the files.
    pub async fn read_dir(&self, path: &str) -> Result<Listing<DirEntry, Error>, Error> {
        Ok(dir::list(self.clone(), self.stat(path).await?.handle, path))
    }

    /// How full the file system is.
    pub async fn statfs(&self) -> Result<FsstatOk, Error> {
        self.change::<Fsstat, _, _>(&self.root, || "asking how full the file system is".to_owned()).await
    }

    /// Makes a call, and takes its failure for an error.
    pub(super) async fn change<P, T, F>(&self, args: &P::Args, what: impl Fn() -> String) -> Result<T, Error>
    where
        P: Procedure<Results = Answer<T, F>>,
    {
        self.change_by::<P, T, F>(Call::new::<P>(args), what).await
    }

    pub(super) async fn change_by<P, T, F>(&self, call: Call, what: impl Fn() -> String) -> Result<T, Error>
    where
        P: Procedure<Results = Answer<T, F>>,
    {
        let results = self.requests.call::<P>(call).await.map_err(Error::call(&what))?;
        results.map_err(|failed| Error::failed(what, failed.status))
    }

    async fn make<P>(&self, args: &P::Args, what: &str, path: &str, place: Place) -> Result<Found, Error>
    where
        P: Procedure<Results = Answer<CreateOk, onego_nfs::v3::Change>>,
    {
        let made = self.change::<P, _, _>(args, || format!("{what} {path}")).await?;
        match made {
            CreateOk { file: Some(handle), attributes: Some(attributes), .. } => {
                Ok(Found { handle, attributes })
            }
            // A server need not say what it has made.
            CreateOk { file: Some(handle), .. } => self.found(handle, path).await,
            CreateOk { .. } => self.lookup(&place, path).await,
        }
    }

    async fn found(&self, handle: Handle, path: &str) -> Result<Found, Error> {
        let attributes = self.change::<Getattr, _, _>(&handle, || path.to_owned()).await?;
        Ok(Found { handle, attributes })
    }

    async fn lookup(&self, place: &Place, path: &str) -> Result<Found, Error> {
        let LookupOk { file, attributes, .. } =
            self.change::<Lookup, _, _>(place, || path.to_owned()).await?;
        match attributes {
            Some(attributes) => Ok(Found { handle: file, attributes }),
            None => self.found(file, path).await,
        }
    }

    async fn text_of(&self, link: Handle, path: &str) -> Result<Vec<u8>, Error> {
        let call = Call { results_max: PATH_MAX + 512, ..Call::new::<Readlink>(&link) };
        Ok(self.change_by::<Readlink, _, _>(call, || format!("reading the symbolic link {path}")).await?.path)
    }

    /// The directory and the name of a path.
    async fn place(&self, path: &str) -> Result<Place, Error> {
        let trimmed = path.trim_end_matches('/');
        let (dir, name) = trimmed.rsplit_once('/').unwrap_or(("", trimmed));
        if matches!(name, "" | "." | "..") {
            return Err(Error::Invalid(format!("{path:?} names no file in a directory")));
        }
        Ok(Place { dir: self.stat(dir).await?.handle, name: name.into() })
    }

    /// The file that a path leads to. A symbolic link at its end is followed if `follow` says so.
    async fn walk(&self, path: &str, follow: bool) -> Result<Found, Error> {
        let mut names: VecDeque<Vec<u8>> = names(path.as_bytes());
        let mut above: Vec<Found> = Vec::new();
        let mut here: Option<Found> = None;
        let mut links = 0;
        while let Some(name) = names.pop_front() {
            if name == b".." {
                here = above.pop();
                continue;
            }
            let dir = here.map_or(self.root, |here| here.handle);
            let found = self.lookup(&Place { dir, name: Name(name) }, path).await?;
            let is_link = found.attributes.file_type == FileType::Symlink;
            if is_link && (follow || !names.is_empty()) {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Error::Loop { path: path.to_owned() });
                }
                let text = self.text_of(found.handle, path).await?;
                if text.starts_with(b"/") {
                    (here, above) = (None, Vec::new());
                }
                let mut all = self::names(&text);
                all.append(&mut names);
                names = all;
                continue;
            }
            above.extend(here);
            here = Some(found);
        }
        match here {
            Some(found) => Ok(found),
            None => self.found(self.root, path).await,
        }
    }
}

/// The names on a path that lead somewhere.
fn names(path: &[u8]) -> VecDeque<Vec<u8>> {
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".");
    names.map(<[u8]>::to_vec).collect()
}
