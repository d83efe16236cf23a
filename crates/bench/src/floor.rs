//! The floor: bare sockets that move the same bytes at the same depth, without a protocol.
//!
//! Each client has connections to a server in another process; receives are large, and one send takes everything that
//! is pending. The difference to this is the cost of a protocol.

mod exchange;

use crate::in_flight::InFlight;
use crate::jobs;
use crate::peer::Peer;
use crate::row::{Count, Ends, Load, Pattern, latency_histogram};
use exchange::Exchanges;
use hdrhistogram::Histogram;
use onego_engine::now;
use onego_wire::Time;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

pub use exchange::Sizes;

/// Bytes of a request or reply in addition to its data: preamble, header, front, checksums of an object operation.
const REQUEST_HEAD: usize = 250;
const REPLY_HEAD: usize = 300;

/// Traffic of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// Sizes of the messages.
    pub sizes: Sizes,
    /// Number of clients, each with a thread of its own and one on the server.
    pub clients: u32,
    /// Connections per client.
    pub connections: u32,
    /// Requests in flight per connection.
    pub io_depth: u32,
}

impl Traffic {
    /// Returns the traffic of an object load.
    pub fn of(load: Load) -> Self {
        let block = load.block_size as usize;
        let (out, back) = match load.rw {
            Pattern::RandRead | Pattern::Read | Pattern::Reread => (0, block),
            Pattern::RandWrite | Pattern::Write | Pattern::Rewrite => (block, 0),
            // Half of the requests read, half write: the same bytes, evenly distributed.
            Pattern::RandRw => (block / 2, block / 2),
        };
        let sizes = Sizes { request: REQUEST_HEAD + out, reply: REPLY_HEAD + back };
        Self { sizes, clients: load.jobs, connections: 1, io_depth: load.io_depth }
    }
}

/// Serves `clients` clients with `connections` connections each, then prints the number of system calls: the other half
/// of [`measure`], in a process of its own.
pub fn serve(clients: u32, connections: u32) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("{}", listener.local_addr()?.port());
    io::stdout().flush()?;
    let serving: Vec<_> = (0..clients)
        .map(|_| {
            let (streams, sizes) = accept(&listener, connections)?;
            Ok(thread::spawn(move || answer_all(streams, sizes)))
        })
        .collect::<io::Result<_>>()?;
    let mut calls = 0;
    for thread in serving {
        calls += thread.join().map_err(|_| io::Error::other("a serving thread panicked"))??;
    }
    println!("{calls}");
    Ok(())
}

fn accept(listener: &TcpListener, connections: u32) -> io::Result<(Vec<TcpStream>, Sizes)> {
    let streams: Vec<_> =
        (0..connections).map(|_| listener.accept().map(|(stream, _)| stream)).collect::<io::Result<_>>()?;
    let mut sizes = [0; 16];
    for mut stream in &streams {
        stream.read_exact(&mut sizes)?;
    }
    Ok((streams, Sizes::from_bytes(sizes)))
}

fn answer_all(streams: Vec<TcpStream>, sizes: Sizes) -> io::Result<u64> {
    let mut exchanges = Exchanges::new(streams, sizes.request, sizes.reply)?;
    while exchanges.turn(|_, requests| requests)? {}
    Ok(exchanges.calls())
}

struct FloorClient {
    exchanges: Exchanges,
    in_flight: Vec<InFlight>,
    ios: u64,
    latency: Histogram<u64>,
    span: (Time, Time),
}

impl FloorClient {
    fn connect(port: u16, traffic: Traffic) -> io::Result<Self> {
        let connect = |_| {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            stream.write_all(&traffic.sizes.to_bytes())?;
            Ok(stream)
        };
        let streams = (0..traffic.connections).map(connect).collect::<io::Result<_>>()?;
        let now = now();
        Ok(Self {
            exchanges: Exchanges::new(streams, traffic.sizes.reply, traffic.sizes.request)?,
            in_flight: (0..traffic.connections).map(|_| InFlight::default()).collect(),
            ios: 0,
            latency: latency_histogram(),
            span: (now, now),
        })
    }

    fn run(&mut self, depth: usize, length: Duration) -> io::Result<()> {
        let start = now();
        self.span = (start, start);
        self.in_flight.iter_mut().for_each(|in_flight| in_flight.sent(start, depth));
        self.exchanges.send_on_all(depth)?;
        // A measurement needs at least one request, however long the first takes.
        while self.ios == 0 || self.span.1 < start + length {
            let open = self.exchanges.turn(|connection, replies| {
                let now = now();
                self.span.1 = now;
                self.ios += replies as u64;
                self.in_flight[connection].answered(now, replies, &mut self.latency);
                self.in_flight[connection].sent(now, replies);
                replies
            })?;
            if !open {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}

/// Figures of a measurement.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Figures of the exchange.
    pub count: Count,
    /// Total system calls of each end.
    pub system_calls: Ends,
}

/// Measures the floor for `seconds` seconds.
pub fn measure(server: &Peer, traffic: Traffic, seconds: f64) -> io::Result<Measured> {
    let mut serving = server.start(&[traffic.clients.to_string(), traffic.connections.to_string()])?;
    let port = serving.port()?;
    // Clients connect one after the other, so that the server can assign connections to clients.
    let connecting = std::sync::Mutex::new(());
    let (clients, cpu_seconds) = jobs::run(
        traffic.clients,
        Some(serving.pid()),
        |_| {
            let _turn = connecting.lock();
            FloorClient::connect(port, traffic)
        },
        |client| client.run(traffic.io_depth as usize, Duration::from_secs_f64(seconds)),
        |client| Ok::<_, io::Error>((client.ios, client.latency, client.span, client.exchanges.calls())),
    )?;
    let (mut latency, mut ios, mut calls) = (latency_histogram(), 0, 0);
    let mut longest = Duration::ZERO;
    for (done, its_latency, span, its_calls) in &clients {
        ios += done;
        calls += its_calls;
        longest = longest.max(span.1.since(span.0));
        latency += its_latency;
    }
    let served = serving.line()?.parse::<f64>().ok();
    let system_calls = Ends { client: Some(calls as f64), server: served };
    let count = Count { ios, errors: 0, seconds: longest.as_secs_f64(), latency, cpu_seconds };
    Ok(Measured { count, system_calls })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchanged(traffic: Traffic) -> FloorClient {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (streams, sizes) = accept(&listener, traffic.connections).unwrap();
            answer_all(streams, sizes)
        });
        let mut client = FloorClient::connect(port, traffic).unwrap();
        client.run(traffic.io_depth as usize, Duration::from_millis(100)).unwrap();
        let FloorClient { ios, latency, span, in_flight, exchanges } = client;
        drop(exchanges);
        assert!(server.join().unwrap().unwrap() > 0);
        let exchanges = Exchanges::new(Vec::new(), 1, 1).unwrap();
        FloorClient { ios, latency, span, in_flight, exchanges }
    }

    #[test]
    fn both_ends_keep_moving_when_more_is_in_flight_than_sockets_hold() {
        for rw in [Pattern::RandRead, Pattern::RandWrite, Pattern::RandRw] {
            for (connections, io_depth) in [(1, 4096), (5, 1024)] {
                let load = Load { rw, block_size: 64 << 10, jobs: 1, io_depth };
                let client = exchanged(Traffic { connections, ..Traffic::of(load) });
                assert!(client.ios > 0, "{rw:?}");
                assert_eq!(client.latency.len(), client.ios);
                assert!(client.in_flight.iter().all(|in_flight| in_flight.len() == io_depth as usize));
            }
        }
    }

    #[test]
    fn a_mixed_load_moves_half_its_bytes_each_way() {
        let Traffic { sizes, .. } =
            Traffic::of(Load { rw: Pattern::RandRw, block_size: 4096, jobs: 1, io_depth: 1 });
        assert_eq!((sizes.request - REQUEST_HEAD, sizes.reply - REPLY_HEAD), (2048, 2048));
        assert_eq!(Sizes::from_bytes(sizes.to_bytes()), sizes);
    }
}
