//! A block device of the kernel by seed: several queues, a daemon that is killed and followed by another, a device that fails, delays
//! and forgets, and crashes.

use crate::simulation::disk::{Asked, BLOCK, Disk, Value, What, bytes_of};
use crate::simulation::storage::{contents, failing_device, storage};
use crate::simulation::tally::tally;
use crate::support::kernel::{DISCARD, FLUSH, FUA, Kernel, READ, WRITE, ZEROES};
use onego_block::{Device as _, Export as _, Faults, Faulty, Volatile};
use onego_export::ublk::{Fetched, Target};
use onego_testkit::START;
use onego_wire::{Action, ConnTable, Machine as _, Time};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

const BLOCKS: usize = 256;
const SIZE: u64 = (BLOCKS * BLOCK) as u64;
const QUEUES: usize = 3;
const STEPS: usize = 600;
/// The longest that the device holds a request back, and the time by which it has all of those before.
const DELAY: Duration = Duration::from_millis(30);
const SETTLED: Duration = Duration::from_millis(200);

tally! {
    /// How often what happened.
    SeenByKernel {
        done,
        flushes,
        forced,
        failed,
        killed,
        alone,
        crashes,
        lost,
        kept,
    }
}

/// A process that serves the queues, all on one device.
struct Daemon {
    device: Rc<Faulty<Rc<Volatile>>>,
    targets: Vec<Target<Kernel>>,
    /// The device fails now.
    fails: bool,
}

pub(crate) struct SimulatedQueues {
    random: SmallRng,
    now: Time,
    storage: Rc<Volatile>,
    queues: Vec<Kernel>,
    daemon: Option<Daemon>,
    disk: Disk,
    in_flight: BTreeMap<(usize, u16), Asked>,
    /// Names what is written.
    last: Value,
    seen: SeenByKernel,
}

impl Daemon {
    fn start(random: &mut SmallRng, storage: &Rc<Volatile>, queues: &[Kernel], now: Time) -> Self {
        let device = failing_device(random, storage);
        let served = |queue: &Kernel| {
            let mut target = Target::new();
            target.serve(queue.clone(), Rc::clone(&device) as _).unwrap();
            assert!(matches!(target.next_action(now), Some(Action::Watch { .. })));
            target
        };
        let targets = queues.iter().map(served).collect();
        Self { device, targets, fails: false }
    }

    /// Does what reactors do, until nothing happens any more.
    fn turn(&mut self, queues: &[Kernel], now: Time) {
        loop {
            let is_due = self.device.due_at().is_some_and(|due| due <= now);
            if is_due {
                self.targets[0].timeout(now);
            }
            let mut moved = is_due;
            for (target, kernel) in self.targets.iter_mut().zip(queues) {
                let has_requests = !kernel.state().ready.is_empty();
                if has_requests {
                    target.ready(now, ConnTable::<()>::default().reserve());
                }
                moved |= has_requests || target.has_completions();
                assert!(target.next_action(now).is_none());
                assert!(target.failure().is_none());
            }
            if !moved {
                return;
            }
        }
    }
}

impl SimulatedQueues {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let storage = storage(&mut random, SIZE);
        let queues: Vec<Kernel> = (0..QUEUES).map(|_| Kernel::default()).collect();
        let daemon = Daemon::start(&mut random, &storage, &queues, START);
        Self {
            random,
            now: START,
            storage,
            queues,
            daemon: Some(daemon),
            disk: Disk::new(BLOCKS),
            in_flight: BTreeMap::new(),
            last: 0,
            seen: SeenByKernel::default(),
        }
    }

    pub(crate) fn run(mut self) -> SeenByKernel {
        for _ in 0..STEPS {
            match self.random.random_range(0..1000) {
                0..850 => self.ask(),
                850..880 => self.change_faults(),
                880..900 => self.kill(),
                900..906 => self.crash(),
                906..950 if self.daemon.is_none() => self.start(),
                _ => {}
            }
            let time = self.random.random_range(0..5_000_000);
            self.pass(Duration::from_nanos(time));
        }
        self.end();
        self.seen
    }

    fn start(&mut self) {
        self.daemon = Some(Daemon::start(&mut self.random, &self.storage, &self.queues, self.now));
    }

    /// The block layer asks for something whose outcome is clear.
    fn ask(&mut self) {
        let queue = self.random.random_range(0..QUEUES);
        let length = if self.random.random_bool(0.1) { 32 } else { self.random.random_range(1..12) };
        let first = self.random.random_range(0..=BLOCKS - length);
        let blocks = first..first + length;
        let (op, changes) = match self.random.random_range(0..20) {
            0..7 => (READ, false),
            7..14 => (WRITE, true),
            14..16 => (ZEROES, true),
            16 => (DISCARD, true),
            _ => (FLUSH, false),
        };
        if op != FLUSH && !self.disk.is_free(self.now, blocks.clone(), changes) {
            return;
        }
        self.last += 1;
        let forced = op == WRITE && self.random.random_bool(0.1);
        let data = if op == WRITE { bytes_of(self.last, length) } else { Vec::new() };
        let (sectors, start) = if op == FLUSH { (0, 0) } else { (length as u32, first as u64) };
        let op_flags = if forced { op | FUA } else { op };
        let Some(tag) = self.queues[queue].ask(op_flags, sectors, start, &data) else { return };
        let what = match op {
            READ => {
                self.disk.begin_read(blocks.clone());
                What::Read
            }
            FLUSH => What::Flush(self.disk.snapshot()),
            _ => {
                self.disk.begin_change(blocks.clone(), if op == WRITE { self.last } else { 0 });
                What::Change { forced }
            }
        };
        self.seen.alone += u64::from(self.daemon.is_none());
        let may_fail = self.daemon.as_ref().is_some_and(|daemon| daemon.fails);
        self.in_flight.insert((queue, tag), Asked { what, blocks, may_fail });
    }

    fn change_faults(&mut self) {
        let failing = if self.random.random_bool(0.5) { 0.0 } else { self.random.random_range(0.0..0.3) };
        let delay = if self.random.random_bool(0.3) { Duration::ZERO } else { DELAY };
        self.set_faults(Faults { failing, delay });
    }

    fn set_faults(&mut self, faults: Faults) {
        let Some(daemon) = &mut self.daemon else { return };
        daemon.device.set_faults(faults);
        daemon.fails = faults.failing > 0.0;
        if daemon.fails {
            self.in_flight.values_mut().for_each(|asked| asked.may_fail = true);
        }
    }

    /// The daemon is killed. What its device held back is never carried out, and its requests wait for the next one.
    fn kill(&mut self) {
        self.seen.killed += u64::from(self.daemon.is_some() && !self.in_flight.is_empty());
        self.daemon = None;
        self.queues.iter().for_each(Kernel::lose_server);
    }

    /// The power fails. What was not flushed is there or not, and what was asked for is forgotten.
    fn crash(&mut self) {
        self.look();
        self.kill();
        self.queues = (0..QUEUES).map(|_| Kernel::default()).collect();
        for asked in std::mem::take(&mut self.in_flight).into_values() {
            self.forget(asked);
        }
        let share = self.random.random_range(0.0..=1.0);
        self.storage.crash(|| self.random.random_bool(share));
        let (lost, kept) = self.disk.crashed(&contents(&*self.storage));
        self.seen.crashes += 1;
        self.seen.lost += lost;
        self.seen.kept += kept;
    }

    /// Nobody knows what came of a request.
    fn forget(&mut self, asked: Asked) {
        self.disk.forget(asked, self.now + SETTLED);
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        if let Some(daemon) = &mut self.daemon {
            daemon.turn(&self.queues, self.now);
        }
        self.look();
    }

    /// The block layer takes what has come of its requests.
    fn look(&mut self) {
        for queue in 0..QUEUES {
            while let Some((tag, (result, data))) = { self.queues[queue].state().done.pop_first() } {
                let asked = self.in_flight.remove(&(queue, tag)).expect("a request that is in flight, once");
                self.came_back(asked, result, &data);
            }
        }
    }

    fn came_back(&mut self, asked: Asked, result: i32, data: &[u8]) {
        if result < 0 {
            assert!(asked.may_fail && result == -5, "{result}, and the device has not failed");
            self.seen.failed += 1;
            return self.forget(asked);
        }
        self.seen.done += 1;
        match asked.what {
            What::Read => {
                self.disk.check(asked.blocks.start, data);
                self.disk.end_read(asked.blocks);
            }
            What::Change { forced } => {
                self.disk.changed(asked.blocks, forced);
                self.seen.forced += u64::from(forced);
            }
            What::Flush(snapshot) => {
                self.disk.flushed(&snapshot);
                self.seen.flushes += 1;
            }
            What::Status => unreachable!("the kernel does not ask for it"),
        }
    }

    /// All comes to rest, and the device is stopped.
    fn end(&mut self) {
        if self.daemon.is_none() {
            self.start();
        }
        self.set_faults(Faults { failing: 0.0, delay: Duration::ZERO });
        (0..10).for_each(|_| self.pass(SETTLED / 10));
        assert!(self.in_flight.is_empty(), "{} requests were never answered", self.in_flight.len());
        let bytes = contents(&*self.storage);
        self.disk.check(0, &bytes);
        for queue in &self.queues {
            let mut state = queue.state();
            let tags = std::mem::take(&mut state.idle);
            state.ready.extend(tags.into_keys().map(|tag| Fetched::Ended { tag, errno: 19 }));
        }
        self.pass(Duration::ZERO);
        let daemon = self.daemon.as_ref().expect("it was started");
        assert!(daemon.targets.iter().all(|target| target.is_over() && target.in_flight() == 0));
    }
}
