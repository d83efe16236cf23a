//! Errors of the disk at each operation, one after the other: whatever fails, what was acknowledged is there afterwards.

use super::disk::Disk;
use super::kept::Kept;
use super::user::User;
use super::wire::Wire;
use super::world::settings;
use onego_testkit::{Faults, Sim};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::slice::from_mut;

const ENOSPC: i32 = 28;
const EIO: i32 = 5;

const OSDS: u8 = 3;
const COPIES: u32 = 2;

/// Writes that are made, and how many at a time.
const WRITES: usize = 60;
const AT_ONCE: usize = 4;

/// Writes to a cluster of several OSDs while the disk fails at its `at`th operation from the first write on. Whether it
/// came to that.
fn writes_with_an_error(at: u64, errno: i32, checkpoints: &mut u32) -> bool {
    let wire = Wire::open();
    let mut sim = Sim::new(at, Faults::none());
    let random = &mut SmallRng::seed_from_u64(at);
    let again = |crashes: u64| settings(&wire, crashes as u32, OSDS, COPIES);
    let mut cluster = Kept::start(&sim, Disk::new(at), again(0));
    let pool = cluster.pool();
    let mut user = User::new(&sim, &wire, 0, at);
    user.read_everything(pool);
    cluster.run_until_answered(&mut sim, from_mut(&mut user));
    cluster.disk().fail_after(at, errno);
    let mut made = 0;
    while made < WRITES || !user.waiting.is_empty() {
        while made < WRITES && user.waiting.len() < AT_ONCE {
            user.make_small_write(random, pool);
            made += 1;
        }
        cluster.step(&mut sim, from_mut(&mut user));
        if cluster.has_failed() {
            // The client is the same, and sends again what was not answered: done twice it would show, lost as well.
            cluster.crash(&sim, again(1));
        }
    }
    let failed = cluster.crashes > 0;
    cluster.disk().fail_after(u64::MAX, 0);
    // All was acknowledged: it is there now, and after a crash, too, by which nobody sends anything again.
    for _ in 0..2 {
        user.read_everything(pool);
        cluster.run_until_answered(&mut sim, from_mut(&mut user));
        cluster.crash(&sim, again(2));
    }
    *checkpoints += cluster.checkpoints();
    failed
}

#[test]
fn whichever_operation_of_the_disk_fails_nothing_is_lost_and_nothing_done_twice() {
    for errno in [ENOSPC, EIO] {
        let mut checkpoints = 0;
        // The first is 1: every operation is an error until the disk is another.
        let operations = (1..).take_while(|at| writes_with_an_error(*at, errno, &mut checkpoints)).count();
        assert!(operations > 50, "{operations} operations failed");
        assert!(checkpoints > 50, "{checkpoints} checkpoints");
    }
}
