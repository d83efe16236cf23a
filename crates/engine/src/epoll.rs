//! Readiness engine over epoll.
//!
//! Connections are registered once and never modified; [`readiness`](crate::readiness) states the obligations of edge
//! triggering.
use crate::engine::{Engine, Event, Received, RecvBufs, Sent, Stats};
use crate::readiness::{Kind, Listened, STREAM_INTEREST, Sockets};
use crate::socket;
use crate::socket::{Accepted, Protocol};
use crate::system::clock;
use crate::table::SocketId;
use crate::wait::{Wait, timeout};
use crate::waker::{Sleeper, Waker};
use crate::zero_copy::Settings;
use onego_buf::List;
use onego_wire::{LocalPort, Time};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFlags, Timespec};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Events per call: enough that a busy loop makes few calls, few enough to stay in the cache.
const EVENTS: usize = 256;

/// The waker's name in the event data; no socket ever has it.
const WAKER: u64 = u64::MAX;

/// Readiness engine over epoll.
pub struct Epoll {
    epoll: OwnedFd,
    sleeper: Sleeper,
    sockets: Sockets,
    ready: Box<[libc::epoll_event; EVENTS]>,
    /// The kernel has `epoll_pwait2` (Linux 5.11).
    precise: bool,
    waits: u64,
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
            sockets: Sockets::default(),
            ready: Box::new([libc::epoll_event { events: 0, u64: 0 }; EVENTS]),
            precise: true,
            waits: 0,
        })
    }

    /// Sets the zero-copy policy for sends of future connections.
    pub fn set_zero_copy(&mut self, settings: Settings) {
        self.sockets.set_zero_copy(settings);
    }

    fn add(&mut self, fd: OwnedFd, kind: Kind, protocol: Protocol) -> io::Result<SocketId> {
        let interest = match kind {
            // Level-triggered: connections left after an accept are reported again.
            Kind::Listener | Kind::Watched => EventFlags::IN,
            // Each signal is an edge, so the eventfd is never read.
            Kind::Signals => EventFlags::IN | EventFlags::ET,
            Kind::Connecting | Kind::Stream => {
                EventFlags::from_bits_retain(STREAM_INTEREST.bits().into()) | EventFlags::ET
            }
        };
        let id = self.sockets.insert(fd, kind, protocol);
        let fd = &self.sockets.table.get(id).expect("just added").fd;
        if let Err(error) = epoll::add(&self.epoll, fd, EventData::new_u64(id.to_bits()), interest) {
            self.sockets.table.remove(id);
            return Err(error.into());
        }
        Ok(id)
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        self.waits += 1;
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

    fn dispatch(&mut self, id: SocketId, flags: PollFlags, events: &mut Vec<Event>) {
        match self.sockets.table.get(id).map(|socket| socket.kind) {
            Some(Kind::Listener) => self.accept(id, events),
            Some(Kind::Watched | Kind::Signals) => events.push(Event::Readable(id)),
            Some(_) => self.sockets.ready(id, flags, events),
            None => {}
        }
    }

    fn accept(&mut self, listener: SocketId, events: &mut Vec<Event>) {
        let accepted = match self.sockets.accept(listener) {
            Listened::Accepted(accepted) => accepted,
            Listened::Paused(accepted) => {
                // A level-triggered listener would be reported by every wait.
                self.listen_for(listener, EventFlags::empty());
                accepted
            }
        };
        for Accepted { fd, protocol, peer, local } in accepted {
            match self.add(fd, Kind::Stream, protocol) {
                Ok(socket) => events.push(Event::Accepted { listener, socket, peer, local }),
                Err(error) => tracing::warn!(%error, "cannot watch a new connection"),
            }
        }
    }

    fn listen_for(&self, listener: SocketId, interest: EventFlags) {
        let Some(socket) = self.sockets.table.get(listener) else { return };
        let data = EventData::new_u64(listener.to_bits());
        if let Err(error) = epoll::modify(&self.epoll, &socket.fd, data, interest) {
            tracing::error!(%error, "cannot pause or resume a listener");
        }
    }
}

impl Engine for Epoll {
    fn now(&self) -> Time {
        clock::now()
    }

    fn listen(&mut self, addr: SocketAddr) -> io::Result<(SocketId, SocketAddr)> {
        let (fd, local) = socket::listen(addr)?;
        Ok((self.add(fd, Kind::Listener, Protocol::Tcp)?, local))
    }

    fn adopt(&mut self, socket: OwnedFd) -> io::Result<(SocketId, SocketAddr)> {
        let (local, protocol) = socket::adopt(&socket)?;
        Ok((self.add(socket, Kind::Listener, protocol)?, local))
    }

    fn attach(&mut self, socket: OwnedFd) -> io::Result<(SocketId, SocketAddr)> {
        let (local, protocol) = socket::attach(&socket)?;
        Ok((self.add(socket, Kind::Stream, protocol)?, local))
    }

    fn connect(&mut self, addr: SocketAddr, local: LocalPort) -> io::Result<SocketId> {
        let fd = socket::connect(addr, local)?;
        self.add(fd, Kind::Connecting, Protocol::Tcp)
    }

    fn watch(&mut self, descriptor: OwnedFd) -> io::Result<SocketId> {
        self.add(descriptor, Kind::Watched, Protocol::Other)
    }

    fn watch_signals(&mut self, eventfd: OwnedFd) -> io::Result<SocketId> {
        self.add(eventfd, Kind::Signals, Protocol::Other)
    }

    fn send_descriptor(&mut self, socket: SocketId, message: &[u8], descriptor: OwnedFd) -> io::Result<()> {
        self.sockets.send_descriptor(socket, message, &descriptor)
    }

    fn recv(&mut self, id: SocketId, bufs: RecvBufs) -> Option<Received> {
        Some(self.sockets.recv(id, bufs))
    }

    fn send(&mut self, id: SocketId, list: List) -> Option<Sent> {
        Some(self.sockets.send(id, list))
    }

    fn set_low_water(&mut self, id: SocketId, bytes: usize) -> bool {
        self.sockets.set_low_water(id, bytes)
    }

    fn shutdown(&mut self, id: SocketId) {
        self.sockets.shutdown(id);
    }

    fn close(&mut self, id: SocketId) {
        // A closed descriptor stays in the epoll set if the program or a child of it has a duplicate.
        if let Some(socket) = self.sockets.table.get(id)
            && let Err(error) = epoll::delete(&self.epoll, &socket.fd)
        {
            tracing::error!(%error, "cannot remove a descriptor from the epoll set");
        }
        self.sockets.close(id);
    }

    fn poll(&mut self, wait: Wait, events: &mut Vec<Event>) -> io::Result<()> {
        while let Some(listener) = self.sockets.rested() {
            self.listen_for(listener, EventFlags::IN);
        }
        let mut timeout = timeout(wait, self.sockets.resting());
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
                    PollFlags::from_bits_retain(event.events as u16),
                    events,
                );
            }
        }
        Ok(())
    }

    fn pause(&mut self, time: Duration) -> io::Result<()> {
        clock::pause(time);
        Ok(())
    }

    fn sleep_elsewhere(&mut self) -> io::Result<Option<(BorrowedFd<'_>, Option<Duration>)>> {
        let most = timeout(Wait::Forever, self.sockets.resting());
        Ok(self.sleeper.fall_asleep().then(|| (self.epoll.as_fd(), most)))
    }

    fn waker(&self) -> Waker {
        self.sleeper.waker()
    }

    fn stats(&self) -> Stats {
        self.sockets.stats(self.waits)
    }
}

/// rustix rounds the timeout of its `epoll::wait` to milliseconds unless it is built for Linux 5.11 and later only.
fn epoll_pwait2(
    epoll: &OwnedFd,
    ready: &mut [libc::epoll_event; EVENTS],
    timeout: Option<Duration>,
) -> io::Result<usize> {
    let timeout = timeout.map(|timeout| Timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `ready` has room for `EVENTS` events, `timeout` is null or points to a timespec that outlives the call,
    // and the kernel ignores a null signal mask.
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
    // Rounded up: a wait that ends early would be repeated until the time has come.
    let millis = timeout
        .map_or(-1, |timeout| i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX));
    // SAFETY: `ready` has room for `EVENTS` events.
    let n = unsafe { libc::epoll_wait(epoll.as_raw_fd(), ready.as_mut_ptr(), EVENTS as i32, millis) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
impl Epoll {
    pub(crate) fn socket_descriptor(&self, id: SocketId) -> Option<std::os::fd::BorrowedFd<'_>> {
        Some(std::os::fd::AsFd::as_fd(&self.sockets.table.get(id)?.fd))
    }
}
