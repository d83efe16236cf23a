//! Clients whose tickets run out.

use super::disk::Disk;
use super::kept::Kept;
use super::user::{User, client_addr};
use super::wire::Wire;
use super::world::{SERVER, settings};
use onego_cluster::{ClusterMachine, Lifetimes};
use onego_engine::Pump;
use onego_msgr::addr::Versions;
use onego_testkit::{Faults, Sim};
use std::slice::from_mut;
use std::time::Duration;

const LIFETIMES: Lifetimes = Lifetimes { monitor: Duration::from_secs(3), service: Duration::from_secs(1) };

#[test]
fn who_could_not_reach_the_cluster_for_longer_than_tickets_are_good_goes_on() {
    // The ticket for the monitors has run out, or its key is forgotten, too.
    for (versions, lifetimes) in
        [(Versions::Two, 2), (Versions::Two, 6), (Versions::One, 2), (Versions::One, 6)]
    {
        let wire = Wire::with_keys(versions, LIFETIMES);
        let mut sim = Sim::new(1, Faults::none());
        let mut server = Pump::new(sim.engine(SERVER), ClusterMachine::new(settings(&wire, 0, 1, 1)));
        sim.run_for(&mut [&mut server], Duration::from_millis(10));
        let pool = server.machine().osdmap().and_then(|map| map.pool_id("rbd")).expect("there is a pool");
        let mut user = User::new(&sim, &wire, 0, 1);
        for away in [Duration::ZERO, LIFETIMES.monitor * lifetimes] {
            sim.cut(SERVER, client_addr(0));
            sim.run_for(&mut [&mut server, &mut user.pump], away);
            sim.heal_all();
            user.read_everything(pool);
            sim.run_for(&mut [&mut server, &mut user.pump], Duration::from_secs(5));
            user.take_replies();
            assert!(user.waiting.is_empty(), "{versions:?}, {lifetimes} lifetimes");
        }
    }
}

#[test]
fn tickets_of_before_a_restart_are_good_after_it() {
    for versions in [Versions::Two, Versions::One] {
        let wire = Wire::with_keys(versions, Lifetimes::default());
        let mut sim = Sim::new(1, Faults::none());
        let mut cluster = Kept::start(&sim, Disk::new(1), settings(&wire, 0, 1, 1));
        let mut user = User::new(&sim, &wire, 0, 1);
        for life in 1..4 {
            user.read_everything(cluster.pool());
            cluster.run_until_answered(&mut sim, from_mut(&mut user));
            cluster.crash(&sim, settings(&wire, life, 1, 1));
        }
        user.read_everything(cluster.pool());
        cluster.run_until_answered(&mut sim, from_mut(&mut user));
        assert_eq!((user.refused_tickets, cluster.crashes), (0, 3), "{versions:?}");
    }
}
