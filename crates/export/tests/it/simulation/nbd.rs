//! A server of NBD by seed: clients that are cut off, that are slow and that lie, a device that fails, delays and forgets, and crashes.

use crate::simulation::disk::{Asked, BLOCK, Disk, Value, What, bytes_of};
use crate::simulation::storage::{contents, failing_device, storage};
use crate::simulation::tally::tally;
use crate::support::{Net, Reply, STYLES, Who, export, request};
use onego_block::{Faults, Faulty, Volatile};
use onego_export::nbd::Config;
use onego_nbd::codec::{CommandFlags, ErrorCode, HeaderStyle, RequestHeader, RequestType};
use onego_testkit::START;
use onego_wire::Time;
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

const BLOCKS: usize = 256;
const SIZE: u64 = (BLOCKS * BLOCK) as u64;
const CLIENTS: usize = 3;
const STEPS: usize = 600;
/// Requests of one client that are in flight.
const IN_FLIGHT: usize = 8;
/// The longest that the device holds a request back, and the time by which it has all of those before.
const DELAY: Duration = Duration::from_millis(30);
const SETTLED: Duration = Duration::from_millis(200);

tally! {
    /// How often what happened.
    SeenByClients {
        done,
        flushes,
        forced,
        failed,
        cut,
        pieces,
        stopped,
        lies,
        given_up,
        crashes,
        lost,
        kept,
    }
}

/// A client that keeps to the protocol.
struct SimulatedClient {
    who: Who,
    style: HeaderStyle,
    /// What it has still to send.
    unsent: Vec<u8>,
    in_flight: BTreeMap<u64, Asked>,
    reads: bool,
}

pub(crate) struct SimulatedExport {
    random: SmallRng,
    net: Net,
    storage: Rc<Volatile>,
    device: Rc<Faulty<Rc<Volatile>>>,
    /// The device fails now.
    fails: bool,
    disk: Disk,
    clients: Vec<SimulatedClient>,
    /// Names requests and what they write.
    last: Value,
    seen: SeenByClients,
}

impl SimulatedExport {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let storage = storage(&mut random, SIZE);
        let (net, device) = started(&mut random, &storage, START);
        let disk = Disk::new(BLOCKS);
        let (clients, seen) = (Vec::new(), SeenByClients::default());
        Self { random, net, storage, device, fails: false, disk, clients, last: 0, seen }
    }

    pub(crate) fn run(mut self) -> SeenByClients {
        for _ in 0..STEPS {
            while self.clients.len() < CLIENTS {
                self.join();
            }
            let n = self.random.random_range(0..self.clients.len());
            match self.random.random_range(0..1000) {
                0..600 => self.ask(n),
                600..800 => self.send(n),
                800..815 => self.cut(n),
                815..835 => self.set_reading(n),
                835..850 => self.change_faults(),
                850..870 => self.lie(),
                870..874 => self.crash(),
                _ => {}
            }
            let time = self.random.random_range(0..5_000_000);
            self.pass(Duration::from_nanos(time));
        }
        self.end();
        self.seen
    }

    /// A client comes, with the whole handshake.
    fn join(&mut self) {
        let style = STYLES[self.random.random_range(0..STYLES.len())];
        let who = self.net.open(style);
        self.clients.push(SimulatedClient {
            who,
            style,
            unsent: Vec::new(),
            in_flight: BTreeMap::new(),
            reads: true,
        });
    }

    /// A client asks for something whose outcome is clear.
    fn ask(&mut self, n: usize) {
        let length = if self.random.random_bool(0.1) { 64 } else { self.random.random_range(1..12) };
        let first = self.random.random_range(0..=BLOCKS - length);
        let blocks = first..first + length;
        let (command, changes) = match self.random.random_range(0..20) {
            0..7 => (RequestType::Read, false),
            7..14 => (RequestType::Write, true),
            14..16 => (RequestType::WriteZeroes, true),
            16 => (RequestType::Trim, true),
            17..19 => (RequestType::Flush, false),
            _ => (RequestType::BlockStatus, false),
        };
        let is_free = self.disk.is_free(self.net.now, blocks.clone(), changes);
        let client = &self.clients[n];
        let knows_status = client.style != HeaderStyle::Simple || command != RequestType::BlockStatus;
        if client.in_flight.len() >= IN_FLIGHT || !knows_status || !(is_free || command == RequestType::Flush)
        {
            return;
        }
        self.last += 1;
        let forced = changes && self.random.random_bool(0.1);
        let what = match command {
            RequestType::Flush => What::Flush(self.disk.snapshot()),
            RequestType::BlockStatus => What::Status,
            RequestType::Read => What::Read,
            _ => What::Change { forced },
        };
        let mut payload = Vec::new();
        match (&what, command) {
            (What::Change { .. }, RequestType::Write) => {
                payload = bytes_of(self.last, length);
                self.disk.begin_change(blocks.clone(), self.last);
            }
            (What::Change { .. }, _) => self.disk.begin_change(blocks.clone(), 0),
            (What::Read | What::Status, _) => self.disk.begin_read(blocks.clone()),
            (What::Flush(_), _) => {}
        }
        let mut header = request(command, u64::from(self.last), 0, 0);
        if command != RequestType::Flush {
            (header.offset, header.length) = ((first * BLOCK) as u64, (length * BLOCK) as u64);
        }
        header.flags = header.flags.with(CommandFlags::FUA, forced);
        let asked = Asked { what, blocks, may_fail: self.fails };
        self.clients[n].in_flight.insert(header.cookie, asked);
        self.put(n, header, &payload);
    }

    /// Sends a request, or keeps a part of it for later.
    fn put(&mut self, n: usize, header: RequestHeader, payload: &[u8]) {
        let bytes = self.net.encoded(self.clients[n].who, header, payload);
        self.clients[n].unsent.extend(bytes);
        if self.random.random_bool(0.8) {
            self.send_all(n);
        } else {
            self.send(n);
        }
    }

    fn send_all(&mut self, n: usize) {
        let client = &mut self.clients[n];
        self.net.send_bytes(client.who, &std::mem::take(&mut client.unsent));
    }

    /// Sends a part of what waits.
    fn send(&mut self, n: usize) {
        let client = &mut self.clients[n];
        let part = self.random.random_range(0..=client.unsent.len());
        let bytes: Vec<u8> = client.unsent.drain(..part).collect();
        self.net.send_bytes(client.who, &bytes);
        self.seen.pieces += u64::from(part > 0 && !client.unsent.is_empty());
    }

    /// A connection breaks.
    fn cut(&mut self, n: usize) {
        // What the server has received before is carried out, or not.
        let client = self.clients.swap_remove(n);
        self.net.disconnect(client.who);
        self.seen.cut += u64::from(!client.in_flight.is_empty());
        client.in_flight.into_values().for_each(|asked| self.forget(asked));
    }

    /// Nobody will ever know what came of a request.
    fn forget(&mut self, asked: Asked) {
        self.disk.forget(asked, self.net.now + SETTLED);
    }

    fn set_reading(&mut self, n: usize) {
        let client = &mut self.clients[n];
        client.reads = !client.reads;
        self.seen.stopped += u64::from(!client.reads);
        self.net.set_reading(client.who, client.reads);
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
            let in_flight = self.clients.iter_mut().flat_map(|client| client.in_flight.values_mut());
            in_flight.for_each(|asked| asked.may_fail = true);
        }
    }

    /// A client that does not keep to the protocol: nothing of what it sends may have an effect.
    fn lie(&mut self) {
        self.seen.lies += 1;
        let given_up = self.net.machine.counters().given_up;
        let style = STYLES[self.random.random_range(0..STYLES.len())];
        let who = self.net.open(style);
        let payload = bytes_of(Value::MAX, 4);
        let offset = self.random.random_range(0..SIZE - 4096);
        match self.random.random_range(0..4) {
            // Bytes that are no request.
            0 => {
                let noise: Vec<u8> = (0..100).map(|_| self.random.random()).collect();
                self.net.send_bytes(who, &noise);
            }
            // A write that is never whole.
            1 => {
                let header = request(RequestType::Write, 1, offset, payload.len() as u64);
                let bytes = self.net.encoded(who, header, &payload);
                let part = self.random.random_range(0..bytes.len());
                self.net.send_bytes(who, &bytes[..part]);
            }
            // One behind the end.
            2 => {
                let header = request(RequestType::Write, 1, SIZE - 512, payload.len() as u64);
                let reply = self.net.call(who, header, &payload);
                assert_eq!(reply, Reply::Error(ErrorCode::NoSpace));
            }
            // Flags that it does not have.
            _ => {
                let header = request(RequestType::WriteZeroes, 1, offset, 2048);
                let reply = self.net.call(who, RequestHeader { flags: CommandFlags(1 << 9), ..header }, &[]);
                assert_eq!(reply, Reply::Error(ErrorCode::Invalid));
            }
        }
        self.net.turn();
        self.seen.given_up += self.net.machine.counters().given_up - given_up;
        self.net.disconnect(who);
    }

    /// The power fails. What was not flushed is there or not, and all connections are gone.
    fn crash(&mut self) {
        self.take_replies();
        for client in std::mem::take(&mut self.clients) {
            client.in_flight.into_values().for_each(|asked| self.forget(asked));
        }
        let (net, device) = started(&mut self.random, &self.storage, self.net.now);
        // What the device before held back is never carried out.
        (self.net, self.device, self.fails) = (net, device, false);
        let share = self.random.random_range(0.0..=1.0);
        self.storage.crash(|| self.random.random_bool(share));
        let (lost, kept) = self.disk.crashed(&contents(&*self.storage));
        self.seen.crashes += 1;
        self.seen.lost += lost;
        self.seen.kept += kept;
    }

    fn pass(&mut self, time: Duration) {
        self.net.pass(time);
        self.take_replies();
    }

    fn take_replies(&mut self) {
        for n in 0..self.clients.len() {
            for (cookie, reply) in self.net.replies_here(self.clients[n].who) {
                let asked = self.clients[n].in_flight.remove(&cookie);
                self.replied(asked.expect("a request that is in flight, once"), &reply);
            }
        }
    }

    fn replied(&mut self, asked: Asked, reply: &Reply) {
        let Asked { what, blocks, may_fail } = asked;
        if let Reply::Error(error) = reply {
            assert!(may_fail && *error == ErrorCode::Io, "{error:?}, and the device has not failed");
            self.seen.failed += 1;
            return self.forget(Asked { what, blocks, may_fail });
        }
        self.seen.done += 1;
        match (what, reply) {
            (What::Read, Reply::Data(data)) => {
                assert_eq!(data.len(), blocks.len() * BLOCK);
                self.disk.check(blocks.start, data);
                self.disk.end_read(blocks);
            }
            (What::Status, Reply::Status(extents)) => {
                let mut at = blocks.start;
                for extent in extents {
                    let end = at + extent.length as usize / BLOCK;
                    assert!(
                        !extent.status.zero || self.disk.may_be_zero(at..end),
                        "{at}..{end} are no zeros"
                    );
                    at = end;
                }
                assert!(at > blocks.start && at <= blocks.end);
                self.disk.end_read(blocks);
            }
            (What::Change { forced }, Reply::Done) => {
                self.disk.changed(blocks, forced);
                self.seen.forced += u64::from(forced);
            }
            (What::Flush(snapshot), Reply::Done) => {
                self.disk.flushed(&snapshot);
                self.seen.flushes += 1;
            }
            (_, reply) => panic!("{reply:?} is no reply to that"),
        }
    }

    /// All comes to rest: everything is answered, and nothing is left.
    fn end(&mut self) {
        self.set_faults(Faults { failing: 0.0, delay: Duration::ZERO });
        for n in 0..self.clients.len() {
            self.net.set_reading(self.clients[n].who, true);
            self.send_all(n);
        }
        (0..10).for_each(|_| self.pass(SETTLED / 10));
        for client in &self.clients {
            assert!(client.in_flight.is_empty(), "{} requests were never answered", client.in_flight.len());
        }
        assert_eq!(self.net.machine.in_flight(), 0);
        assert_eq!(self.net.machine.connections(), self.clients.len());
        let bytes = contents(&*self.storage);
        self.disk.check(0, &bytes);
    }
}

/// A server of the storage, behind a device that may fail.
fn started(random: &mut SmallRng, storage: &Rc<Volatile>, now: Time) -> (Net, Rc<Faulty<Rc<Volatile>>>) {
    let device = failing_device(random, storage);
    let mut net = Net::with(Config::default());
    net.now = now;
    net.cut = if random.random_bool(0.5) { usize::MAX } else { random.random_range(20..5000) };
    net.machine.add_export(export("disk", Rc::clone(&device) as _)).unwrap();
    (net, device)
}
