//! READDIR and READDIRPLUS (RFC 1813, sections 3.3.16 and 3.3.17).

use super::directory::{PARENT_COOKIE, SELF_COOKIE};
use super::node::Id;
use super::{Context, HANDLE_LEN, Memory, Results, Status};
use crate::budget::Budget;
use crate::rights::Use;
use onego_nfs::v3::{self, Entry, EntryPlus, Name, ReaddirOk, ReaddirplusOk};

impl Memory {
    pub(super) fn list(&mut self, cx: Context<'_>, args: &v3::ReaddirArgs) -> Results<v3::Readdir> {
        let (attributes, (entries, eof)) = self.with(&args.dir, |fs, dir| {
            let budget = Budget::of_names(args.count)?;
            fs.collect(cx, dir, (args.cookie, args.verifier), budget, |fs, cookie, name, id| Entry {
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
        let (attributes, (entries, eof)) = self.with(&args.dir, |fs, dir| {
            let budget = Budget::of_files(args.max_count, args.dir_count, HANDLE_LEN)?;
            fs.collect(cx, dir, (args.cookie, args.verifier), budget, |fs, cookie, name, id| EntryPlus {
                fileid: fs.nodes[id].fileid,
                name: Name(name.into()),
                cookie,
                attributes: Some(fs.attributes_of(id)),
                file: Some(fs.handle(id)),
            })
        })?;
        let verifier = self.instance.to_be_bytes();
        Ok(ReaddirplusOk { attributes: Some(attributes), verifier, entries, eof })
    }

    /// The entries behind a cookie, as many as the budget allows; `true`: there are no more.
    fn collect<T>(
        &mut self,
        cx: Context<'_>,
        dir: Id,
        (cookie, verifier): (u64, [u8; 8]),
        mut budget: Budget,
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
            if !budget.take(name) {
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
