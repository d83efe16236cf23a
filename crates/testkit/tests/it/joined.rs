//! A server and the client under it as one machine on one node: what clients ask the server, its client asks another node.

use onego_buf::List;
use onego_engine::Pump;
use onego_testkit::{Faults, FrameEvent, Frames, Node, Sim, SimEngine};
use onego_wire::{ConnId, Joined, Layer, Machine, Members, Time};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

fn ip(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

fn backend() -> SocketAddr {
    SocketAddr::new(ip(1), 6800)
}

fn relay() -> SocketAddr {
    SocketAddr::new(ip(2), 10_809)
}

/// What the two members pass to each other.
#[derive(Default)]
struct Between {
    requests: VecDeque<(ConnId, List)>,
    replies: VecDeque<(ConnId, List)>,
    passed: bool,
}

/// The server: passes frames on, and sends back what comes for them.
struct Front {
    frames: Frames,
    between: Rc<RefCell<Between>>,
}

impl Layer for Front {
    type Below = Frames;

    fn below(&self) -> &Frames {
        &self.frames
    }

    fn below_mut(&mut self) -> &mut Frames {
        &mut self.frames
    }

    fn settle(&mut self, _now: Time) {
        let mut between = self.between.borrow_mut();
        for event in self.frames.events.drain(..) {
            if let FrameEvent::Frame(conn, frame) = event {
                between.requests.push_back((conn, frame));
                between.passed = true;
            }
        }
        for (conn, reply) in between.replies.drain(..) {
            self.frames.send(conn, reply);
        }
    }
}

/// Requests on a connection to the backend, before the next is used.
const REQUESTS: usize = 5;

/// The client: every few requests go by a connection of their own, which is closed after the last reply.
struct Back {
    frames: Frames,
    between: Rc<RefCell<Between>>,
    /// Connections with requests: how many more they take, and whose replies come, in this order.
    conns: Vec<(ConnId, usize, VecDeque<ConnId>)>,
}

impl Back {
    fn reply(&mut self, conn: ConnId, frame: List) {
        let index = self.conns.iter().position(|open| open.0 == conn).expect("a connection that is open");
        let (_, left, owed) = &mut self.conns[index];
        let client = owed.pop_front().expect("a reply to a request");
        if *left == 0 && owed.is_empty() {
            self.conns.swap_remove(index);
            self.frames.close(conn);
        }
        let mut between = self.between.borrow_mut();
        between.replies.push_back((client, frame));
        between.passed = true;
    }
}

impl Layer for Back {
    type Below = Frames;

    fn below(&self) -> &Frames {
        &self.frames
    }

    fn below_mut(&mut self) -> &mut Frames {
        &mut self.frames
    }

    fn settle(&mut self, _now: Time) {
        while let Some(event) = self.frames.events.pop_front() {
            match event {
                FrameEvent::Frame(conn, frame) => self.reply(conn, frame),
                FrameEvent::Connected(..) => {}
                other => panic!("{other:?}"),
            }
        }
        let requests = std::mem::take(&mut self.between.borrow_mut().requests);
        for (client, request) in requests {
            let open = match self.conns.iter().position(|(_, left, _)| *left > 0) {
                Some(open) => open,
                None => {
                    self.conns.push((self.frames.connect(backend()), REQUESTS, VecDeque::new()));
                    self.conns.len() - 1
                }
            };
            let (conn, left, owed) = &mut self.conns[open];
            *left -= 1;
            owed.push_back(client);
            self.frames.send(*conn, request);
        }
    }
}

struct Both(Front, Back);

impl Members for Both {
    fn count(&self) -> usize {
        2
    }

    fn member(&self, index: usize) -> &dyn Machine {
        if index == 0 { &self.0 } else { &self.1 }
    }

    fn member_mut(&mut self, index: usize) -> &mut dyn Machine {
        if index == 0 { &mut self.0 } else { &mut self.1 }
    }

    fn passed_work(&mut self) -> bool {
        std::mem::take(&mut self.0.between.borrow_mut().passed)
    }
}

fn relay_pump(sim: &Sim) -> Pump<SimEngine, Joined<Both>> {
    let between = Rc::default();
    let mut front = Front { frames: Frames::default(), between: Rc::clone(&between) };
    front.frames.listen(0, relay());
    let back = Back { frames: Frames::default(), between, conns: Vec::new() };
    Pump::new(sim.engine(ip(2)), Joined::new(Both(front, back)))
}

/// A client that sends a few frames on a connection, waits for them, and goes on with the next connection.
struct RelayClient {
    pump: Pump<SimEngine, Frames>,
    conn: Option<ConnId>,
    /// Frames that it has sent on this connection and not got back. They come in any order.
    frames: Vec<Vec<u8>>,
    /// Connections to come.
    left: usize,
}

impl RelayClient {
    fn new(sim: &Sim, n: u8) -> Self {
        let pump = Pump::new(sim.engine(ip(n)), Frames::default());
        Self { pump, conn: None, frames: Vec::new(), left: 6 }
    }

    fn frame(&self, index: usize) -> Vec<u8> {
        let len = [3, 700, 20_000, 90_000][(index + self.left) % 4];
        let IpAddr::V4(ip) = self.pump.engine().addr() else { panic!("addresses are of version 4") };
        (0..len).map(|at: usize| (at * 7 + index * 31 + self.left) as u8 ^ ip.octets()[3]).collect()
    }

    fn look(&mut self) {
        // A pump whose machine was looked at this way wants to run again.
        if self.pump.machine().events.is_empty() && (self.conn.is_some() || self.left == 0) {
            return;
        }
        while let Some(event) = self.pump.machine_mut().events.pop_front() {
            match event {
                FrameEvent::Frame(conn, frame) => {
                    assert_eq!(Some(conn), self.conn);
                    let frame = frame.to_vec();
                    let sent = self.frames.iter().position(|sent| *sent == frame);
                    self.frames.swap_remove(sent.expect("one that this client has sent on this connection"));
                }
                FrameEvent::Connected(..) => {}
                other => panic!("{other:?}"),
            }
        }
        if let Some(conn) = self.conn.filter(|_| self.frames.is_empty()) {
            self.pump.machine_mut().close(conn);
            self.conn = None;
        }
        if self.conn.is_none() && self.left > 0 {
            self.left -= 1;
            let conn = self.pump.machine_mut().connect(relay());
            self.conn = Some(conn);
            self.frames = (0..1 + self.left % 4).map(|index| self.frame(index)).collect();
            for frame in &self.frames {
                self.pump.machine_mut().send(conn, frame.clone());
            }
        }
    }

    fn done(&self) -> bool {
        self.conn.is_none() && self.left == 0
    }
}

#[test]
fn a_server_and_its_client_are_one_machine_on_one_node() {
    for seed in 0..30 {
        let mut sim = Sim::new(seed, Faults::ragged());
        let mut echo = Frames::echo();
        echo.listen(0, backend());
        let mut echo = Pump::new(sim.engine(ip(1)), echo);
        let mut relay = relay_pump(&sim);
        sim.settle(&mut [&mut echo, &mut relay]);
        let mut clients: Vec<RelayClient> = (3..8).map(|n| RelayClient::new(&sim, n)).collect();
        while !clients.iter().all(RelayClient::done) {
            clients.iter_mut().for_each(RelayClient::look);
            let mut nodes: Vec<&mut dyn Node> = vec![&mut echo, &mut relay];
            nodes.extend(clients.iter_mut().map(|client| &mut client.pump as &mut dyn Node));
            assert!(
                sim.step(&mut nodes) || clients.iter().all(RelayClient::done),
                "nothing happens any more"
            );
        }
        let mut nodes: Vec<&mut dyn Node> = vec![&mut echo, &mut relay];
        nodes.extend(clients.iter_mut().map(|client| &mut client.pump as &mut dyn Node));
        sim.settle(&mut nodes);
        let Both(front, back) = relay.machine().members();
        // The last connection to the backend may have room for more requests.
        assert_eq!((front.frames.connections(), front.frames.places_out, back.frames.places_out), (0, 0, 0));
        assert_eq!((back.frames.connections(), relay.connections()), (back.conns.len(), back.conns.len()));
        assert!(back.conns.len() <= 1 && relay.stats().accepts == 5 * 6, "seed {seed}");
    }
}
