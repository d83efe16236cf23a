//! iWARP in software: MPA, DDP and RDMAP over a byte stream, as a state machine without I/O.
//!
//! A [`Connection`] is one end of a connection, of a client or of a server, and a [`QueuePair`](crate::QueuePair). It
//! supports revisions 1 and 2 of MPA (RFC 5044, RFC 6581), with or without checksums, and without markers; DDP and
//! RDMAP are those of RFC 5041 and RFC 5040.
//!
//! - **Receives.** Payload of RDMA Writes, of responses to RDMA Reads and of messages is received directly into
//!   registered memory, sinks and posted receives ([`Connection::landing`]) if enough of a segment is outstanding;
//!   bytes that arrive together with headers are copied there.
//! - **Sends.** A gathered list is sent in place, between headers that share blocks: many segments make one send.
//!   Payload is not copied, except for pieces of up to 1 KiB.
//! - **Violations.** A segment is checked before a byte of its payload is placed. A protocol violation is answered by a
//!   Terminate message that names it ([`Violation`]), and ends the connection. A checksum follows the payload: if it is
//!   wrong, bytes were already placed, within the bounds of what the peer may write, but they complete no work.
//!
//! # Example
//! Both ends in one place, joined directly:
//!
//! ```
//! use onego_buf::{List, Pool, SegmentMut};
//! use onego_rdma::iwarp::{Config, Connection, Event};
//! use onego_rdma::{CompletedWork, Memory, QueuePair, Remote, SendFlags};
//! use onego_wire::Time;
//! use std::sync::Arc;
//!
//! /// A driver does this, and also receives into `landing().place`.
//! fn carry(from: &mut Connection, to: &mut Connection) {
//!     let mut out = List::new();
//!     from.transmit(&mut out, usize::MAX);
//!     to.received(Time::default(), out.to_segment());
//! }
//!
//! let config = Arc::new(Config::new(Pool::new(1 << 20)));
//! let entropy = || Box::new(|| 4); // A real program uses unpredictable numbers.
//! let mut client = Connection::connect(Time::default(), config.clone(), entropy(), b"hello").unwrap();
//! let mut server = Connection::serve(Time::default(), config, entropy());
//! client.opened(Time::default());
//! carry(&mut client, &mut server);
//! assert_eq!(server.event(), Some(Event::Requested(b"hello".to_vec())));
//! server.accept(b"welcome").unwrap();
//! carry(&mut server, &mut client);
//! assert!(client.is_ready());
//!
//! // The client offers memory, and sends its key in a message; the server writes there, and invalidates it.
//! let key = client.register_at(Memory::Sink(SegmentMut::zeroed(5)), 0).unwrap();
//! client.post_receive(1, SegmentMut::zeroed(100)).unwrap();
//! server.post_receive(1, SegmentMut::zeroed(100)).unwrap();
//! client.post_send(2, key.0.to_be_bytes().to_vec().into(), SendFlags::default()).unwrap();
//! carry(&mut client, &mut server);
//! let to = Remote { key, offset: 0 };
//! server.post_write(3, b"bytes".to_vec().into(), to).unwrap();
//! let flags = SendFlags { invalidate: Some(key), solicited: false };
//! server.post_send(4, b"done".to_vec().into(), flags).unwrap();
//! carry(&mut server, &mut client);
//! let sent = client.poll().unwrap();
//! assert!(matches!(sent.done, CompletedWork::Sent));
//! let CompletedWork::Received { buffer, len, invalidated: Some((_, Memory::Sink(sink))), .. } =
//!     client.poll().unwrap().done
//! else {
//!     panic!("the memory comes back with the message");
//! };
//! assert_eq!((&buffer[..len], &*sink), (&b"done"[..], &b"bytes"[..]));
//! ```

mod config;
mod connection;
mod error;
mod forecast;
mod handshake;
mod header;
mod inbound;
mod mpa;
mod nudge;
mod queue_pair;
mod receive;
mod regions;
mod send;
mod violation;
mod work;

pub use config::Config;
pub use connection::{Connection, Established, Event};
pub use error::{Blame, Error};
pub use mpa::ReadyToReceive;
pub use regions::Entropy;
pub use violation::{Code, Violation};
