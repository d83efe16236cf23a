//! What Ceph's libraries do and this one does not.

use crate::border::Errno;
use crate::runtime::lock;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// The error for a call that would have to mirror an image: EOPNOTSUPP. Standard error is told once which function was called.
pub(crate) fn no_mirroring(function: &'static str) -> Errno {
    static SAID: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    if lock(&SAID).insert(function) {
        eprintln!("onego: {function} is not supported yet where images are mirrored");
    }
    Errno::NOTSUP
}
