//! The floor: bare sockets that move the same bytes at the same depth, and nothing else.
//!
//! Each client has one connection to a server in another process; receives are large, and one send takes all that
//! there is to send. What a protocol costs beyond this is its own.

use crate::jobs;
use crate::row::{Count, Load, Pattern, latency_histogram};
use hdrhistogram::Histogram;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of a request or reply beside its data: preamble, header, front, checksums of an operation on an object.
const REQUEST_HEAD: usize = 250;
const REPLY_HEAD: usize = 300;

/// Bytes of one receive.
const RECEIVE: usize = 256 << 10;

/// Bytes of one send, at most: what is to be sent is always the same bytes.
const SEND: usize = 1 << 20;

/// Bytes of requests and replies of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sizes {
    request: usize,
    reply: usize,
}

impl Sizes {
    fn of(load: Load) -> Self {
        let block = load.block_size as usize;
        let (out, back) = match load.rw {
            Pattern::RandRead | Pattern::Read => (0, block),
            Pattern::RandWrite | Pattern::Write => (block, 0),
            // Half of the requests read, half write: the same bytes, evenly spread.
            Pattern::RandRw => (block / 2, block / 2),
        };
        Self { request: REQUEST_HEAD + out, reply: REPLY_HEAD + back }
    }

    fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(self.request as u64).to_le_bytes());
        bytes[8..].copy_from_slice(&(self.reply as u64).to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: [u8; 16]) -> Self {
        let half = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i])) as usize;
        Self { request: half(0).max(1), reply: half(8) }
    }
}

/// How the serving half is run: a program, and the arguments that make it call [`serve`].
#[derive(Debug, Clone)]
pub struct Server {
    /// The program.
    pub program: PathBuf,
    /// Its arguments; the number of clients is put behind them.
    pub arguments: Vec<String>,
}

/// Serves so many clients, then ends: the other half of [`measure`], in a process of its own.
pub fn serve(clients: u32) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("{}", listener.local_addr()?.port());
    io::stdout().flush()?;
    let serving: Vec<_> = (0..clients)
        .map(|_| listener.accept().map(|(stream, _)| thread::spawn(move || serve_one(stream))))
        .collect::<io::Result<_>>()?;
    for thread in serving {
        thread.join().map_err(|_| io::Error::other("a serving thread panicked"))??;
    }
    Ok(())
}

fn serve_one(mut stream: TcpStream) -> io::Result<()> {
    let mut sizes = [0; 16];
    stream.read_exact(&mut sizes)?;
    let sizes = Sizes::from_bytes(sizes);
    let mut exchange = Exchange::new(stream, sizes.request, sizes.reply)?;
    // A client that has measured enough goes away with replies still under way.
    while let Ok(Some(requests)) = exchange.turn() {
        exchange.reply_to(requests);
    }
    Ok(())
}

/// One end of a connection on which every message of one size is answered with one of another.
struct Exchange {
    stream: TcpStream,
    incoming: usize,
    outgoing: usize,
    /// Bytes of the incoming message that is not whole yet.
    partial: usize,
    /// Bytes that are to be sent.
    pending: usize,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Exchange {
    fn new(stream: TcpStream, incoming: usize, outgoing: usize) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        onego_engine::without_pacing(&stream);
        Ok(Self {
            stream,
            incoming,
            outgoing,
            partial: 0,
            pending: 0,
            input: vec![0; RECEIVE],
            output: vec![0; SEND],
        })
    }

    fn reply_to(&mut self, messages: usize) {
        self.pending += messages * self.outgoing;
    }

    /// Sends what can be sent and receives what there is, waiting if neither moves. Returns how many messages have
    /// come whole; `None` when the peer has gone.
    fn turn(&mut self) -> io::Result<Option<usize>> {
        let sent = self.send()?;
        // While there is something to send, waiting for something to receive could be for ever: the peer may wait too.
        let flags = if self.pending == 0 { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        match recv(&self.stream, &mut self.input[..], flags) {
            Ok((_, 0)) => Ok(None),
            Ok((_, n)) => {
                let bytes = self.partial + n;
                self.partial = bytes % self.incoming;
                Ok(Some(bytes / self.incoming))
            }
            Err(Errno::AGAIN | Errno::INTR) => {
                if sent == 0 && self.pending > 0 {
                    poll(&mut [PollFd::new(&self.stream, PollFlags::IN | PollFlags::OUT)], None)?;
                }
                Ok(Some(0))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn send(&mut self) -> io::Result<usize> {
        let mut sent = 0;
        while self.pending > 0 {
            let bytes = &self.output[..self.pending.min(SEND)];
            match send(&self.stream, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(n) => {
                    sent += n;
                    self.pending -= n;
                }
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(sent)
    }
}

/// A client of the floor: what it has in flight, by when it was sent, and what it has measured.
struct Client {
    exchange: Exchange,
    in_flight: VecDeque<(Instant, usize)>,
    ios: u64,
    latency: Histogram<u64>,
    span: (Instant, Instant),
}

impl Client {
    fn connect(port: u16, load: Load) -> io::Result<Self> {
        let sizes = Sizes::of(load);
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.write_all(&sizes.to_bytes())?;
        let now = Instant::now();
        Ok(Self {
            exchange: Exchange::new(stream, sizes.reply, sizes.request)?,
            in_flight: VecDeque::new(),
            ios: 0,
            latency: latency_histogram(),
            span: (now, now),
        })
    }

    fn run(&mut self, depth: usize, length: Duration) -> io::Result<()> {
        let start = Instant::now();
        self.span = (start, start);
        self.request(depth);
        while self.span.1 - start < length {
            let replies = self.exchange.turn()?.ok_or(io::ErrorKind::UnexpectedEof)?;
            self.span.1 = Instant::now();
            self.replied(replies);
            self.request(replies);
        }
        Ok(())
    }

    fn request(&mut self, n: usize) {
        if n > 0 {
            self.exchange.reply_to(n);
            self.in_flight.push_back((self.span.1, n));
        }
    }

    /// Replies come in the order of their requests.
    fn replied(&mut self, mut n: usize) {
        self.ios += n as u64;
        while let Some((sent, left)) = self.in_flight.front_mut() {
            let now = n.min(*left);
            self.latency.saturating_record_n((self.span.1 - *sent).as_nanos() as u64, now as u64);
            n -= now;
            *left -= now;
            if *left > 0 {
                break;
            }
            self.in_flight.pop_front();
        }
    }
}

/// Measures the floor of a load for so many seconds.
pub fn measure(server: &Server, load: Load, seconds: f64) -> io::Result<Count> {
    let arguments: Vec<_> = server.arguments.iter().cloned().chain([load.jobs.to_string()]).collect();
    let mut process = Process::start(&server.program, &arguments)?;
    let port = process.port()?;
    let (clients, cpu_seconds) = jobs::run(
        load.jobs,
        Some(process.id()),
        |_| Client::connect(port, load),
        |client| client.run(load.io_depth as usize, Duration::from_secs_f64(seconds)),
        |client| Ok::<_, io::Error>((client.ios, client.latency, client.span)),
    )?;
    let mut latency = latency_histogram();
    let (mut ios, mut longest) = (0, Duration::ZERO);
    for (done, its_latency, span) in &clients {
        ios += done;
        longest = longest.max(span.1 - span.0);
        latency += its_latency;
    }
    Ok(Count { ios, errors: 0, seconds: longest.as_secs_f64(), latency, cpu_seconds })
}

/// A serving process that says its port. It ends with this.
pub(crate) struct Process {
    child: Child,
}

impl Process {
    pub(crate) fn start(program: &Path, arguments: &[String]) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        // An interrupt at the terminal is for the client.
        command.process_group(0);
        Ok(Self { child: command.spawn()? })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The port, once it says it.
    pub(crate) fn port(&mut self) -> io::Result<u16> {
        let stdout = self.child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        line.trim().parse().map_err(|_| io::Error::other(format!("the floor's server says {line:?}")))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself, which is all that is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchanged(load: Load) -> Client {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || serve_one(listener.accept().unwrap().0));
        let mut client = Client::connect(port, load).unwrap();
        client.run(load.io_depth as usize, Duration::from_millis(100)).unwrap();
        let Client { ios, latency, span, in_flight, exchange } = client;
        drop(exchange.stream.shutdown(std::net::Shutdown::Both));
        server.join().unwrap().unwrap();
        Client { ios, latency, span, in_flight, exchange }
    }

    #[test]
    fn both_ends_keep_moving_when_more_is_in_flight_than_sockets_hold() {
        for rw in [Pattern::RandRead, Pattern::RandWrite, Pattern::RandRw] {
            let client = exchanged(Load { rw, block_size: 64 << 10, jobs: 1, io_depth: 4096 });
            assert!(client.ios > 0, "{rw:?}");
            assert_eq!(client.latency.len(), client.ios);
            assert_eq!(client.in_flight.iter().map(|(_, n)| n).sum::<usize>(), 4096);
        }
    }

    #[test]
    fn a_mixed_load_moves_half_its_bytes_each_way() {
        let sizes = Sizes::of(Load { rw: Pattern::RandRw, block_size: 4096, jobs: 1, io_depth: 1 });
        assert_eq!((sizes.request - REQUEST_HEAD, sizes.reply - REPLY_HEAD), (2048, 2048));
        assert_eq!(Sizes::from_bytes(sizes.to_bytes()), sizes);
    }
}
