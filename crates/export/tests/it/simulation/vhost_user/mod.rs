//! A disk of virtual machines by seed: a driver with several queues, connections that are cut, servers that are killed and followed by
//! others, guests that lie, a device that fails, delays and forgets, and crashes.

mod front;
mod guest;

use crate::simulation::disk::{Asked, BLOCK, Disk, Value, What, bytes_of};
use crate::simulation::storage::{contents, failing_device, storage};
use crate::simulation::tally::tally;
use front::{EVENT_INDEX, FLUSH, Front, INDIRECT, served};
use guest::{Data, DriverOptions, Guest, GuestSpan, UsedRequest};
use onego_block::{Faults, Faulty, Volatile};
use onego_export::vhost_user::DiskServer;
use onego_testkit::{DrivenServer, START};
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

/// Types of requests (virtio 5.2.6), and those whose answers are all the same.
const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH_ALL: u32 = 4;
const DISCARD: u32 = 11;
const ZEROES: u32 = 13;

tally! {
    /// How often what happened.
    SeenByGuests {
        done,
        flushes,
        durable,
        failed,
        unannounced,
        cut,
        killed,
        resubmitted,
        stopped,
        replaced,
        lies,
        broken,
        given_up,
        crashes,
        lost,
        kept,
    }
}

pub(crate) struct SimulatedDisk {
    random: SmallRng,
    server: DrivenServer<DiskServer>,
    storage: Rc<Volatile>,
    device: Rc<Faulty<Rc<Volatile>>>,
    /// The device fails now.
    fails: bool,
    disk: Disk,
    guest: Guest,
    front: Front,
    /// The front end has a connection.
    connected: bool,
    /// The queue that is being stopped.
    stopping: Option<usize>,
    in_flight: BTreeMap<(usize, u16), Asked>,
    /// Names what is written.
    last: Value,
    seen: SeenByGuests,
}

/// A guest and its front end, with features by chance.
fn booted(random: &mut SmallRng) -> (Guest, Front) {
    let options = DriverOptions {
        queue_size: 1 << random.random_range(2..=4),
        event_index: random.random(),
        indirect: random.random(),
    };
    let bits =
        [(options.event_index, EVENT_INDEX), (options.indirect, INDIRECT), (random.random_bool(0.8), FLUSH)];
    let features = bits.iter().fold(0, |all, (has, bit)| if *has { all | bit } else { all });
    (Guest::new(options, QUEUES), Front::new(features))
}

impl SimulatedDisk {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let storage = storage(&mut random, SIZE);
        let device = failing_device(&mut random, &storage);
        let mut server = served(Rc::clone(&device) as _, QUEUES);
        server.now = START;
        let (guest, front) = booted(&mut random);
        let mut this = Self {
            random,
            server,
            storage,
            device,
            fails: false,
            disk: Disk::new(BLOCKS),
            guest,
            front,
            connected: false,
            stopping: None,
            in_flight: BTreeMap::new(),
            last: 0,
            seen: SeenByGuests::default(),
        };
        this.connect();
        this
    }

    pub(crate) fn run(mut self) -> SeenByGuests {
        for _ in 0..STEPS {
            match self.random.random_range(0..1000) {
                0..850 => self.ask(),
                850..870 => self.stop(),
                870..890 => self.change_faults(),
                890..910 => {
                    self.cut();
                    // While the device still has what was cut off, or later.
                    if self.random.random() {
                        self.connect();
                    }
                }
                910..920 => self.kill(),
                920..924 => self.replace(),
                924..930 => self.lie(),
                930..934 => self.crash(),
                934..960 if !self.connected => self.connect(),
                _ => {}
            }
            let time = self.random.random_range(0..5_000_000);
            self.pass(Duration::from_nanos(time));
        }
        self.end();
        self.seen
    }

    fn connect(&mut self) {
        self.server.cut = if self.random.random() { usize::MAX } else { self.random.random_range(1..40) };
        self.front.connect(&mut self.server, &self.guest);
        self.connected = true;
    }

    /// The driver asks for something whose outcome is clear.
    fn ask(&mut self) {
        let queue = self.random.random_range(0..QUEUES);
        let length = if self.random.random_bool(0.1) { 64 } else { self.random.random_range(1..12) };
        let first = self.random.random_range(0..=BLOCKS - length);
        let blocks = first..first + length;
        let (kind, changes) = match self.random.random_range(0..20) {
            0..7 => (READ, false),
            7..14 => (WRITE, true),
            14..16 => (ZEROES, true),
            16 => (DISCARD, true),
            _ => (FLUSH_ALL, false),
        };
        let can_flush = self.front.features & FLUSH != 0;
        let is_clear = if kind == FLUSH_ALL {
            can_flush
        } else {
            self.disk.is_free(self.server.now, blocks.clone(), changes)
        };
        if !self.guest.has_room(queue) || !is_clear {
            return;
        }
        self.last += 1;
        let range = [(first as u64).to_le_bytes(), (length as u64).to_le_bytes()].concat();
        // Without flushes, what is written has to be durable.
        let change = What::Change { forced: !can_flush };
        let (what, data) = match kind {
            READ => {
                self.disk.begin_read(blocks.clone());
                (What::Read, Data::In(length * BLOCK))
            }
            WRITE => {
                self.disk.begin_change(blocks.clone(), self.last);
                (change, Data::Out(bytes_of(self.last, length)))
            }
            FLUSH_ALL => (What::Flush(self.disk.snapshot()), Data::Out(Vec::new())),
            _ => {
                self.disk.begin_change(blocks.clone(), 0);
                (change, Data::Out(range))
            }
        };
        let sector = if matches!(kind, READ | WRITE) { first as u64 } else { 0 };
        let head = self.guest.offer(&mut self.random, queue, kind, sector, &data);
        let asked = Asked { what, blocks, may_fail: self.fails };
        assert!(self.in_flight.insert((queue, head), asked).is_none(), "a descriptor is in two chains");
        // A batch is announced with its last request.
        if self.random.random_bool(0.8) {
            self.seen.unannounced += u64::from(!self.guest.announce(queue));
        }
    }

    /// A queue is stopped, and goes on once it has: what a front end does that moves its guest.
    fn stop(&mut self) {
        if self.connected && self.stopping.is_none() {
            let queue = self.random.random_range(0..QUEUES);
            self.front.stop(&mut self.server, queue);
            self.stopping = Some(queue);
        }
    }

    fn change_faults(&mut self) {
        let failing = if self.random.random_bool(0.5) { 0.0 } else { self.random.random_range(0.0..0.3) };
        let delay = if self.random.random_bool(0.3) { Duration::ZERO } else { DELAY };
        self.set_faults(Faults { failing, delay });
    }

    fn set_faults(&mut self, faults: Faults) {
        self.device.set_faults(faults);
        self.fails = faults.failing > 0.0;
        if self.fails {
            self.in_flight.values_mut().for_each(|asked| asked.may_fail = true);
        }
    }

    /// The connection breaks. What the server has begun goes on.
    fn cut(&mut self) {
        self.front.disconnect(&mut self.server);
        self.seen.cut += u64::from(self.connected && !self.in_flight.is_empty());
        (self.connected, self.stopping) = (false, None);
    }

    /// The server's process is killed, maybe before it has told its guest what it did, and another one is started.
    fn kill(&mut self) {
        self.server.mute = self.random.random();
        self.server.pass(Duration::from_millis(1));
        self.restart();
        self.seen.killed += u64::from(!self.in_flight.is_empty());
    }

    fn restart(&mut self) {
        let now = self.server.now;
        self.count();
        // What the device before held back is never carried out.
        self.device = failing_device(&mut self.random, &self.storage);
        self.server = served(Rc::clone(&self.device) as _, QUEUES);
        self.server.now = now;
        (self.fails, self.connected, self.stopping) = (false, false, None);
        self.front.forget_connection();
    }

    /// Takes over what a server has counted, whose end it is.
    fn count(&mut self) {
        let counters = self.server.machine.counters();
        self.seen.resubmitted += counters.resubmitted;
        self.seen.broken += counters.broken;
        self.seen.given_up += counters.given_up;
    }

    /// The virtual machine is switched off and another one started. Nobody will ever know what came of its requests.
    fn replace(&mut self) {
        self.cut();
        self.seen.replaced += 1;
        let until = self.server.now + SETTLED;
        for asked in std::mem::take(&mut self.in_flight).into_values() {
            self.disk.forget(asked, until);
        }
        (self.guest, self.front) = booted(&mut self.random);
    }

    /// Another guest uses the disk meanwhile, and lies: nothing of what it asks for may have an effect.
    fn lie(&mut self) {
        self.cut();
        let (mut guest, mut front) = booted(&mut self.random);
        front.connect(&mut self.server, &guest);
        for queue in 0..QUEUES {
            self.seen.lies += 1;
            self.put_lie(&mut guest, queue);
            guest.announce(queue);
        }
        if self.random.random_bool(0.3) {
            let noise: Vec<u8> = (0..100).map(|_| self.random.random()).collect();
            front.send_noise(&mut self.server, &noise);
        }
        self.server.pass(SETTLED);
        front.disconnect(&mut self.server);
    }

    fn put_lie(&mut self, guest: &mut Guest, queue: usize) {
        let sector = self.random.random_range(0..BLOCKS as u64 - 8);
        let block = bytes_of(Value::MAX, 1);
        let way = self.random.random_range(0..8);
        let (kind, sector) = match way {
            // Behind the end, and no type that there is.
            0 => (WRITE, BLOCKS as u64 + self.random.random_range(0..1 << 40)),
            1 => (99, sector),
            _ => (WRITE, sector),
        };
        let (header, data, status) = guest.lie(queue, kind, sector, &block);
        // Not whole sectors, or not in memory.
        let (address, length) = match way {
            2 => (data, self.random.random_range(1..512)),
            3 => (guest.memory.len() as u64 - self.random.random_range(0..512), 512),
            4 => (self.random.random_range(1 << 40..u64::MAX - 512), 512),
            _ => (data, 512),
        };
        let pieces = [(header, 16, 1), (address, length, 1), (status, 1, 2)];
        for (n, (address, length, flags)) in (0..).zip(pieces) {
            let next = n + 1;
            guest.descriptor(queue, n, GuestSpan { address, length, flags, next });
        }
        match way {
            // In a circle, out of the table, and without room for a status.
            5 => guest.descriptor(queue, 2, GuestSpan { address: data, length: 512, flags: 1, next: 1 }),
            6 => guest.descriptor(queue, 1, GuestSpan { address: data, length: 512, flags: 1, next: 999 }),
            7 => guest.descriptor(queue, 1, GuestSpan { address: data, length: 512, flags: 0, next: 0 }),
            _ => {}
        }
        guest.make_available(queue, 0);
        if self.random.random_bool(0.2) {
            guest.overstate(queue, self.random.random_range(100..u16::MAX));
        }
    }

    /// The power fails. What was not flushed is there or not, and guests are gone.
    fn crash(&mut self) {
        self.look();
        self.replace();
        self.restart();
        let share = self.random.random_range(0.0..=1.0);
        self.storage.crash(|| self.random.random_bool(share));
        let (lost, kept) = self.disk.crashed(&contents(&*self.storage));
        self.seen.crashes += 1;
        self.seen.lost += lost;
        self.seen.kept += kept;
    }

    fn pass(&mut self, time: Duration) {
        self.server.pass(time);
        if let Some(queue) = self.stopping
            && let Some(base) = self.front.stopped(&mut self.server)
        {
            self.stopping = None;
            self.seen.stopped += 1;
            self.front.start(&mut self.server, &self.guest, queue, base);
        }
        self.look();
    }

    /// The driver looks for what has come back on each queue of which it was told.
    fn look(&mut self) {
        for queue in 0..QUEUES {
            if !self.guest.was_called(queue) {
                continue;
            }
            loop {
                while let Some(used) = self.guest.take_used(queue) {
                    self.came_back(queue, &used);
                }
                let in_flight = self.guest.in_flight(queue).max(1);
                let more = self.random.random_range(0..in_flight);
                if !self.guest.want_call(queue, more as u16) {
                    break;
                }
            }
        }
    }

    fn came_back(&mut self, queue: usize, used: &UsedRequest) {
        let asked = self.in_flight.remove(&(queue, used.head));
        let asked = asked.expect("a request that is in flight, once");
        if used.status != 0 {
            let status = used.status;
            assert!(asked.may_fail && status == 1, "status {status}, and the device has not failed");
            self.seen.failed += 1;
            return self.disk.forget(asked, self.server.now + SETTLED);
        }
        self.seen.done += 1;
        let Asked { what, blocks, .. } = asked;
        match what {
            What::Read => {
                self.disk.check(blocks.start, &used.data);
                self.disk.end_read(blocks);
            }
            What::Change { forced } => {
                self.disk.changed(blocks, forced);
                self.seen.durable += u64::from(forced);
            }
            What::Flush(snapshot) => {
                self.disk.flushed(&snapshot);
                self.seen.flushes += 1;
            }
            What::Status => unreachable!("guests cannot ask for it"),
        }
    }

    /// All comes to rest: everything is answered, and nothing is left.
    fn end(&mut self) {
        self.set_faults(Faults { failing: 0.0, delay: Duration::ZERO });
        for queue in 0..QUEUES {
            self.guest.announce(queue);
        }
        if self.random.random() {
            self.kill();
        }
        if !self.connected {
            self.connect();
        }
        (0..10).for_each(|_| self.pass(SETTLED / 10));
        assert!(self.in_flight.is_empty(), "{} requests were never answered", self.in_flight.len());
        assert_eq!((self.server.machine.in_flight(), self.stopping), (0, None));
        self.count();
        let bytes = contents(&*self.storage);
        self.disk.check(0, &bytes);
    }
}
