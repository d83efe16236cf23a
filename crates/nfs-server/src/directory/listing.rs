//! READDIR and READDIRPLUS: the cookies are those of the file system below.

use super::system::{self, status};
use super::{Context, Directory, File, Results, Status};
use crate::budget::Budget;
use onego_nfs::v3::{self, Entry, EntryPlus, HANDLE_MAX, Name, ReaddirOk, ReaddirplusOk};
use rustix::fs::{self, OFlags, RawDir, SeekFrom};
use std::mem::MaybeUninit;

/// Bytes of names that are asked of the system at a time.
const BUFFER: usize = 32 << 10;

/// The verifier of all cookies: they are good for as long as the directory is.
const VERIFIER: [u8; 8] = [0; 8];

impl Directory {
    pub(super) fn list(&self, cx: Context<'_>, args: &v3::ReaddirArgs) -> Results<v3::Readdir> {
        let (attributes, (entries, eof)) = self.with(cx, &args.dir, |dir| {
            let budget = Budget::of_names(args.count)?;
            self.collect(dir, args.cookie, budget, |cookie, name, ino| Entry {
                fileid: if name == b".." { self.up(cx, dir).map_or(ino, |up| up.identity.ino) } else { ino },
                name: Name(name.into()),
                cookie,
            })
        })?;
        Ok(ReaddirOk { attributes, verifier: VERIFIER, entries, eof })
    }

    pub(super) fn list_plus(&self, cx: Context<'_>, args: &v3::ReaddirplusArgs) -> Results<v3::Readdirplus> {
        let (attributes, (entries, eof)) = self.with(cx, &args.dir, |dir| {
            let budget = Budget::of_files(args.max_count, args.dir_count, HANDLE_MAX)?;
            self.collect(dir, args.cookie, budget, |cookie, name, ino| {
                // What is gone in between, or not ours to give, or what LOOKUP would not give to the caller (who may only
                // read the directory), is a name and nothing else.
                let file = match name {
                    b"." => Some(dir.clone()),
                    b".." => self.up(cx, dir).ok(),
                    name => self.entry(dir, name).ok(),
                };
                EntryPlus {
                    fileid: file.as_ref().map_or(ino, |file| file.attributes.fileid),
                    name: Name(name.into()),
                    cookie,
                    attributes: file.as_ref().map(|file| file.attributes),
                    file: file.map(|file| self.handle(&file)),
                }
            })
        })?;
        Ok(ReaddirplusOk { attributes, verifier: VERIFIER, entries, eof })
    }

    /// The entries behind a cookie, as many as the budget allows; `true`: there are no more.
    fn collect<T>(
        &self,
        dir: &File,
        cookie: u64,
        mut budget: Budget,
        entry: impl Fn(u64, &[u8], u64) -> T,
    ) -> Result<(Vec<T>, bool), Status> {
        dir.demand_directory()?;
        let io = system::reopen(&dir.fd, OFlags::RDONLY | OFlags::DIRECTORY).map_err(status)?;
        if cookie != 0 {
            fs::seek(&io, SeekFrom::Start(cookie)).map_err(|_| Status::BadCookie)?;
        }
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
        let mut names = RawDir::new(&io, &mut buffer);
        let mut entries = Vec::new();
        while let Some(next) = names.next() {
            let next = next.map_err(status)?;
            let name = next.file_name().to_bytes();
            if !budget.take(name) {
                return if entries.is_empty() { Err(Status::Toosmall) } else { Ok((entries, false)) };
            }
            entries.push(entry(next.next_entry_cookie(), name, next.ino()));
        }
        Ok((entries, true))
    }
}
