//! The front end: it agrees on features, shares the memory of its guest, and starts and stops queues.

use super::guest::Guest;
use onego_block::Device;
use onego_export::vhost_user::codec::{FrontRequest, HEADER_LEN, Header, InflightDescription, QueueEvent};
use onego_export::vhost_user::{Disk, DiskServer};
use onego_testkit::{DrivenServer, Who};
use onego_wire::{ListenerId, Reader};
use rustix::net::{AddressFamily, SocketType, socket};
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::rc::Rc;

/// Bits of features of virtio (virtio 5.2.3, 6).
pub(crate) const FLUSH: u64 = 1 << 9;
pub(crate) const INDIRECT: u64 = 1 << 28;
pub(crate) const EVENT_INDEX: u64 = 1 << 29;
const PROTOCOL: u64 = 1 << 30;
const VERSION_1: u64 = 1 << 32;
const MULTI_QUEUE: u64 = 1 << 12;

/// What stays when the connection, or the server, goes.
pub(crate) struct Front {
    /// The features that the driver has agreed on.
    pub(crate) features: u64,
    /// The record of requests in flight.
    record: Option<(OwnedFd, InflightDescription)>,
    who: Option<Who>,
}

/// A server of a disk, which listens.
pub(crate) fn served(device: Rc<dyn Device>, queues: usize) -> DrivenServer<DiskServer> {
    let mut server = DiskServer::default();
    let disk = Disk { device, read_only: false, serial: "simulated".into(), queues: queues as u16 };
    server.serve(disk, socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap()).unwrap();
    DrivenServer::new(server)
}

fn event(queue: usize) -> QueueEvent {
    QueueEvent { index: queue as u32, is_there: true }
}

impl Front {
    pub(crate) fn new(features: u64) -> Self {
        Self { features: features | PROTOCOL | VERSION_1 | MULTI_QUEUE, record: None, who: None }
    }

    /// Comes, as after a server has started: everything is said again, and each queue goes on.
    pub(crate) fn connect(&mut self, server: &mut DrivenServer<DiskServer>, guest: &Guest) {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let who = server.accept(ListenerId(0), nowhere, nowhere).expect("the disk is free");
        self.who = Some(who);
        let offered = self.ask(server, &FrontRequest::GetFeatures);
        let offered = u64::from_le_bytes(offered.try_into().expect("a word"));
        assert_eq!(self.features & !offered, 0, "all of them are offered");
        let protocol = self.ask(server, &FrontRequest::GetProtocolFeatures);
        let protocol = u64::from_le_bytes(protocol.try_into().expect("a word"));
        self.send(server, &FrontRequest::SetProtocolFeatures(protocol), &[]);
        self.tell(server, &FrontRequest::SetFeatures(self.features), &[]);
        let regions = guest.regions();
        let files = vec![&guest.file; regions.len()];
        self.tell(server, &FrontRequest::SetMemTable(regions), &files);
        self.keep_record(server, guest);
        for queue in 0..guest.queues.len() {
            // What is not used is available again.
            self.start(server, guest, queue, guest.queues[queue].used);
        }
    }

    fn keep_record(&mut self, server: &mut DrivenServer<DiskServer>, guest: &Guest) {
        if self.record.is_none() {
            let queues = guest.queues.len() as u16;
            let queue_size = guest.options.queue_size;
            let wanted = InflightDescription { length: 0, offset: 0, queues, queue_size };
            let payload = self.ask(server, &FrontRequest::GetInflightFd(wanted));
            let description = InflightDescription::decode(&mut Reader::new(&payload)).unwrap();
            let file = server.files_came(self.who()).pop().expect("a record is a file");
            self.record = Some((file, description));
        }
        let (file, description) = self.record.as_ref().expect("it was just made");
        let file = file.try_clone().unwrap();
        self.tell(server, &FrontRequest::SetInflightFd(*description), &[&file]);
    }

    /// Starts a queue.
    pub(crate) fn start(
        &self,
        server: &mut DrivenServer<DiskServer>,
        guest: &Guest,
        queue: usize,
        base: u16,
    ) {
        let (index, state) = (queue as u32, &guest.queues[queue]);
        let size = guest.options.queue_size.into();
        self.tell(server, &FrontRequest::SetVringNum { index, size }, &[]);
        self.tell(server, &FrontRequest::SetVringBase { index, base: base.into() }, &[]);
        self.tell(server, &FrontRequest::SetVringAddr { index, ring: guest.ring(queue) }, &[]);
        self.tell(server, &FrontRequest::SetVringKick(event(queue)), &[&state.kick]);
        self.tell(server, &FrontRequest::SetVringCall(event(queue)), &[&state.call]);
        self.tell(server, &FrontRequest::SetVringEnable { index, enable: true }, &[]);
    }

    /// Asks for a queue to be stopped; the reply comes once its requests are done.
    pub(crate) fn stop(&self, server: &mut DrivenServer<DiskServer>, queue: usize) {
        self.send(server, &FrontRequest::GetVringBase { index: queue as u32 }, &[]);
        server.turn();
    }

    /// The reply to that, if it has come: chains that were taken.
    pub(crate) fn stopped(&self, server: &mut DrivenServer<DiskServer>) -> Option<u16> {
        let (request, payload) = self.reply(server)?;
        assert_eq!(request, 11);
        Some(u16::from_le_bytes([payload[4], payload[5]]))
    }

    /// Sends bytes that are no message.
    pub(crate) fn send_noise(&self, server: &mut DrivenServer<DiskServer>, bytes: &[u8]) {
        server.send_bytes(self.who(), bytes);
        server.turn();
    }

    /// The connection is over.
    pub(crate) fn disconnect(&mut self, server: &mut DrivenServer<DiskServer>) {
        if let Some(who) = self.who.take() {
            server.disconnect(who);
        }
    }

    /// The server is gone, and the connection with it.
    pub(crate) fn forget_connection(&mut self) {
        self.who = None;
    }

    fn who(&self) -> Who {
        self.who.expect("there is a connection")
    }

    fn send(&self, server: &mut DrivenServer<DiskServer>, request: &FrontRequest, files: &[&OwnedFd]) {
        self.send_bytes(server, &request.encode(false), files);
    }

    fn send_bytes(&self, server: &mut DrivenServer<DiskServer>, bytes: &[u8], files: &[&OwnedFd]) {
        let files = files.iter().map(|file| file.as_fd().try_clone_to_owned().unwrap()).collect();
        server.send_with(self.who(), bytes, files);
    }

    /// Sends a message that has a reply, and gives its payload.
    fn ask(&self, server: &mut DrivenServer<DiskServer>, request: &FrontRequest) -> Vec<u8> {
        self.send(server, request, &[]);
        server.turn();
        let (of, payload) = self.reply(server).expect("there is a reply");
        assert_eq!(of, request.number());
        payload
    }

    /// Sends a message that has none, and waits until it is carried out.
    fn tell(&self, server: &mut DrivenServer<DiskServer>, request: &FrontRequest, files: &[&OwnedFd]) {
        self.send_bytes(server, &request.encode(true), files);
        server.turn();
        let reply = self.reply(server).expect("there is a reply");
        assert_eq!(reply, (request.number(), vec![0; 8]), "{request:?}");
    }

    /// The reply that has come.
    fn reply(&self, server: &mut DrivenServer<DiskServer>) -> Option<(u32, Vec<u8>)> {
        let came = server.came(self.who());
        let header = Header::decode(came.first_chunk()?);
        let end = HEADER_LEN + header.size as usize;
        let payload = came.get(HEADER_LEN..end)?.to_vec();
        came.drain(..end);
        Some((header.request, payload))
    }
}
