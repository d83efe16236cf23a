//! Request and reply messages of fixed sizes on bare sockets.

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;

const RECEIVE: usize = 256 << 10;

/// Maximum size of one send; all sends have the same bytes.
const SEND: usize = 1 << 20;

const EVENTS: usize = 256;

/// Sizes of the messages in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of a request.
    pub request: usize,
    /// Bytes of a reply.
    pub reply: usize,
}

impl Sizes {
    pub(super) fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(self.request as u64).to_le_bytes());
        bytes[8..].copy_from_slice(&(self.reply as u64).to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: [u8; 16]) -> Self {
        let half = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i])) as usize;
        Self { request: half(0).max(1), reply: half(8) }
    }
}

struct Exchange {
    stream: TcpStream,
    incoming: usize,
    outgoing: usize,
    partial: usize,
    pending: usize,
    /// Also polled for writability.
    waits_for_room: bool,
}

pub(super) struct Exchanges {
    list: Vec<Exchange>,
    /// Waits for all of them. A single connection waits in the receive itself, which saves a system call.
    epoll: Option<OwnedFd>,
    ready: Vec<epoll::Event>,
    open: usize,
    input: Vec<u8>,
    output: Vec<u8>,
    calls: u64,
}

impl Exchanges {
    pub(super) fn new(streams: Vec<TcpStream>, incoming: usize, outgoing: usize) -> io::Result<Self> {
        for stream in &streams {
            stream.set_nodelay(true)?;
            onego_engine::without_pacing(stream);
        }
        let epoll = if streams.len() > 1 { Some(epoll::create(epoll::CreateFlags::CLOEXEC)?) } else { None };
        for (i, stream) in streams.iter().enumerate() {
            if let Some(epoll) = &epoll {
                epoll::add(epoll, stream, EventData::new_u64(i as u64), EventFlags::IN)?;
            }
        }
        let exchange =
            |stream| Exchange { stream, incoming, outgoing, partial: 0, pending: 0, waits_for_room: false };
        Ok(Self {
            open: streams.len(),
            list: streams.into_iter().map(exchange).collect(),
            epoll,
            ready: Vec::with_capacity(EVENTS),
            input: vec![0; RECEIVE],
            output: vec![0; SEND],
            calls: 0,
        })
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    pub(super) fn send_on_all(&mut self, messages: usize) -> io::Result<()> {
        for i in 0..self.list.len() {
            self.list[i].pending += messages * self.list[i].outgoing;
            if self.epoll.is_some() {
                self.send(i)?;
                self.wait_for_room(i)?;
            }
        }
        Ok(())
    }

    /// Sends and receives what is possible, waiting if neither makes progress. `answer` gets a connection and its
    /// number of complete messages, and returns the number to send there. Returns `false` once all peers are gone.
    pub(super) fn turn(&mut self, answer: impl FnMut(usize, usize) -> usize) -> io::Result<bool> {
        if self.epoll.is_some() { self.turn_many(answer) } else { self.turn_one(answer) }
    }

    fn turn_one(&mut self, mut answer: impl FnMut(usize, usize) -> usize) -> io::Result<bool> {
        let sent = self.send(0)?;
        // With bytes to send, waiting only to receive could deadlock: the peer may wait, too.
        let flags = if self.list[0].pending == 0 { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        match self.receive(0, flags)? {
            ReceiveOutcome::End => return Ok(false),
            ReceiveOutcome::Messages(n) => self.list[0].pending += answer(0, n) * self.list[0].outgoing,
            ReceiveOutcome::Nothing if sent == 0 && self.list[0].pending > 0 => {
                self.calls += 1;
                poll(&mut [PollFd::new(&self.list[0].stream, PollFlags::IN | PollFlags::OUT)], None)?;
            }
            ReceiveOutcome::Nothing => {}
        }
        Ok(true)
    }

    fn turn_many(&mut self, mut answer: impl FnMut(usize, usize) -> usize) -> io::Result<bool> {
        let Some(epoll) = &self.epoll else { return Ok(false) };
        self.calls += 1;
        self.ready.clear();
        match epoll::wait(epoll, rustix::buffer::spare_capacity(&mut self.ready), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = std::mem::take(&mut self.ready);
        for event in ready.drain(..) {
            let i = event.data.u64() as usize;
            // Bytes left after one receive are reported again by the next wait.
            match self.receive(i, RecvFlags::DONTWAIT)? {
                ReceiveOutcome::End => {
                    self.leave(i)?;
                    continue;
                }
                ReceiveOutcome::Messages(n) => self.list[i].pending += answer(i, n) * self.list[i].outgoing,
                ReceiveOutcome::Nothing => {}
            }
            self.send(i)?;
            self.wait_for_room(i)?;
        }
        self.ready = ready;
        Ok(self.open > 0)
    }

    fn leave(&mut self, i: usize) -> io::Result<()> {
        if let Some(epoll) = &self.epoll {
            epoll::delete(epoll, &self.list[i].stream)?;
        }
        self.open -= 1;
        Ok(())
    }

    fn wait_for_room(&mut self, i: usize) -> io::Result<()> {
        let exchange = &mut self.list[i];
        let wanted = exchange.pending > 0;
        if let Some(epoll) = self.epoll.as_ref().filter(|_| wanted != exchange.waits_for_room) {
            let flags = if wanted { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
            self.calls += 1;
            epoll::modify(epoll, &exchange.stream, EventData::new_u64(i as u64), flags)?;
            exchange.waits_for_room = wanted;
        }
        Ok(())
    }

    fn receive(&mut self, i: usize, flags: RecvFlags) -> io::Result<ReceiveOutcome> {
        let exchange = &mut self.list[i];
        self.calls += 1;
        match recv(&exchange.stream, &mut self.input[..], flags) {
            Ok((_, 0)) => Ok(ReceiveOutcome::End),
            Ok((_, n)) => {
                let bytes = exchange.partial + n;
                exchange.partial = bytes % exchange.incoming;
                Ok(ReceiveOutcome::Messages(bytes / exchange.incoming))
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(ReceiveOutcome::Nothing),
            // A client that is done closes with replies still in flight.
            Err(Errno::CONNRESET) => Ok(ReceiveOutcome::End),
            Err(error) => Err(error.into()),
        }
    }

    fn send(&mut self, i: usize) -> io::Result<usize> {
        let exchange = &mut self.list[i];
        let mut sent = 0;
        while exchange.pending > 0 {
            let bytes = &self.output[..exchange.pending.min(SEND)];
            self.calls += 1;
            match send(&exchange.stream, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(n) => {
                    sent += n;
                    exchange.pending -= n;
                }
                Err(Errno::AGAIN | Errno::INTR) => break,
                // The next receive reports it.
                Err(Errno::PIPE | Errno::CONNRESET) => exchange.pending = 0,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(sent)
    }
}

enum ReceiveOutcome {
    Messages(usize),
    Nothing,
    End,
}
