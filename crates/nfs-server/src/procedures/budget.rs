//! How much of a directory fits in a reply (RFC 1813, sections 3.3.16 and 3.3.17).

use super::limits::LISTING_MAX;
use onego_nfs::v3::Status;
use onego_nfs::xdr::padding;

/// Bytes of optional attributes that are there.
const ATTRIBUTES_LEN: usize = 4 + 84;
/// Bytes of results beside their entries: attributes, verifier, the end of the chain, and whether it is the last.
const RESULTS_LEN: usize = ATTRIBUTES_LEN + 8 + 4 + 4;

/// Bytes of an entry's number, name and cookie.
fn name_len(name: &[u8]) -> usize {
    8 + 4 + name.len() + padding(name.len()) + 8
}

/// How many bytes of a listing are left.
pub(super) struct Budget {
    /// Bytes of results.
    results: usize,
    /// Bytes of an entry beside its number, its name and its cookie.
    more: usize,
    /// Bytes of numbers, names and cookies.
    names: usize,
}

impl Budget {
    /// The budget of READDIR, whose results may have `count` bytes.
    pub(super) fn of_names(count: u32) -> Result<Self, Status> {
        Self::new(count, u32::MAX, 0)
    }

    /// The budget of READDIRPLUS, whose entries have handles of at most `handle_len` bytes.
    pub(super) fn of_files(max_count: u32, dir_count: u32, handle_len: usize) -> Result<Self, Status> {
        let handle = 4 + 4 + handle_len + padding(handle_len);
        Self::new(max_count, dir_count, ATTRIBUTES_LEN + handle)
    }

    fn new(results: u32, names: u32, more: usize) -> Result<Self, Status> {
        let results = (results.min(LISTING_MAX) as usize).checked_sub(RESULTS_LEN).ok_or(Status::Toosmall)?;
        Ok(Self { results, names: names as usize, more })
    }

    /// Takes what an entry of that name needs. `false`: less is left.
    pub(super) fn take(&mut self, name: &[u8]) -> bool {
        let names = name_len(name);
        // Each entry has a boolean before it.
        let results = self.results.checked_sub(4 + names + self.more);
        match results.zip(self.names.checked_sub(names)) {
            Some((results, names)) => {
                (self.results, self.names) = (results, names);
                true
            }
            None => false,
        }
    }
}
