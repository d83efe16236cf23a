//! Path resolution: from the mounted directory to a file, through symbolic links.

use super::dir::Dir;
use super::error::Error;
use super::escaped::Escaped;
use super::found::Found;
use super::mount::Mount;
use onego_nfs::v3::{FileType, Handle, Status};
use std::collections::VecDeque;

/// Most symbolic links followed on one path, as in Linux.
pub(super) const LINKS_MAX: usize = 40;

/// Result of resolving a path.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// Directory and name of the file; `None` if the path does not end in a name, as for the mounted directory and
    /// `..`.
    pub place: Option<(Dir, Vec<u8>)>,
    /// The file; `None` if the directory does not contain the name.
    pub found: Option<Found>,
    /// Whether the last name comes from a symbolic link.
    pub by_link: bool,
}

impl Mount {
    /// Resolves a path through symbolic links. The last name need not exist. A path with a trailing slash refers to a
    /// directory; for any other file it fails as in POSIX (`NFS3ERR_NOTDIR`).
    pub async fn resolve(&self, path: impl AsRef<[u8]>) -> Result<Resolved, Error> {
        self.follow(path.as_ref(), true).await
    }

    /// Opens a directory by path; the result refers to it by its handle.
    pub async fn dir(&self, path: impl AsRef<[u8]>) -> Result<Dir, Error> {
        let path = path.as_ref();
        let found = self.walk(path, true).await?;
        match found.is_dir() {
            true => Ok(Dir::new(self, found.handle, path.to_vec())),
            false => Err(Error::failed(|| Escaped(path).to_string(), Status::Notdir)),
        }
    }

    /// Returns the file at a path. `follow` also resolves a symbolic link in the last name.
    pub(super) async fn walk(&self, path: &[u8], follow: bool) -> Result<Found, Error> {
        let missing = || Error::failed(|| Escaped(path).to_string(), Status::Noent);
        self.follow(path, follow).await?.found.ok_or_else(missing)
    }

    async fn follow(&self, path: &[u8], follow: bool) -> Result<Resolved, Error> {
        let mut names: VecDeque<Vec<u8>> = names(path);
        // Directories above `here`, which is `None` at the mounted directory.
        let mut above: Vec<Option<Found>> = Vec::new();
        let mut here: Option<Found> = None;
        let mut place: Option<(Handle, Vec<u8>)> = None;
        let (mut links, mut by_link) = (0, false);
        let not_a_directory = || Error::failed(|| Escaped(path).to_string(), Status::Notdir);
        let mut wants_directory = ends_as_directory(path);
        while let Some(name) = names.pop_front() {
            if name == b".." {
                if here.is_some_and(|here| !here.is_dir()) {
                    return Err(not_a_directory());
                }
                here = above.pop().flatten();
                place = None;
                continue;
            }
            let dir = here.map_or(self.root, |here| here.handle);
            let found = match self.look_up(dir, &name, path).await {
                Err(error) if names.is_empty() && error.status() == Some(Status::Noent) => {
                    let place = Some((Dir::new(self, dir, above_last(path)), name));
                    return Ok(Resolved { place, found: None, by_link });
                }
                found => found?,
            };
            let is_link = found.attributes.file_type == FileType::Symlink;
            if is_link && (follow || wants_directory || !names.is_empty()) {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Error::Loop { path: Escaped(path).to_string() });
                }
                let text = self.text_of(found.handle, path).await?;
                if text.starts_with(b"/") {
                    (here, above) = (None, Vec::new());
                }
                let mut all = self::names(&text);
                by_link |= names.is_empty();
                wants_directory |= names.is_empty() && ends_as_directory(&text);
                all.append(&mut names);
                names = all;
                place = None;
                continue;
            }
            above.push(here);
            here = Some(found);
            place = Some((dir, name));
        }
        let found = match here {
            Some(found) => found,
            None => self.found(self.root, path).await?,
        };
        if wants_directory && !found.is_dir() {
            return Err(not_a_directory());
        }
        let place = place.map(|(dir, name)| (Dir::new(self, dir, above_last(path)), name));
        Ok(Resolved { place, found: Some(found), by_link })
    }
}

pub(super) fn ends_as_directory(path: &[u8]) -> bool {
    matches!(path.rsplit(|byte| *byte == b'/').next(), Some(b"" | b"." | b".."))
}

/// Splits a path into names, without empty ones and dots.
fn names(path: &[u8]) -> VecDeque<Vec<u8>> {
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".");
    names.map(<[u8]>::to_vec).collect()
}

fn above_last(path: &[u8]) -> Vec<u8> {
    let ends = path.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
    let name_at = path[..ends].iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    path[..name_at].to_vec()
}
