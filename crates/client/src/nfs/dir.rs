//! The names in a directory.

use super::error::Error;
use super::mount::Mount;
use crate::listing::{Listing, NextPage, Page};
use onego_nfs::client::Call;
use onego_nfs::v3::{Attributes, Handle, Readdirplus, ReaddirplusArgs, Verifier};

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

/// Where a listing goes on.
#[derive(Clone, Copy)]
struct Cursor {
    cookie: u64,
    verifier: Verifier,
}

/// Lists the names in a directory, without `.` and `..`.
pub(super) fn list(mount: Mount, dir: Handle, path: &str) -> Listing<DirEntry, Error> {
    let start = Cursor { cookie: 0, verifier: Verifier::default() };
    Listing::new(page(mount, dir, path.to_owned(), start))
}

fn page(mount: Mount, dir: Handle, path: String, from: Cursor) -> NextPage<DirEntry, Error> {
    Box::pin(async move {
        let max_count = mount.facts.listing;
        let Cursor { cookie, verifier } = from;
        let args = ReaddirplusArgs { dir, cookie, verifier, dir_count: max_count, max_count };
        let call = Call { results_max: max_count as usize + 512, ..Call::new::<Readdirplus>(&args) };
        let listed = mount.change_by::<Readdirplus, _, _>(call, || format!("listing {path}")).await?;
        // A server that lists nothing, or the same again, would be asked for ever.
        let last = listed.entries.last().map(|entry| entry.cookie).filter(|last| *last != cookie);
        let last = last.filter(|_| !listed.eof);
        let names = listed.entries.into_iter().filter(|entry| ![&b"."[..], b".."].contains(&&*entry.name.0));
        let items = names.map(|entry| DirEntry {
            name: entry.name.0,
            fileid: entry.fileid,
            attributes: entry.attributes,
            handle: entry.file,
        });
        let items = items.collect();
        let next = last.map(|cookie| page(mount, dir, path, Cursor { cookie, verifier: listed.verifier }));
        Ok(Page { items, next })
    })
}
