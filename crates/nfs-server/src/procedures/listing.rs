//! READDIR and READDIRPLUS (RFC 1813, sections 3.3.16 and 3.3.17).

use super::budget::Budget;
use super::inodes::{Listed, Names};
use super::names::check_directory;
use crate::file_system::Context;
use onego_nfs::v3::{Entry, EntryPlus, Name, ReaddirArgs, ReaddirplusArgs, Status, Verifier};

/// READDIR; `true`: there are no more entries.
pub(super) fn names<F: Names>(
    fs: &mut F,
    cx: Context<'_>,
    dir: &F::Inode,
    args: &ReaddirArgs,
) -> Result<(Vec<Entry>, bool), Status> {
    let budget = Budget::of_names(args.count)?;
    collect(fs, cx, dir, (args.cookie, args.verifier), budget, |fs, listed| {
        let Listed { cookie, name, mut fileid, inode } = listed;
        // Above the root there may be a directory that is not served.
        if name == b".."
            && inode.is_none()
            && let Ok(parent) = fs.parent(cx, dir)
        {
            fileid = fs.attributes(&parent).fileid;
        }
        Entry { fileid, name: Name(name.into()), cookie }
    })
}

/// READDIRPLUS; `true`: there are no more entries.
pub(super) fn files<F: Names>(
    fs: &mut F,
    cx: Context<'_>,
    dir: &F::Inode,
    args: &ReaddirplusArgs,
) -> Result<(Vec<EntryPlus>, bool), Status> {
    let budget = Budget::of_files(args.max_count, args.dir_count, F::HANDLE_LEN)?;
    collect(fs, cx, dir, (args.cookie, args.verifier), budget, |fs, listed| {
        let Listed { cookie, name, fileid, inode } = listed;
        // An entry that is gone meanwhile, that is not served, or that LOOKUP would not give to the caller (who may only
        // read the directory), is a name and nothing else.
        let inode = inode.or_else(|| match name {
            b"." => Some(dir.clone()),
            b".." => fs.parent(cx, dir).ok(),
            name => fs.entry(cx, dir, name).ok(),
        });
        let attributes = inode.as_ref().map(|inode| fs.attributes(inode));
        EntryPlus {
            fileid: attributes.map_or(fileid, |attributes| attributes.fileid),
            name: Name(name.into()),
            cookie,
            attributes,
            file: inode.map(|inode| fs.handle(&inode)),
        }
    })
}

/// The entries behind a cookie, as many as the budget allows; `true`: there are no more.
fn collect<F: Names, T>(
    fs: &mut F,
    cx: Context<'_>,
    dir: &F::Inode,
    (cookie, verifier): (u64, Verifier),
    mut budget: Budget,
    entry: impl Fn(&F, Listed<'_, F::Inode>) -> T,
) -> Result<(Vec<T>, bool), Status> {
    check_directory(fs, dir)?;
    if cookie != 0 && verifier != fs.cookie_verifier() {
        return Err(Status::BadCookie);
    }
    let (mut entries, mut eof) = (Vec::new(), true);
    fs.list(cx, dir, cookie, |fs, listed| {
        eof = budget.take(listed.name);
        if eof {
            entries.push(entry(fs, listed));
        }
        eof
    })?;
    if entries.is_empty() && !eof { Err(Status::Toosmall) } else { Ok((entries, eof)) }
}
