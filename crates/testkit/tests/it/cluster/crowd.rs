//! More clients and more writes than one placement group remembers outcomes of.

use super::disk::Disk;
use super::kept::Kept;
use super::user::{User, client_addr};
use super::wire::Wire;
use super::world::settings;
use onego_cluster::{NewPool, Settings};
use onego_testkit::{Faults, Sim};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::time::Duration;

/// Clients that write to the group in turns.
const CLIENTS: u8 = 6;

/// Writes of each client that are on their way when its connection breaks.
const BURST: u64 = 24;

/// Bursts: together 24,480 writes, which is several times what a group remembers, and more than that in half of them.
const BURSTS: u64 = 170;

/// Time between two requests: those of all clients arrive mixed.
const PAUSE: Duration = Duration::from_micros(10);

/// Time from one side to the other. Requests are carried out one latency after they are sent; their replies never arrive,
/// because the connections break before the second.
const LATENCY: Duration = Duration::from_millis(1);

/// OSDs, all of which have the group.
const OSDS: u8 = 3;

/// Why clients send requests again.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    /// Their connections break.
    Connections,
    /// The group's primary is said to be down, and another one takes its place.
    Primary,
    /// The cluster's machine loses its power.
    Crash,
}

/// A cluster in which all objects are in one group.
fn one_group(wire: &Wire, life: u32) -> Settings {
    let settings = settings(wire, life, OSDS, OSDS.into());
    let pool = NewPool { pg_num: 1, size: Some(OSDS.into()), ..NewPool::for_images("rbd") };
    Settings { pools: vec![pool], ..settings }
}

/// Lets clients write in bursts, after each of which there is trouble before anybody has a reply.
fn write_with(trouble: Trouble, bursts: u64) {
    let wire = Wire::open();
    let random = &mut SmallRng::seed_from_u64(1);
    let mut sim = Sim::new(1, Faults { latency: LATENCY..=LATENCY, ..Faults::none() });
    let mut cluster = Kept::start(&sim, Disk::new(1), one_group(&wire, 0));
    let pool = cluster.pool();
    let mut users: Vec<User> = (0..CLIENTS).map(|n| User::new(&sim, &wire, n, 1)).collect();
    users.iter_mut().for_each(|user| user.read_everything(pool));
    cluster.run_until_answered(&mut sim, &mut users);
    for burst in 0..bursts {
        for _ in 0..BURST {
            users.iter_mut().for_each(|user| user.make_small_write(random, pool));
            cluster.run_for(&mut sim, &mut users, PAUSE);
        }
        match trouble {
            Trouble::Connections => {
                cluster.run_for(&mut sim, &mut users, LATENCY);
                (0..CLIENTS).for_each(|user| sim.reset(client_addr(user)));
            }
            Trouble::Primary => {
                cluster.run_for(&mut sim, &mut users, LATENCY);
                cluster.machine_mut().mark_osd_down(sim.now(), burst as i32 % i32::from(OSDS));
            }
            Trouble::Crash => {
                // Some of it is durable by then, and some of that is told.
                let time = random.random_range(LATENCY..5 * LATENCY);
                cluster.run_for(&mut sim, &mut users, time);
                cluster.crash(&sim, one_group(&wire, burst as u32 + 1));
            }
        }
        cluster.run_until_answered(&mut sim, &mut users);
    }
    users.iter_mut().for_each(|user| user.read_everything(pool));
    cluster.run_until_answered(&mut sim, &mut users);
}

#[test]
fn a_client_whose_connection_breaks_is_not_served_twice_however_much_others_write() {
    write_with(Trouble::Connections, BURSTS);
}

#[test]
fn a_new_primary_knows_what_the_one_before_has_done_for_many_clients() {
    write_with(Trouble::Primary, BURSTS / 2);
}

#[test]
fn what_was_done_for_many_clients_is_known_after_a_crash() {
    write_with(Trouble::Crash, BURSTS / 2);
}
