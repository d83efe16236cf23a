//! Clients over RDMA, which come by iWARP in software or by devices.

use super::connection::NfsConnection;
use super::table::NfsConnections;
use crate::program::Program;
use crate::transport::Transport;
use onego_rdma::{Asked, Listener};
use onego_wire::{Action, ConnId, Time};
use std::io;
use std::net::{IpAddr, SocketAddr};

impl NfsConnections {
    /// Makes room for a connection from that host. `false`: none gives way.
    pub(crate) fn make_room(&mut self, now: Time, host: IpAddr, rdma: bool) -> bool {
        let rdma_is_full = rdma && self.rdma.open >= self.rdma.most;
        (!rdma_is_full || self.give_way(now, host, true))
            && (!self.table.is_full() || self.give_way(now, host, false))
    }

    /// Closes a connection, of those over RDMA or of all, for one from that host. `false`: none gives way.
    fn give_way(&mut self, now: Time, host: IpAddr, rdma: bool) -> bool {
        let may =
            |connection: &NfsConnection| connection.jobs == 0 && (!rdma || connection.transport.is_rdma());
        let Some(conn) = self.table.pick(now, host, may) else { return false };
        tracing::info!(?conn, "a connection that does nothing gives way to another");
        self.close(now, conn);
        true
    }

    /// Adds a connection over RDMA. `None`: there may be none.
    pub(crate) fn add_rdma(&mut self, now: Time, peer: SocketAddr) -> Option<ConnId> {
        let transport = Transport::rdma(now, self.rdma.config.as_ref()?);
        Some(self.insert(now, peer, transport))
    }

    /// Clients come by devices, too.
    pub(crate) fn listen_by_device(&mut self, listener: Box<dyn Listener>) -> io::Result<()> {
        let descriptor = listener.descriptor().try_clone_to_owned()?;
        let conn = self.table.reserve();
        self.table.push_action(Action::Watch { conn, descriptor });
        self.rdma.device = Some((conn, listener));
        Ok(())
    }

    /// Is that the name of where clients come by devices?
    pub(crate) fn is_device(&self, conn: ConnId) -> bool {
        self.rdma.device.as_ref().is_some_and(|(name, _)| *name == conn)
    }

    /// The next client that asks to connect by a device.
    pub(crate) fn next_asked(&mut self) -> Option<Asked> {
        let (_, listener) = self.rdma.device.as_mut()?;
        loop {
            match listener.accept()? {
                Ok(asked) => return Some(asked),
                Err(error) => tracing::info!(%error, "a client cannot connect by a device"),
            }
        }
    }

    /// Lets a client in that asks to connect by a device.
    pub(crate) fn add_asked(&mut self, now: Time, asked: Asked) {
        let (Some(config), peer) = (&self.rdma.config, asked.client) else { return };
        match Transport::device(asked, config) {
            Ok((transport, descriptor)) => {
                let conn = self.insert(now, peer, transport);
                self.table.push_action(Action::Watch { conn, descriptor });
            }
            Err(error) => tracing::info!(%peer, %error, "a client is not let in"),
        }
    }

    /// Something has happened on a connection by a device.
    pub(crate) fn ready(&mut self, now: Time, conn: ConnId, program: &mut Program) {
        let had_room = self.table.has_room_for_replies();
        let stopped = self.table.is_stopped(conn);
        let Some(connection) = self.table.get(conn) else { return };
        if let Err(error) = connection.transport.ready() {
            return self.give_up(now, conn, &error);
        }
        self.table.count_replies(now, conn);
        if !stopped {
            // How much the device has moved is not known.
            self.work(now, conn, 0, program);
        }
        self.resume_after(now, conn, had_room, program);
    }
}
