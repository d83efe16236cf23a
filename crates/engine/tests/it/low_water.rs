//! Low-water marks on real sockets: no bytes wait for long.

use onego_engine::{AnyEngine, EngineKind, Pump, Wait, now, open};
use onego_testkit::{FrameEvent, Frames};
use onego_testkit::{NeedyTest, needy_tests};
use onego_wire::ConnId;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

pub(crate) const TESTS: &[NeedyTest] = &needy_tests![
    &[];
    fewer_bytes_come_after_a_short_while,
];

const DEADLINE: Duration = Duration::from_secs(20);

const FRAME: usize = 96;

struct Ends {
    client: Pump<AnyEngine, Frames>,
    conn: ConnId,
    peer: TcpStream,
    frames: usize,
    closed: bool,
}

impl Ends {
    fn new(kind: EngineKind, least: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = Pump::new(open(kind).unwrap(), Frames::default());
        let conn = client.machine_mut().connect(listener.local_addr().unwrap());
        while client.machine_mut().events.pop_front().is_none() {
            client.turn(Wait::Poll).unwrap();
        }
        let (peer, _) = listener.accept().unwrap();
        peer.set_nodelay(true).unwrap();
        client.machine_mut().set_low_water(conn, least);
        Self { client, conn, peer, frames: 0, closed: false }
    }

    fn take(&mut self) {
        while let Some(event) = self.client.machine_mut().events.pop_front() {
            match event {
                FrameEvent::Frame(_, frame) => {
                    assert_eq!(frame.len(), FRAME);
                    self.frames += 1;
                }
                FrameEvent::Disconnected(..) => self.closed = true,
                other => panic!("{other:?}"),
            }
        }
    }

    fn run(&mut self, frames: usize) {
        let end = now() + DEADLINE;
        while self.frames < frames && !self.closed {
            assert!(now() < end, "{} of {frames} frames have come", self.frames);
            self.client.turn(Wait::Until(end)).unwrap();
            self.take();
        }
    }

    /// Returns ends after enough single frames that this side's waits have a mark.
    fn marked(kind: EngineKind) -> Self {
        let mut ends = Self::new(kind, 1 << 20);
        let mut peer = ends.peer.try_clone().unwrap();
        let dripping = std::thread::spawn(move || {
            for _ in 0..50 {
                peer.write_all(&frame()).unwrap();
                std::thread::sleep(Duration::from_micros(20));
            }
        });
        ends.run(50);
        dripping.join().unwrap();
        ends
    }
}

fn frame() -> Vec<u8> {
    [&(FRAME as u32).to_le_bytes()[..], &[7; FRAME]].concat()
}

fn fewer_bytes_come_after_a_short_while() {
    for kind in [EngineKind::Epoll, EngineKind::Uepoll] {
        let mut ends = Ends::new(kind, 1 << 20);
        // Often enough to include waits with a mark, also after late ones.
        let mut late = 0;
        for frames in 1..200 {
            ends.peer.write_all(&frame()).unwrap();
            let start = now();
            ends.run(frames);
            late += u32::from(now().since(start) >= Duration::from_secs(1));
        }
        // Another program may occupy the processor for that long, but not often.
        assert!(late < 10, "{kind}: {late} of 200 frames took a second");
    }
}

fn the_end_of_a_stream_is_reported_below_the_mark(kind: EngineKind) {
    let mut ends = Ends::marked(kind);
    ends.peer.shutdown(std::net::Shutdown::Write).unwrap();
    ends.run(51);
    assert!(ends.closed);
}

fn available_bytes_are_reported_when_the_mark_drops(kind: EngineKind) {
    let mut ends = Ends::marked(kind);
    let conn = ends.conn;
    for frames in 51..80 {
        ends.client.machine_mut().set_low_water(conn, 1 << 20);
        ends.client.turn(Wait::Poll).unwrap();
        ends.peer.write_all(&frame()).unwrap();
        ends.client.machine_mut().set_low_water(conn, 1);
        ends.run(frames);
    }
}

on_each_engine![
    the_end_of_a_stream_is_reported_below_the_mark,
    available_bytes_are_reported_when_the_mark_drops,
];
