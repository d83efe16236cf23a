use super::Pump;
use super::conn::{Phase, RecvState, SendState};
use crate::engine::{Engine, Received, RecvBufs};
use crate::table::SocketId;
use onego_wire::{ConnId, Disconnect, Landing, Machine, Time};
use std::io;

/// Maximum number of receives in flight in a completion engine: each may hold a chunk of receive memory.
const MAX_RECEIVES_OUT: usize = 64;

impl<E: Engine, M: Machine> Pump<E, M> {
    pub(super) fn receive_all(&mut self, now: Time) {
        for _ in 0..self.readable.len() {
            let Some(socket) = self.readable.pop_front() else { break };
            if let Some(conn) = self.conns.get_mut(socket) {
                conn.queued_receive = false;
                if self.receive(now, socket) {
                    self.want_receive(socket);
                }
            }
        }
    }

    /// Receives on one connection until it is drained. Returns `true` if more may be left for the next turn.
    fn receive(&mut self, now: Time, socket: SocketId) -> bool {
        let Some(conn) = self.conns.get_mut(socket) else { return false };
        let mut budget = conn.budget.turn(self.waits);
        loop {
            let Some(conn) = self.conns.get_mut(socket) else { return false };
            if conn.recv != RecvState::Ready {
                return false;
            }
            if budget == 0 || self.receives_out >= MAX_RECEIVES_OUT {
                return true;
            }
            let Some(bufs) = self.buffers(now, socket) else {
                // The machine takes no more for now. A connection whose sending failed would get no further event.
                self.fail_drained(now, socket);
                return false;
            };
            let provided = bufs.landing.place.is_none() && bufs.ahead.is_none();
            let Some(received) = self.engine.recv(socket, bufs) else {
                self.receives_out += usize::from(!provided);
                if let Some(conn) = self.conns.get_mut(socket) {
                    conn.recv = if provided { RecvState::Provided } else { RecvState::Submitted };
                }
                return false;
            };
            budget = budget.saturating_sub(*received.result.as_ref().unwrap_or(&0));
            self.received(now, socket, received);
        }
    }

    /// Asks the machine for the destination of the next bytes. `None`: it takes none.
    fn buffers(&mut self, now: Time, socket: SocketId) -> Option<RecvBufs> {
        let conn = self.conns.get_mut(socket)?;
        let landing = match conn.phase {
            Phase::Open if conn.half_closed => return None,
            Phase::Open => match conn.held.take() {
                Some(landing) => landing,
                None => self.machine.landing(conn.id),
            },
            Phase::Flushing | Phase::Draining => Landing::shared(usize::MAX),
            Phase::Connecting | Phase::Watched | Phase::Doomed => return None,
        };
        // A receive that waits in the engine holds no memory.
        let lent = landing.place.is_none() && landing.descriptors == 0 && self.engine.lends();
        let ahead = (landing.ahead > 0 && !lent).then(|| self.chunks.take());
        let bufs = RecvBufs { landing, ahead, ..RecvBufs::default() };
        if bufs.capacity() == 0 && !(lent && bufs.landing.ahead > 0) {
            // A receive of zero bytes would look like the end of the stream.
            bufs.landing.into_places().for_each(|place| self.machine.landed(now, conn.id, place, 0));
            return None;
        }
        Some(bufs)
    }

    /// Processes a completed receive and hands its bytes to the machine. The caller requeues the connection for the
    /// rest.
    pub(super) fn received(&mut self, now: Time, socket: SocketId, received: Received) {
        let Some(conn) = self.conns.get_mut(socket) else { return };
        let came = *received.result.as_ref().unwrap_or(&0);
        self.moved += came as u64;
        conn.low_water.received(came);
        conn.budget.received(came);
        conn.recv = if received.drained { RecvState::Idle } else { RecvState::Ready };
        conn.run = if received.drained { 0 } else { conn.run + came };
        let (id, phase) = (conn.id, conn.phase);
        let bufs = received.bufs;
        match received.result {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                if phase == Phase::Open {
                    conn.held = Some(bufs.landing);
                } else {
                    bufs.landing.into_places().for_each(|place| self.machine.landed(now, id, place, 0));
                }
                if let Some(ahead) = bufs.ahead {
                    self.chunks.put_back(ahead);
                }
            }
            result => {
                let n = *result.as_ref().unwrap_or(&0);
                let open = phase == Phase::Open;
                self.hand_over(now, id, open, bufs, n);
                match result {
                    Ok(1..) => {}
                    // The peer has ended its direction, but it may still receive.
                    Ok(0) if phase == Phase::Flushing => return self.stop_reading(socket),
                    Ok(0) if phase == Phase::Open => return self.half_closed(now, socket),
                    Ok(0) => return self.disconnect(now, socket, Disconnect::Closed),
                    Err(error) => return self.disconnect(now, socket, Disconnect::Failed(error)),
                }
            }
        }
        if phase == Phase::Doomed {
            self.drop_socket(socket);
        } else if received.drained {
            self.fail_drained(now, socket);
            if self.engine.lends() {
                self.wait_for_bytes(socket);
            }
        }
    }

    /// Waits for bytes on a drained connection of an engine that lends. The next receive waits there without memory,
    /// or, if the machine has a place for the bytes, until they arrive.
    pub(super) fn wait_for_bytes(&mut self, socket: SocketId) {
        let Some(conn) = self.conns.get_mut(socket) else { return };
        if conn.held.is_none() && conn.phase == Phase::Open {
            let landing = self.machine.landing(conn.id);
            conn.held = landing.place.is_some().then_some(landing);
        }
        if conn.held.as_ref().is_some_and(|held| held.place.is_some()) {
            self.engine.await_readable(socket);
        } else {
            conn.held = None;
            conn.set_readable();
            self.want_receive(socket);
        }
    }

    fn half_closed(&mut self, now: Time, socket: SocketId) {
        let Some(conn) = self.conns.get_mut(socket) else { return };
        if !self.machine.half_closed(now, conn.id) {
            return self.disconnect(now, socket, Disconnect::Closed);
        }
        conn.half_closed = true;
        self.stop_reading(socket);
        self.fail_drained(now, socket);
    }

    fn stop_reading(&mut self, socket: SocketId) {
        if let Some(conn) = self.conns.get_mut(socket) {
            conn.recv = RecvState::Idle;
        }
    }

    fn hand_over(&mut self, now: Time, id: ConnId, open: bool, bufs: RecvBufs, n: usize) {
        if open && !bufs.descriptors.is_empty() {
            self.machine.descriptors(now, id, bufs.descriptors);
        }
        let mut ahead_len = n;
        for place in bufs.landing.into_places() {
            let placed = ahead_len.min(place.len());
            ahead_len -= placed;
            self.machine.landed(now, id, place, placed);
        }
        if let Some(mut ahead) = bufs.ahead {
            if ahead_len > 0 && open {
                let bytes = ahead.split_to(ahead_len).freeze();
                self.machine.received(now, id, bytes);
            }
            self.chunks.put_back(ahead);
        }
    }

    /// Ends a connection on which sending has failed, once the peer's earlier bytes are received.
    fn fail_drained(&mut self, now: Time, socket: SocketId) {
        if let Some(conn) = self.conns.get_mut(socket)
            && matches!(conn.send, SendState::Failed(_))
            && let SendState::Failed(error) = std::mem::replace(&mut conn.send, SendState::Full)
        {
            self.disconnect(now, socket, Disconnect::Failed(error));
        }
    }
}
