//! The floor of coverage: a harness in which no call succeeds finds nothing.

use super::backend::Backend;
use super::{Op, Set, World};
use onego_nfs::rpc::Procedure as _;
use onego_nfs::v3::Commit;

const NONE: Set = Set { mode: None, uid: None, gid: None, size: None, times: 0 };
const ROOT: u8 = 0;
const FILE: u8 = 1;
const LINK: u8 = 2;
const DIR: u8 = 3;
/// Numbers of names that are free at first.
const A: u8 = 5;
const B: u8 = 6;
const C: u8 = 7;

/// Calls that all succeed, one of each procedure at least.
const CALLS: [Op; 27] = [
    Op::Null,
    Op::Create { place: (ROOT, A), how: 1, set: NONE },
    Op::Symlink { place: (ROOT, B), set: NONE, len: 3 },
    Op::Mkdir { place: (ROOT, C), set: NONE },
    Op::Mknod { place: (DIR, A), set: NONE, what: 3 },
    Op::Write { file: FILE, offset: 1, len: 100, far: false, stable: 0 },
    Op::Read { file: FILE, offset: 0, count: 1000 },
    Op::Commit { file: FILE, offset: 0, count: 0 },
    Op::Getattr(FILE),
    Op::Setattr { file: FILE, set: Set { mode: Some(0o600), ..NONE }, guard: false },
    Op::Access(FILE),
    Op::Lookup(ROOT, A),
    Op::Readlink(LINK),
    Op::Link { file: FILE, place: (DIR, B) },
    Op::Rename { from: (DIR, B), to: (DIR, C) },
    Op::Readdir { dir: ROOT, cookie: 0, count: 4096 },
    Op::Readdirplus { dir: ROOT, cookie: 0, names: 4096, max: 8192 },
    Op::Fsstat(ROOT),
    Op::Fsinfo(ROOT),
    Op::Pathconf(ROOT),
    Op::Remove(DIR, C),
    Op::Remove(DIR, A),
    Op::Rmdir(ROOT, C),
    Op::Export,
    Op::Dump,
    Op::Unmount,
    Op::Mount,
];

/// Checks that every procedure can succeed, over TCP and over RDMA.
pub fn check_floor<B: Backend>() {
    for rdma in [false, true] {
        let mut world = World::<B>::new(0);
        world.begin();
        CALLS.iter().for_each(|call| world.op(rdma, call));
        let never = (0..=Commit::NUMBER).filter(|number| !world.succeeded.contains(number));
        let never: Vec<_> = never.collect();
        assert!(never.is_empty(), "procedures that have never succeeded: {never:?}");
        world.end();
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Exported, InMemory};
    use super::*;

    #[test]
    fn every_procedure_succeeds_on_both_file_systems() {
        check_floor::<InMemory>();
        check_floor::<Exported>();
    }
}
