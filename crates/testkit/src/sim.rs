//! Virtual time: who runs next, and when.
use crate::faults::Faults;
use crate::network::Network;
use crate::sim_engine::SimEngine;
use onego_engine::{Pump, Wait};
use onego_wire::{Machine, Time};
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

/// Steps without a step of the clock: a node that wants to run again and again at one instant never rests.
const MAX_STEPS_AT_ONCE: u64 = 1_000_000;

/// A simulated network with virtual time, all of it decided by one seed.
///
/// Several [`Pump`]s with any machines run on it in one thread. The clock moves only when nobody has anything left
/// to do, and then straight to the next event. Nothing depends on the real clock, on addresses in memory or on the
/// order of hash tables: the same seed and the same test give the same [`trace`](Self::trace).
///
/// A node is started by [`engine`](Self::engine) and dies when its pump (with the engine) is dropped: its
/// connections are reset and it may be started again at the same address.
///
/// ```
/// # use onego_engine::Pump;
/// # use onego_testkit::{Faults, Frames, FrameEvent, Sim};
/// let mut sim = Sim::new(1, Faults::ragged());
/// let mut server = Pump::new(sim.engine("10.0.0.1".parse().unwrap()), Frames::echo());
/// let mut client = Pump::new(sim.engine("10.0.0.2".parse().unwrap()), Frames::default());
/// server.machine_mut().listen(0, "10.0.0.1:6800".parse().unwrap());
/// sim.settle(&mut [&mut server]);
/// let conn = client.machine_mut().connect("10.0.0.1:6800".parse().unwrap());
/// client.machine_mut().send(conn, b"hello".to_vec());
/// sim.settle(&mut [&mut server, &mut client]);
/// assert!(matches!(client.machine().events.back(), Some(FrameEvent::Frame(..))));
/// ```
pub struct Sim {
    network: Rc<RefCell<Network>>,
    steps_at_once: u64,
}

/// A pump on the simulated network, whatever its machine.
pub trait Node {
    /// The address it was started at.
    fn addr(&self) -> IpAddr;
    /// When it wants to run, if nothing happens to it before.
    fn deadline(&self) -> Option<Time>;
    /// One turn.
    fn turn(&mut self);
}

impl<M: Machine> Node for Pump<SimEngine, M> {
    fn addr(&self) -> IpAddr {
        self.engine().addr()
    }

    fn deadline(&self) -> Option<Time> {
        Pump::deadline(self)
    }

    fn turn(&mut self) {
        Pump::turn(self, Wait::Forever).expect("the simulated engine does not fail");
    }
}

impl Sim {
    /// A network of that seed.
    pub fn new(seed: u64, faults: Faults) -> Self {
        Self { network: Rc::new(RefCell::new(Network::new(seed, faults))), steps_at_once: 0 }
    }

    /// Starts a node at `addr`: the engine for its pump.
    ///
    /// # Panics
    /// If a node runs there already.
    pub fn engine(&self, addr: IpAddr) -> SimEngine {
        SimEngine::start(Rc::clone(&self.network), addr)
    }

    /// The virtual time. It starts in the year 2020.
    pub fn now(&self) -> Time {
        self.network.borrow().now
    }

    /// Changes what goes wrong from here on.
    pub fn set_faults(&mut self, faults: Faults) {
        self.network.borrow_mut().set_faults(faults);
    }

    /// Cuts the link between two nodes, both ways. What is under way waits for the link to heal, as TCP would send
    /// it again.
    pub fn cut(&mut self, a: IpAddr, b: IpAddr) {
        self.cut_one_way(a, b);
        self.cut_one_way(b, a);
    }

    /// Cuts the link for what goes `from` one node `to` the other.
    pub fn cut_one_way(&mut self, from: IpAddr, to: IpAddr) {
        self.network.borrow_mut().cut(from, to);
    }

    /// Heals the link between two nodes, both ways.
    pub fn heal(&mut self, a: IpAddr, b: IpAddr) {
        let mut network = self.network.borrow_mut();
        network.heal(a, b);
        network.heal(b, a);
    }

    /// Heals all links.
    pub fn heal_all(&mut self) {
        self.network.borrow_mut().heal_all();
    }

    /// Resets all connections of a node; it goes on itself.
    pub fn reset(&mut self, addr: IpAddr) {
        self.network.borrow_mut().reset_all(addr);
    }

    /// Everything that happened so far, as a hash.
    pub fn trace(&self) -> u64 {
        self.network.borrow().trace.hash()
    }

    /// The same without what the bytes were: for nodes that have numbers of the real world in their messages, as those of
    /// files.
    pub fn course(&self) -> u64 {
        self.network.borrow().trace.course()
    }

    /// One turn of one node that has something to do (which one, the seed decides), or else one move of the clock
    /// to the next event or deadline. `false`: nothing will ever happen again.
    ///
    /// # Panics
    /// If the nodes go on for ever without the clock moving.
    pub fn step(&mut self, nodes: &mut [&mut dyn Node]) -> bool {
        let deadlines: Vec<Option<Time>> = nodes.iter().map(|node| node.deadline()).collect();
        let mut network = self.network.borrow_mut();
        let now = network.now;
        let is_due = |i: usize| {
            network.has_events(nodes[i].addr()) || deadlines[i].is_some_and(|deadline| deadline <= now)
        };
        let due: Vec<usize> = (0..nodes.len()).filter(|&i| is_due(i)).collect();
        if !due.is_empty() {
            self.steps_at_once += 1;
            assert!(self.steps_at_once < MAX_STEPS_AT_ONCE, "the nodes never rest at {now:?}");
            let i = due[network.below(due.len())];
            drop(network);
            nodes[i].turn();
            return true;
        }
        let deadline = deadlines.into_iter().flatten().min();
        let Some(next) = network.next_event().into_iter().chain(deadline).min() else { return false };
        self.steps_at_once = 0;
        network.advance(next);
        true
    }

    /// Runs for that long.
    pub fn run_for(&mut self, nodes: &mut [&mut dyn Node], time: Duration) {
        self.run_until(nodes, self.now() + time);
    }

    /// Has the clock stop at that time, whatever happens then.
    pub fn stop_at(&mut self, time: Time) {
        self.network.borrow_mut().stop_at(time);
    }

    /// Runs until that time.
    pub fn run_until(&mut self, nodes: &mut [&mut dyn Node], time: Time) {
        // An event of the network's own, so that the clock stops there.
        self.network.borrow_mut().stop_at(time);
        while self.now() < time && self.step(nodes) {}
    }

    /// Runs until nothing will ever happen again. With periodic deadlines or cuts that never comes: use
    /// [`step`](Self::step) and a condition, or [`run_for`](Self::run_for).
    pub fn settle(&mut self, nodes: &mut [&mut dyn Node]) {
        while self.step(nodes) {}
    }
}
