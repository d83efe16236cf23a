//! A machine that lets a connection go to make room for another one, while that one is accepted.

use onego_buf::{List, Segment, SegmentMut};
use onego_engine::{EngineKind, Pump, Wait};
use onego_wire::{Action, ConnId, ConnTable, Disconnect, Landing, ListenerId, Machine, Time};
use std::collections::VecDeque;
use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Has one connection. A new one takes the place, and the name's slot, of the one before.
#[derive(Default)]
struct One {
    table: ConnTable<()>,
    current: Option<ConnId>,
    actions: VecDeque<Action>,
    addr: Option<SocketAddr>,
}

impl Machine for One {
    fn next_action(&mut self, _: Time) -> Option<Action> {
        self.actions.pop_front()
    }

    fn listening(&mut self, _: Time, _: ListenerId, result: io::Result<SocketAddr>) {
        self.addr = Some(result.unwrap());
    }

    fn accepted(&mut self, _: Time, _: ListenerId, _: SocketAddr, _: SocketAddr) -> Option<ConnId> {
        if let Some(conn) = self.current.take() {
            self.actions.push_back(Action::Close { conn });
            self.table.remove(conn);
        }
        self.current = Some(self.table.insert(()));
        self.current
    }

    fn connected(&mut self, _: Time, _: ConnId, _: SocketAddr) {}

    fn disconnected(&mut self, _: Time, conn: ConnId, _: Disconnect) {
        self.table.remove(conn);
        self.current.take_if(|current| *current == conn);
    }

    fn landing(&mut self, _: ConnId) -> Landing {
        Landing::shared(4096)
    }

    fn landed(&mut self, _: Time, _: ConnId, _: SegmentMut, _: usize) {}

    fn received(&mut self, _: Time, _: ConnId, _: Segment) {}

    fn transmit(&mut self, _: Time, _: ConnId, _: &mut List, _: usize) {}

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn timeout(&mut self, _: Time) {}
}

#[test]
fn a_connection_that_gives_way_to_the_one_being_accepted_is_closed() {
    for kind in EngineKind::ALL {
        let mut pump = Pump::new(onego_engine::open(kind).unwrap(), One::default());
        let any = "127.0.0.1:0".parse().unwrap();
        pump.machine_mut().actions.push_back(Action::Listen { listener: ListenerId(0), addr: any });
        let turn = |pump: &mut Pump<_, One>| {
            let until = pump.now() + Duration::from_millis(10);
            pump.turn(Wait::Until(until)).unwrap();
        };
        while pump.machine().addr.is_none() {
            turn(&mut pump);
        }
        let addr = pump.machine().addr.unwrap();
        let mut streams: Vec<TcpStream> = Vec::new();
        for _ in 0..4 {
            let before = pump.machine().current;
            streams.push(TcpStream::connect(addr).unwrap());
            while pump.machine().current == before {
                turn(&mut pump);
            }
            (0..3).for_each(|_| turn(&mut pump));
        }
        let last = streams.pop().unwrap();
        for mut stream in streams {
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            assert_eq!(
                stream.read(&mut [0; 1]).unwrap(),
                0,
                "{kind}: a connection stays open without a name"
            );
        }
        last.set_nonblocking(true).unwrap();
        let error = (&last).read(&mut [0; 1]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{kind}");
    }
}
