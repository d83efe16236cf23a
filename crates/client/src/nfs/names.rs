//! Operations on paths, which are resolved name by name.

use super::dir::{self, DirEntry};
use super::error::Error;
use super::escaped::Escaped;
use super::file::File;
use super::found::Found;
use super::mount::Mount;
use crate::listing::Listing;
use onego_nfs::client::Call;
use onego_nfs::rpc::Procedure;
use onego_nfs::v3::{
    Access, AccessArgs, Answer, Create, CreateArgs, CreateHow, CreateOk, Fsstat, FsstatOk, Getattr, Handle,
    Link, LinkArgs, Lookup, LookupOk, Mkdir, MkdirArgs, Mknod, MknodArgs, Name, Node, PATH_MAX, Place,
    Readlink, Remove, Rename, RenameArgs, Rmdir, SetAttributes, Setattr, SetattrArgs, Status, Symlink,
    SymlinkArgs,
};

/// Paths and names are bytes. Paths start at the mounted directory, with or without a leading slash, and may contain
/// `.` and `..`; nothing is above the mounted directory.
impl Mount {
    /// Opens an existing file.
    pub async fn open(&self, path: impl AsRef<[u8]>) -> Result<File, Error> {
        let path = path.as_ref();
        Ok(File::new(self.clone(), self.stat(path).await?))
    }

    /// Creates and opens a regular file. An existing file is opened unchanged, or refused if `new` is set.
    pub async fn create(
        &self,
        path: impl AsRef<[u8]>,
        attributes: SetAttributes,
        new: bool,
    ) -> Result<File, Error> {
        let path = path.as_ref();
        let place = self.file_place(path).await?;
        let how = if new { CreateHow::Guarded(attributes) } else { CreateHow::Unchecked(attributes) };
        let args = CreateArgs { place: place.clone(), how };
        let made = self.make::<Create>(&args, "creating", path, place).await?;
        Ok(File::new(self.clone(), made))
    }

    /// Looks up a file, following symbolic links.
    pub async fn stat(&self, path: impl AsRef<[u8]>) -> Result<Found, Error> {
        let path = path.as_ref();
        self.walk(path, true).await
    }

    /// Looks up a file without following a symbolic link in the last name.
    pub async fn lstat(&self, path: impl AsRef<[u8]>) -> Result<Found, Error> {
        let path = path.as_ref();
        self.walk(path, false).await
    }

    /// Sets attributes of a file.
    pub async fn set_attributes(
        &self,
        path: impl AsRef<[u8]>,
        attributes: SetAttributes,
    ) -> Result<(), Error> {
        let path = path.as_ref();
        let file = self.stat(path).await?.handle;
        let args = SetattrArgs { file, attributes, guard: None };
        self.change::<Setattr, _, _>(&args, || format!("changing {}", Escaped(path))).await.map(drop)
    }

    /// Returns which of these rights the caller has on a file (see [`access`](onego_nfs::v3::access)).
    pub async fn access(&self, path: impl AsRef<[u8]>, wanted: u32) -> Result<u32, Error> {
        let path = path.as_ref();
        let file = self.stat(path).await?.handle;
        let args = AccessArgs { file, wanted };
        Ok(self
            .change::<Access, _, _>(&args, || format!("checking rights on {}", Escaped(path)))
            .await?
            .granted)
    }

    /// Creates a directory.
    pub async fn mkdir(&self, path: impl AsRef<[u8]>, attributes: SetAttributes) -> Result<Found, Error> {
        let path = path.as_ref();
        let place = self.place(path).await?;
        let args = MkdirArgs { place: place.clone(), attributes };
        self.make::<Mkdir>(&args, "creating the directory", path, place).await
    }

    /// Creates a symbolic link that contains `text`.
    pub async fn symlink(&self, text: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Result<Found, Error> {
        let (text, path) = (text.as_ref(), path.as_ref());
        let place = self.file_place(path).await?;
        let attributes = SetAttributes::default();
        let args = SymlinkArgs { place: place.clone(), attributes, path: text.to_vec() };
        self.make::<Symlink>(&args, "creating the symbolic link", path, place).await
    }

    /// Creates a device, a socket or a named pipe.
    pub async fn mknod(&self, path: impl AsRef<[u8]>, what: Node) -> Result<Found, Error> {
        let path = path.as_ref();
        let place = self.file_place(path).await?;
        let args = MknodArgs { place: place.clone(), what };
        self.make::<Mknod>(&args, "creating", path, place).await
    }

    /// Returns the text of a symbolic link.
    pub async fn read_link(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>, Error> {
        let path = path.as_ref();
        let link = self.lstat(path).await?;
        self.text_of(link.handle, path).await
    }

    /// Creates a hard link to a file.
    pub async fn link(&self, file: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Result<(), Error> {
        let (file, path) = (file.as_ref(), path.as_ref());
        let (found, link) = (self.lstat(file).await?, self.file_place(path).await?);
        let args = LinkArgs { file: found.handle, link };
        self.change::<Link, _, _>(&args, || format!("linking {} to {}", Escaped(file), Escaped(path)))
            .await
            .map(drop)
    }

    /// Moves a file, replacing any file at the new path.
    pub async fn rename(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<(), Error> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let args = RenameArgs { from: self.place(from).await?, to: self.place(to).await? };
        if [from, to].iter().any(|path| path.ends_with(b"/")) {
            let Place { dir, name } = &args.from;
            if !self.look_up(*dir, &name.0, from).await?.is_dir() {
                let path = if from.ends_with(b"/") { from } else { to };
                return Err(Error::failed(|| Escaped(path).to_string(), Status::Notdir));
            }
        }
        self.change::<Rename, _, _>(&args, || format!("renaming {} to {}", Escaped(from), Escaped(to)))
            .await
            .map(drop)
    }

    /// Removes a file that is not a directory.
    pub async fn remove(&self, path: impl AsRef<[u8]>) -> Result<(), Error> {
        let path = path.as_ref();
        let place = self.file_place(path).await?;
        self.change::<Remove, _, _>(&place, || format!("removing {}", Escaped(path))).await.map(drop)
    }

    /// Removes an empty directory.
    pub async fn rmdir(&self, path: impl AsRef<[u8]>) -> Result<(), Error> {
        let path = path.as_ref();
        let place = self.place(path).await?;
        self.change::<Rmdir, _, _>(&place, || format!("removing the directory {}", Escaped(path)))
            .await
            .map(drop)
    }

    /// Lists a directory, with the attributes and handles that the server sends along.
    pub async fn read_dir(&self, path: impl AsRef<[u8]>) -> Result<Listing<DirEntry, Error>, Error> {
        let path = path.as_ref();
        Ok(dir::list(self.clone(), self.stat(path).await?.handle, path))
    }

    /// Returns the space usage of the file system.
    pub async fn statfs(&self) -> Result<FsstatOk, Error> {
        self.change::<Fsstat, _, _>(&self.root, || "querying the file system's space".to_owned()).await
    }

    /// Calls a procedure, and converts its failure status to an error.
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

    pub(super) async fn make<P>(
        &self,
        args: &P::Args,
        what: &str,
        path: &[u8],
        place: Place,
    ) -> Result<Found, Error>
    where
        P: Procedure<Results = Answer<CreateOk, onego_nfs::v3::Change>>,
    {
        let made = self.change::<P, _, _>(args, || format!("{what} {}", Escaped(path))).await?;
        match made {
            CreateOk { file: Some(handle), attributes: Some(attributes), .. } => {
                Ok(Found { handle, attributes })
            }
            // A server may omit the handle of the new file.
            CreateOk { file: Some(handle), .. } => self.found(handle, path).await,
            CreateOk { .. } => self.look_up(place.dir, &place.name.0, path).await,
        }
    }

    pub(super) async fn found(&self, handle: Handle, path: &[u8]) -> Result<Found, Error> {
        let attributes = self.change::<Getattr, _, _>(&handle, || Escaped(path).to_string()).await?;
        Ok(Found { handle, attributes })
    }

    /// Looks up a name in a directory. `path` is for messages.
    pub(super) async fn look_up(&self, dir: Handle, name: &[u8], path: &[u8]) -> Result<Found, Error> {
        let place = Place { dir, name: Name(name.to_vec()) };
        let found = self.change::<Lookup, _, _>(&place, || Escaped(path).to_string()).await?;
        match found {
            LookupOk { file, attributes: Some(attributes), .. } => Ok(Found { handle: file, attributes }),
            LookupOk { file, .. } => self.found(file, path).await,
        }
    }

    pub(super) async fn text_of(&self, link: Handle, path: &[u8]) -> Result<Vec<u8>, Error> {
        let call = Call { results_max: PATH_MAX + 512, ..Call::new::<Readlink>(&link) };
        Ok(self
            .change_by::<Readlink, _, _>(call, || format!("reading the symbolic link {}", Escaped(path)))
            .await?
            .path)
    }

    /// Resolves the directory and the name of a path that does not refer to a directory.
    async fn file_place(&self, path: &[u8]) -> Result<Place, Error> {
        let place = self.place(path).await?;
        match path.ends_with(b"/") {
            true => Err(Error::failed(|| Escaped(path).to_string(), Status::Notdir)),
            false => Ok(place),
        }
    }

    async fn place(&self, path: &[u8]) -> Result<Place, Error> {
        let ends = path.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
        let name_at = path[..ends].iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let name = &path[name_at..ends];
        if matches!(name, b"" | b"." | b"..") {
            return Err(Error::Invalid(format!("\"{}\" names no file in a directory", Escaped(path))));
        }
        Ok(Place { dir: self.stat(&path[..name_at]).await?.handle, name: Name(name.to_vec()) })
    }
}
