//! The readiness engine over epoll.
//!
//! Connections are registered once, edge-triggered, for reading and writing, and never touched again: no system
//! call is spent on changing interest. What edge triggering asks for in return:
//! - A receive that fills its buffers may have left bytes behind; the caller goes on. One that returns *less* than
//!   it asked for found the queue of a stream socket empty, and whatever arrives later makes a new edge (epoll(7),
//!   question 9). So a short receive ends the reading without one more call just to see `EAGAIN`.
//! - The exception is the end of the stream: it may have come before the receive, together with its data, and then
//!   there is no further edge. `EPOLLRDHUP`, `EPOLLHUP` or `EPOLLERR` in the event tell; from then on only the end
//!   itself, or an error, ends the reading. If it comes after the event was read, it makes an edge of its own.
//! - A short send found the send buffer full; the kernel then makes an edge once a third of it is free again.
//!
//! (A receive also stops short at urgent data. Nothing here uses it; a peer that does delays itself only.)
use crate::engine::{Engine, Event, Received, RecvBufs, Sent, Stats, Wait};
use crate::socket::{ACCEPT_PAUSE, Accepted, MAX_SLICES};
use crate::{Sleeper, SocketId, SocketTable, Waker, clock, socket};
use onego_buf::List;
use onego_wire::Time;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};
use smallvec::SmallVec;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// Events taken a call: enough that a busy loop spends few calls, few enough to stay in the cache.
const EVENTS: usize = 256;

/// The waker's name in the event data; no socket ever has it.
const WAKER: u64 = u64::MAX;

enum Kind {
    Listener { paused_until: Option<Time> },
    Connecting,
    Stream,
}

struct Socket {
    fd: OwnedFd,
    kind: Kind,
    /// The end of the stream, or an error, was seen: a short receive does not mean that there is no more.
    ended: bool,
    /// The last send was short: tell when there is room.
    full: bool,
}

impl Socket {
    fn new(fd: OwnedFd, kind: Kind) -> Self {
        Self { fd, kind, ended: false, full: false }
    }
}

/// The readiness engine over epoll.
pub struct Epoll {
    epoll: OwnedFd,
    sleeper: Sleeper,
    sockets: SocketTable<Socket>,
    ready: Box<[libc::epoll_event; EVENTS]>,
    /// Listeners that rest; there are few, and hardly ever any.
    paused: Vec<SocketId>,
    /// `epoll_pwait2` is there (Linux 5.11).
    precise: bool,
    stats: Stats,
}

impl Epoll {
    /// Opens an engine.
    pub fn open() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let sleeper = Sleeper::new()?;
        if let Some(eventfd) = sleeper.eventfd() {
            epoll::add(&epoll, eventfd, EventData::new_u64(WAKER), EventFlags::IN | EventFlags::ET)?;
        }
        Ok(Self {
            epoll,
            sleeper,
            sockets: SocketTable::default(),
            ready: Box::new([libc::epoll_event { events: 0, u64: 0 }; EVENTS]),
            paused: Vec::new(),
            precise: true,
            stats: Stats::default(),
        })
    }

    fn add(&mut self, fd: OwnedFd, kind: Kind) -> io::Result<SocketId> {
        let interest = match kind {
            // Level-triggered: what is left after `ACCEPTS` comes up again by itself.
            Kind::Listener { .. } => EventFlags::IN,
            _ => EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET,
        };
        let id = self.sockets.insert(Socket::new(fd, kind));
        let fd = &self.sockets.get(id).expect("just added").fd;
        if let Err(error) = epoll::add(&self.epoll, fd, EventData::new_u64(id.to_bits()), interest) {
            self.sockets.remove(id);
            return Err(error.into());
        }
        Ok(id)
    }

    /// One wait in the kernel; how many events there are.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        self.stats.waits += 1;
        let result = if self.precise {
            match epoll_pwait2(&self.epoll, &mut self.ready, timeout) {
                Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                    tracing::warn!(
                        "the kernel has no epoll_pwait2 (Linux 5.11): timers are rounded to milliseconds"
                    );
                    self.precise = false;
                    epoll_wait(&self.epoll, &mut self.ready, timeout)
                }
                result => result,
            }
        } else {
            epoll_wait(&self.epoll, &mut self.ready, timeout)
        };
        match result {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            result => result,
        }
    }

    fn dispatch(&mut self, id: SocketId, flags: EventFlags, events: &mut Vec<Event>) {
        let Some(socket) = self.sockets.get_mut(id) else { return };
        match socket.kind {
            Kind::Listener { .. } => return self.accept(id, events),
            Kind::Connecting => {
                if !flags.intersects(EventFlags::OUT | EventFlags::ERR | EventFlags::HUP) {
                    return;
                }
                let result = socket::connected(&socket.fd);
                socket.kind = Kind::Stream;
                events.push(Event::Connected { socket: id, result });
            }
            Kind::Stream => {}
        }
        let end = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        socket.ended |= flags.intersects(end);
        if flags.intersects(EventFlags::IN | end) {
            events.push(Event::Readable(id));
        }
        if socket.full && flags.intersects(EventFlags::OUT | EventFlags::ERR | EventFlags::HUP) {
            socket.full = false;
            events.push(Event::Writable(id));
        }
    }

    fn accept(&mut self, listener: SocketId, events: &mut Vec<Event>) {
        let Some(socket) = self.sockets.get(listener) else { return };
        let mut accepted = Vec::new();
        let pause = socket::accept(&socket.fd, &mut self.stats.accepts, &mut accepted);
        for Accepted { fd, peer, local } in accepted {
            match self.add(fd, Kind::Stream) {
                Ok(socket) => events.push(Event::Accepted { listener, socket, peer, local }),
                Err(error) => tracing::warn!(%error, "a new connection cannot be watched"),
            }
        }
        if pause {
            self.pause(listener);
        }
    }

    /// A listener that cannot accept would come up in every wait.
    fn pause(&mut self, listener: SocketId) {
        let until = self.now() + ACCEPT_PAUSE;
        self.listen_for(listener, EventFlags::empty());
        if let Some(socket) = self.sockets.get_mut(listener) {
            socket.kind = Kind::Listener { paused_until: Some(until) };
            self.paused.push(listener);
        }
    }

    fn resume_paused(&mut self) {
        let now = self.now();
        let mut paused = std::mem::take(&mut self.paused);
        paused.retain(|&listener| match self.sockets.get(listener) {
            Some(Socket { kind: Kind::Listener { paused_until: Some(until) }, .. }) if *until > now => true,
            Some(_) => {
                self.listen_for(listener, EventFlags::IN);
                false
            }
            None => false,
        });
        self.paused = paused;
    }

    fn listen_for(&self, listener: SocketId, interest: EventFlags) {
        let Some(socket) = self.sockets.get(listener) else { return };
        let data = EventData::new_u64(listener.to_bits());
        if let Err(error) = epoll::modify(&self.epoll, &socket.fd, data, interest) {
            tracing::error!(%error, "a listener cannot be paused or resumed");
        }
    }
}

impl Engine for Epoll {
    fn now(&self) -> Time {
        clock::now()
    }

    fn listen(&mut self, addr: SocketAddr) -> io::Result<(SocketId, SocketAddr)> {
        let (fd, local) = socket::listen(addr)?;
        Ok((self.add(fd, Kind::Listener { paused_until: None })?, local))
    }

    fn connect(&mut self, addr: SocketAddr) -> io::Result<SocketId> {
        let fd = socket::connect(addr)?;
        self.add(fd, Kind::Connecting)
    }

    fn recv(&mut self, id: SocketId, mut bufs: RecvBufs) -> Option<Received> {
        let Some(socket) = self.sockets.get(id) else {
            return Some(Received { bufs, result: Err(Errno::BADF.into()), drained: true });
        };
        self.stats.recvs += 1;
        let limit = bufs.ahead_limit;
        let result = match (&mut bufs.place, &mut bufs.ahead) {
            (Some(place), Some(ahead)) => {
                let ahead_len = ahead.len().min(limit);
                let mut slices = [IoSliceMut::new(place), IoSliceMut::new(&mut ahead[..ahead_len])];
                rustix::io::readv(&socket.fd, &mut slices)
            }
            (Some(only), None) => net::recv(&socket.fd, &mut only[..], RecvFlags::empty()).map(|r| r.1),
            (None, Some(only)) => {
                let len = only.len().min(limit);
                net::recv(&socket.fd, &mut only[..len], RecvFlags::empty()).map(|r| r.1)
            }
            (None, None) => Err(Errno::INVAL),
        };
        let drained = match result {
            Ok(n) => n < bufs.capacity() && (n == 0 || !socket.ended),
            Err(Errno::INTR) => false,
            Err(_) => true,
        };
        self.stats.received_bytes += result.unwrap_or(0) as u64;
        Some(Received { bufs, result: result.map_err(Into::into), drained })
    }

    fn send(&mut self, id: SocketId, mut list: List) -> Option<Sent> {
        let Some(socket) = self.sockets.get_mut(id) else {
            return Some(Sent { rest: list, result: Err(Errno::BADF.into()), full: true });
        };
        self.stats.sends += 1;
        let mut segments = list.segments();
        let mut asked = list.len();
        let result = if let (Some(only), None) = (segments.next(), segments.next()) {
            net::send(&socket.fd, only, SendFlags::NOSIGNAL)
        } else {
            // Filled where it stands: to collect it would be to move 16 KiB.
            let mut slices = SmallVec::<[IoSlice<'_>; MAX_SLICES]>::new();
            slices.extend(list.io_slices(MAX_SLICES));
            if slices.len() == MAX_SLICES {
                asked = slices.iter().map(|slice| slice.len()).sum();
            }
            net::sendmsg(&socket.fd, &slices, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)
        };
        match result {
            Ok(n) => {
                list.advance(n);
                self.stats.sent_bytes += n as u64;
                socket.full = n < asked;
            }
            Err(Errno::WOULDBLOCK) => socket.full = true,
            Err(_) => {}
        }
        Some(Sent { rest: list, full: socket.full, result: result.map_err(Into::into) })
    }

    fn shutdown(&mut self, id: SocketId) {
        if let Some(socket) = self.sockets.get(id) {
            // It fails if the peer has reset the connection; then there is nobody to tell.
            let _ = net::shutdown(&socket.fd, Shutdown::Write);
        }
    }

    fn close(&mut self, id: SocketId) {
        // Closing the descriptor takes it out of the epoll set: nobody holds a duplicate.
        self.sockets.remove(id);
    }

    fn poll(&mut self, wait: Wait, events: &mut Vec<Event>) -> io::Result<()> {
        if !self.paused.is_empty() {
            self.resume_paused();
        }
        let mut timeout = socket::timeout(wait, !self.paused.is_empty());
        if timeout != Some(Duration::ZERO) && !self.sleeper.fall_asleep() {
            timeout = Some(Duration::ZERO);
        }
        let result = self.wait(timeout);
        if self.sleeper.wake_up() {
            events.push(Event::Woken);
        }
        for i in 0..result? {
            let event = self.ready[i];
            if event.u64 != WAKER {
                self.dispatch(
                    SocketId::from_bits(event.u64),
                    EventFlags::from_bits_retain(event.events),
                    events,
                );
            }
        }
        Ok(())
    }

    fn waker(&self) -> Waker {
        self.sleeper.waker()
    }

    fn stats(&self) -> Stats {
        self.stats
    }
}

/// rustix rounds the timeout of its `epoll::wait` to milliseconds unless it is built for Linux 5.11 and later only.
fn epoll_pwait2(
    epoll: &OwnedFd,
    ready: &mut [libc::epoll_event; EVENTS],
    timeout: Option<Duration>,
) -> io::Result<usize> {
    let timeout = timeout.map(|timeout| libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `ready` has room for `EVENTS` events, `timeout` is null or points to a timespec that outlives the
    // call, and a null signal mask is not looked at.
    let n = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            ready.as_mut_ptr(),
            EVENTS,
            timeout,
            std::ptr::null::<libc::sigset_t>(),
            0usize,
        )
    };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

fn epoll_wait(
    epoll: &OwnedFd,
    ready: &mut [libc::epoll_event; EVENTS],
    timeout: Option<Duration>,
) -> io::Result<usize> {
    // Rounded up: to wake a little early would be to wake again and again until the time has come.
    let millis = timeout
        .map_or(-1, |timeout| i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX));
    // SAFETY: `ready` has room for `EVENTS` events.
    let n = unsafe { libc::epoll_wait(epoll.as_raw_fd(), ready.as_mut_ptr(), EVENTS as i32, millis) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}
