//! READDIR and READDIRPLUS (RFC 1813, sections 3.3.16 and 3.3.17).

use super::directory::{PARENT_COOKIE, SELF_COOKIE};
use super::node::Id;
use super::{Context, HANDLE_LEN, LISTING_MAX, Memory, Results, Status};
use crate::nfs::rights::Use;
use onego_nfs::v3::{self, Entry, EntryPlus, Name, ReaddirOk, ReaddirplusOk};
use onego_nfs::xdr::padding;

/// Bytes of optional attributes that are there.
const ATTRIBUTES_LEN: usize = 4 + 84;
/// Bytes of results beside their entries: attributes, verifier, the end of the chain, and whether it is the last.
const RESULTS_LEN: usize = ATTRIBUTES_LEN + 8 + 4 + 4;
/// Bytes of an optional handle that is there.
const OPTIONAL_HANDLE_LEN: usize = 4 + 4 + HANDLE_LEN + padding(HANDLE_LEN);

/// Bytes of an entry's number, name and cookie.
fn name_len(name: &[u8]) -> usize {
    8 + 4 + name.len() + padding(name.len()) + 8
}

/// How many bytes may be listed.
struct Budget {
    /// Bytes of results.
    results: usize,
    /// Bytes of numbers, names and cookies.
    names: usize,
}

impl Budget {
    fn new(results: u32, names: u32) -> Result<Self, Status> {
        let results = (results.min(LISTING_MAX) as usize).checked_sub(RESULTS_LEN).ok_or(Status::Toosmall)?;
        Ok(Self { results, names: names as usize })
    }

    /// Takes what an entry needs, if it is left.
    fn take(&mut self, name: &[u8], more: usize) -> bool {
        let names = name_len(name);
        // Each entry has a boolean before it.
        match (self.results.checked_sub(4 + names + more), self.names.checked_sub(names)) {
            (Some(results), Some(names)) => {
                *self = Self { results, names };
                true
            }
            _ => false,
        }
    }
}

impl Memory {
    pub(super) fn list(&mut self, cx: Context<'_>, args: &v3::ReaddirArgs) -> Results<v3::Readdir> {
        let (attributes, (entries, eof)) = self.with(&args.dir, |fs, dir| {
            let budget = Budget::new(args.count, u32::MAX)?;
            fs.collect(cx, dir, (args.cookie, args.verifier), budget, 0, |fs, cookie, name, id| Entry {
                fileid: fs.nodes[id].fileid,
                name: Name(name.into()),
                cookie,
            })
        })?;
        let verifier = self.instance.to_be_bytes();
        Ok(ReaddirOk { attributes: Some(attributes), verifier, entries, eof })
    }

    pub(super) fn list_plus(
        &mut self,
        cx: Context<'_>,
        args: &v3::ReaddirplusArgs,
    ) -> Results<v3::Readdirplus> {
        let more = ATTRIBUTES_LEN + OPTIONAL_HANDLE_LEN;
        let (attributes, (entries, eof)) = self.with(&args.dir, |fs, dir| {
            let budget = Budget::new(args.max_count, args.dir_count)?;
            fs.collect(cx, dir, (args.cookie, args.verifier), budget, more, |fs, cookie, name, id| {
                EntryPlus {
                    fileid: fs.nodes[id].fileid,
                    name: Name(name.into()),
                    cookie,
                    attributes: Some(fs.attributes_of(id)),
                    file: Some(fs.handle(id)),
                }
            })
        })?;
        let verifier = self.instance.to_be_bytes();
        Ok(ReaddirplusOk { attributes: Some(attributes), verifier, entries, eof })
    }

    /// The entries behind a cookie, as many as the budget allows; `true`: there are no more. Each takes `more` bytes
    /// beside its number, name and cookie.
    fn collect<T>(
        &mut self,
        cx: Context<'_>,
        dir: Id,
        (cookie, verifier): (u64, [u8; 8]),
        mut budget: Budget,
        more: usize,
        entry: impl Fn(&Self, u64, &[u8], Id) -> T,
    ) -> Result<(Vec<T>, bool), Status> {
        let directory = self.nodes[dir].directory()?;
        self.demand(cx, Use::Read, dir)?;
        // Cookies are good for as long as the directory is there, and it goes with the file system.
        if cookie != 0 && verifier != self.instance.to_be_bytes() {
            return Err(Status::BadCookie);
        }
        let dots = [(SELF_COOKIE, &b"."[..], dir), (PARENT_COOKIE, &b".."[..], directory.parent)];
        let dots = dots.into_iter().filter(|(own, ..)| *own > cookie);
        let mut entries = Vec::new();
        let mut eof = true;
        for (cookie, name, id) in dots.chain(directory.behind(cookie.max(PARENT_COOKIE))) {
            if !budget.take(name, more) {
                eof = false;
                break;
            }
            entries.push(entry(self, cookie, name, id));
        }
        if entries.is_empty() && !eof {
            return Err(Status::Toosmall);
        }
        let now = super::time(cx.now.as_nanos());
        let node = &mut self.nodes[dir];
        if node.atime <= node.mtime {
            node.atime = now;
        }
        Ok((entries, eof))
    }
}
