//! Object classes: methods that run next to an object.
//!
//! Sources: ceph `src/osd/ClassHandler.cc`, `src/osd/objclass.cc`.

mod cas;
mod context;
mod hello;
mod lock;
mod log;
mod method;
mod queue;
mod rbd;
#[cfg(test)]
mod tests;
mod values;

pub(super) use context::Context;
pub(super) use method::Entry;

use method::method;
use onego_ceph::cls::lock as lock_class;

/// The method of that name. What is not found is refused with EOPNOTSUPP before anything is done, like a class that is
/// not installed (ceph `src/osd/osd_op_util.cc`).
pub(super) fn find(class: &str, name: &str) -> Option<&'static Entry> {
    all().find(|method| method.name == name && method.class == class)
}

fn all() -> impl Iterator<Item = &'static Entry> {
    let tables =
        [METHODS, rbd::METHODS, hello::METHODS, values::METHODS, log::METHODS, cas::METHODS, queue::METHODS];
    tables.into_iter().flatten()
}

static METHODS: &[Entry] = &[
    method!(write lock_class::Lock => lock::lock),
    method!(write lock_class::Unlock => lock::unlock),
    method!(write lock_class::BreakLock => lock::break_lock),
    method!(read lock_class::GetInfo => lock::get_info),
    method!(read lock_class::ListLocks => lock::list_locks),
    method!(read lock_class::AssertLocked => lock::assert_locked),
    method!(write lock_class::SetCookie => lock::set_cookie),
];
