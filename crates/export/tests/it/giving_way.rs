//! A server at its bound on connections, on real sockets: the connection that gives way is closed.

use onego_engine::{EngineKind, Pump, Wait};
use onego_export::nbd::{Config, Server};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Bytes with which the server greets a client.
const GREETING: usize = 18;

/// Connections of each engine's server. Each client has an address of its own, which may have half of them.
const CONNECTIONS: usize = 2;

struct Serving {
    pump: Pump<onego_engine::AnyEngine, Server>,
    addr: SocketAddr,
}

impl Serving {
    fn start(kind: EngineKind) -> Self {
        let mut server = Server::new(Config { connections: CONNECTIONS, ..Config::default() });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        server.adopt(listener.into());
        Self { pump: Pump::new(onego_engine::open(kind).unwrap(), server), addr }
    }

    fn turn(&mut self) {
        let until = self.pump.now() + Duration::from_millis(5);
        self.pump.turn(Wait::Until(until)).unwrap();
    }

    /// A client from 127.0.0.`host` that has been greeted.
    fn client(&mut self, host: u8) -> TcpStream {
        let from = SocketAddr::from((IpAddr::V4(Ipv4Addr::new(127, 0, 0, host)), 0));
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &from).unwrap();
        connect(&socket, &self.addr).unwrap();
        let mut stream = TcpStream::from(socket);
        stream.set_nonblocking(true).unwrap();
        let mut greeting = [0; GREETING];
        self.read(&mut stream, &mut greeting).unwrap();
        stream
    }

    /// Reads as much, or to the end of the stream.
    fn read(&mut self, stream: &mut TcpStream, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        for _ in 0..1000 {
            match stream.read(&mut into[filled..]) {
                Ok(0) => return Ok(filled),
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.turn(),
                Err(error) => return Err(error),
            }
            if filled == into.len() {
                return Ok(filled);
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

pub(crate) fn the_connection_that_gives_way_to_another_is_closed_and_the_other_is_served(kind: EngineKind) {
    let mut serving = Serving::start(kind);
    let mut clients: Vec<TcpStream> = (2..2 + CONNECTIONS as u8).map(|host| serving.client(host)).collect();
    for host in 20..23 {
        clients.push(serving.client(host));
        let mut idlest = clients.remove(0);
        let end = serving.read(&mut idlest, &mut [0; 1]);
        assert_eq!(end.unwrap(), 0, "{kind}: a connection stays open without a name");
    }
    for mut client in clients {
        let error = client.read(&mut [0; 1]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{kind}: it is still served");
    }
}

#[test]
fn the_connection_that_gives_way_to_another_is_closed_and_the_other_is_served_over_epoll() {
    the_connection_that_gives_way_to_another_is_closed_and_the_other_is_served(EngineKind::Epoll);
}

#[test]
fn the_connection_that_gives_way_to_another_is_closed_and_the_other_is_served_over_uepoll() {
    the_connection_that_gives_way_to_another_is_closed_and_the_other_is_served(EngineKind::Uepoll);
}
