//! The names in a directory.

use super::{Error, Mount};
use onego_nfs::client::Call;
use onego_nfs::v3::{Attributes, Handle, Readdirplus, ReaddirplusArgs, Verifier};
use std::collections::VecDeque;

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The name: any bytes but a slash.
    pub name: Vec<u8>,
    /// Which file of the file system it is.
    pub fileid: u64,
    /// What is known of the file, if the server told.
    pub attributes: Option<Attributes>,
    /// Names it to the server, if that told.
    pub handle: Option<Handle>,
}

/// The names in a directory, without `.` and `..`, listed as they are asked for.
pub struct DirStream {
    mount: Mount,
    dir: Handle,
    path: String,
    cookie: u64,
    verifier: Verifier,
    entries: VecDeque<DirEntry>,
    ended: bool,
}

impl DirStream {
    pub(super) fn new(mount: Mount, dir: Handle, path: &str) -> Self {
        Self {
            mount,
            dir,
            path: path.to_owned(),
            cookie: 0,
            verifier: Verifier::default(),
            entries: VecDeque::new(),
            ended: false,
        }
    }

    /// The next name, until there is none.
    pub async fn next(&mut self) -> Result<Option<DirEntry>, Error> {
        while self.entries.is_empty() && !self.ended {
            self.list().await?;
        }
        Ok(self.entries.pop_front())
    }

    async fn list(&mut self) -> Result<(), Error> {
        let max_count = self.mount.facts.listing;
        let args = ReaddirplusArgs {
            dir: self.dir,
            cookie: self.cookie,
            verifier: self.verifier,
            dir_count: max_count,
            max_count,
        };
        let call = Call { results_max: max_count as usize + 512, ..Call::new::<Readdirplus>(&args) };
        let what = || format!("listing {}", self.path);
        let listed = self.mount.change_by::<Readdirplus, _, _>(call, what).await?;
        let last = listed.entries.last().map(|entry| entry.cookie);
        // A server that lists nothing, or the same again, would be asked for ever.
        self.ended = listed.eof || last.is_none_or(|cookie| cookie == self.cookie);
        (self.cookie, self.verifier) = (last.unwrap_or(self.cookie), listed.verifier);
        let names = listed.entries.into_iter().filter(|entry| ![&b"."[..], b".."].contains(&&*entry.name.0));
        self.entries.extend(names.map(|entry| DirEntry {
            name: entry.name.0,
            fileid: entry.fileid,
            attributes: entry.attributes,
            handle: entry.file,
        }));
        Ok(())
    }
}
