use super::Pump;
use super::budget;
use super::conn::{Phase, RecvState, SendState};
use crate::engine::{Engine, Sent};
use crate::table::SocketId;
use onego_buf::List;
use onego_wire::{ConnId, Disconnect, Machine, Time};
use std::io;
use std::os::fd::OwnedFd;

/// Bytes taken from the machine at a time: as many as a gathered send can usefully carry. Also bounds the bytes of a
/// connection between the machine and the socket, give or take one message.
const SEND_BATCH: usize = 1 << 20;

/// With fewer bytes left to send, more are taken from the machine before the next send.
const SEND_LOW: usize = SEND_BATCH / 4;

/// Bytes sent on one connection in one turn, so that a fast peer does not starve the others.
const SEND_BUDGET: usize = 4 << 20;

impl<E: Engine, M: Machine> Pump<E, M> {
    pub(super) fn transmit(&mut self, now: Time, socket: SocketId) {
        let Some(conn) = self.conns.get_mut(socket) else { return };
        conn.queued_send = false;
        let mut budget = SEND_BUDGET;
        loop {
            let Some(conn) = self.conns.get_mut(socket) else { return };
            match conn.send {
                SendState::Submitted => {
                    self.behind = true;
                    return;
                }
                SendState::Full | SendState::Failed(_) => return,
                SendState::Ready if matches!(conn.phase, Phase::Connecting | Phase::Watched) => return,
                SendState::Ready => {}
            }
            // A completion engine is already receiving more bytes that have arrived. Their replies join this send.
            if conn.is_receiving() && (1..budget::MOST).contains(&conn.run) {
                return self.want_send(socket);
            }
            conn.run = 0;
            let mut more = conn.phase == Phase::Flushing;
            if conn.phase == Phase::Open && conn.out.len() < SEND_LOW {
                let limit = SEND_BATCH - conn.out.len();
                self.machine.transmit(now, conn.id, &mut conn.out, limit);
                more = conn.out.len() >= SEND_BATCH;
            }
            if conn.out.is_empty() {
                break;
            }
            if budget == 0 {
                return self.want_send(socket);
            }
            match self.engine.send(socket, std::mem::take(&mut conn.out)) {
                None => {
                    conn.send = SendState::Submitted;
                    self.behind |= more;
                    return;
                }
                Some(sent) => {
                    budget = budget.saturating_sub(*sent.result.as_ref().unwrap_or(&0));
                    self.sent(socket, sent);
                }
            }
        }
        self.finish_flushing(socket);
    }

    /// Sends a message with a descriptor after all earlier bytes, or ends the connection.
    pub(super) fn send_descriptor(&mut self, now: Time, conn: ConnId, message: &[u8], descriptor: OwnedFd) {
        let Some(&mut socket) = self.names.get_mut(conn) else { return };
        self.transmit(now, socket);
        let Some(conn) = self.conns.get_mut(socket) else { return };
        let sent = match (&conn.send, conn.out.is_empty()) {
            (SendState::Ready, true) => self.engine.send_descriptor(socket, message, descriptor),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        };
        if let Err(error) = sent {
            self.notified = true;
            self.disconnect(now, socket, Disconnect::Failed(error));
        }
    }

    pub(super) fn sent(&mut self, socket: SocketId, sent: Sent) {
        let Some(conn) = self.conns.get_mut(socket) else { return };
        conn.out = sent.rest;
        conn.send = if sent.full { SendState::Full } else { SendState::Ready };
        match sent.result {
            Ok(n) => self.moved += n as u64,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => {
                conn.out = List::new();
                conn.send = SendState::Failed(error);
                // The peer's earlier bytes are received first; then the connection ends.
                conn.set_readable();
                if conn.recv == RecvState::Provided {
                    self.engine.recall(socket);
                }
                self.want_receive(socket);
            }
        }
    }

    /// Shuts down this side of a connection that the machine has closed, once everything is sent.
    fn finish_flushing(&mut self, socket: SocketId) {
        let Some(conn) = self.conns.get_mut(socket) else { return };
        if conn.phase == Phase::Flushing {
            conn.phase = Phase::Draining;
            conn.set_readable();
            self.engine.shutdown(socket);
            self.want_receive(socket);
        }
    }
}
