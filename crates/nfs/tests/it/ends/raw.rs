//! A raw side of a connection that sends whatever a test specifies.

use super::{NOW, RecordedPipe, entropy};
use onego_buf::{List, Pool, SegmentMut};
use onego_nfs::rpc::rdma::{Chunks, Content, Header, RdmaSegment, ReadSegment, WriteChunk};
use onego_nfs::xdr::{Reader, Writer};
use onego_rdma::iwarp::{Config, Connection, Error, Event};
use onego_rdma::{CompletedWork, Key, Memory, QueuePair, SendFlags, Status};
use std::sync::Arc;

pub(crate) struct Raw {
    pub(crate) connection: Connection,
    pub(crate) incoming: RecordedPipe,
    pub(crate) messages: Vec<Vec<u8>>,
    pub(crate) invalidated: Vec<u32>,
    pub(crate) fault: Option<Error>,
}

impl Raw {
    pub(crate) fn client(told: &[u8]) -> Self {
        let config = Arc::new(Config::new(Pool::new(1 << 20)));
        let mut connection = Connection::connect(NOW, config, entropy(70), told).unwrap();
        connection.opened(NOW);
        Self::new(connection)
    }

    pub(crate) fn server() -> Self {
        Self::new(Connection::serve(NOW, Arc::new(Config::new(Pool::new(1 << 20))), entropy(71)))
    }

    fn new(mut connection: Connection) -> Self {
        (0..256).for_each(|_| connection.post_receive(0, SegmentMut::zeroed(65536)).unwrap());
        Self {
            connection,
            incoming: RecordedPipe::default(),
            messages: Vec::new(),
            invalidated: Vec::new(),
            fault: None,
        }
    }

    /// Collects what was received. `told` is the private data for accepting a connection.
    pub(crate) fn collect(&mut self, told: &[u8]) {
        while let Some(event) = self.connection.event() {
            match event {
                Event::Requested(_) => self.connection.accept(told).unwrap(),
                Event::Fault(fault) => self.fault = Some(fault),
                _ => {}
            }
        }
        while let Some(completion) = self.connection.poll() {
            if let CompletedWork::Received { buffer, len, invalidated, .. } = completion.done
                && completion.status == Status::Success
            {
                self.invalidated.extend(invalidated.map(|(key, _)| key.0));
                self.messages.push(buffer[..len].to_vec());
                let _ = self.connection.post_receive(0, buffer);
            }
        }
    }

    pub(crate) fn say(&mut self, bytes: &[u8], invalidate: Option<u32>) {
        let flags = SendFlags { invalidate: invalidate.map(Key), solicited: false };
        let _ = self.connection.post_send(0, List::from(bytes.to_vec()), flags);
    }

    /// Registers memory of the same length and kind as the target, and returns its segment.
    pub(crate) fn stand_in(&mut self, target: &RdmaSegment, is_source: bool) -> RdmaSegment {
        let len = target.length as usize;
        let memory = match is_source {
            true => Memory::Source(List::from(vec![7; len])),
            false => Memory::Sink(SegmentMut::zeroed(len)),
        };
        let key = self.connection.register_at(memory, target.offset).unwrap();
        RdmaSegment { handle: key.0, ..*target }
    }

    pub(crate) fn source(&mut self, bytes: Vec<u8>) -> RdmaSegment {
        let length = bytes.len() as u32;
        let key = self.connection.register_at(Memory::Source(List::from(bytes)), 0).unwrap();
        RdmaSegment { handle: key.0, length, offset: 0 }
    }
}

pub(crate) fn message(xid: u32, credits: u32, content: Content, body: &[u8]) -> Vec<u8> {
    let mut w = Writer::new();
    Header { xid, credits, content }.encode(&mut w);
    [w.as_slice(), body].concat()
}

pub(crate) fn header(message: &[u8]) -> Header {
    Header::decode(&mut Reader::new(message)).unwrap()
}

pub(crate) fn reads<const N: usize>(reads: [(u32, RdmaSegment); N]) -> Chunks {
    let reads = reads.into_iter().map(|(position, target)| ReadSegment { position, target });
    Chunks { reads: reads.collect(), ..Chunks::default() }
}

pub(crate) fn writes<const N: usize>(writes: [RdmaSegment; N]) -> Chunks {
    Chunks {
        writes: writes.into_iter().map(|target| WriteChunk(vec![target])).collect(),
        ..Chunks::default()
    }
}
