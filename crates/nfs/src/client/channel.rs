//! The way of calls to a server: one connection at a time, opened again when it breaks.

use super::config::Config;
use super::error::Error;
use super::expected::ExpectedBytes;
use super::transport::{Transport, Way};
use onego_buf::{List, SegmentMut};
use onego_wire::{Backoff, ConnId, LocalPort, Time, first_share};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// Names a server of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ServerId(pub(super) usize);

/// The way of calls to a server.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) server: ServerId,
    pub(super) addr: SocketAddr,
    pub(super) local: LocalPort,
    pub(super) way: Way,
    /// The connection that is there, or is being opened.
    pub(super) conn: Option<ConnId>,
    /// Calls that are to be sent, in order.
    pub(super) waiting: VecDeque<u32>,
    /// Calls that were sent on the connection and have no reply.
    pub(super) in_flight: usize,
    /// Calls that may be in flight. Behind a connection that broke before any reply came, the next begins with one: if it
    /// breaks after some bytes, all of them sent again would break it again, for ever.
    pub(super) window: usize,
    /// Has there been a reply on the connection?
    pub(super) replied: bool,
    /// When the next connection may be opened.
    pub(super) retry_at: Option<Time>,
    /// How long to wait after the next failure.
    backoff: Backoff,
    /// What has ended the last connection.
    pub(super) last: Option<String>,
    /// Is no connection to be opened any more?
    pub(super) closed: bool,
}

impl Channel {
    pub(super) fn new(
        server: ServerId,
        addr: SocketAddr,
        local: LocalPort,
        way: Way,
        config: &Config,
    ) -> Self {
        Self {
            server,
            addr,
            local,
            way,
            conn: None,
            waiting: VecDeque::new(),
            in_flight: 0,
            window: config.window,
            replied: false,
            retry_at: None,
            backoff: Backoff::new(config.reconnect_min, config.reconnect_max),
            last: None,
            closed: false,
        }
    }

    /// Calls that it has to care for.
    pub(super) fn load(&self) -> usize {
        self.waiting.len() + self.in_flight
    }

    /// A reply has come: all is well, and more may be under way.
    pub(super) fn heard(&mut self, config: &Config) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.window = (self.window + 1).min(config.window);
        self.replied = true;
        self.backoff.reset();
    }

    /// The connection is gone. The next one is opened at once if this one was of use, and later otherwise.
    pub(super) fn broken(&mut self, now: Time, config: &Config, why: String) {
        // No two clients have the same first number, so they come back at different times.
        let random = (u64::from(config.first_xid) << 32 ^ now.as_nanos()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.conn = None;
        self.in_flight = 0;
        self.last = Some(why);
        if std::mem::take(&mut self.replied) {
            self.retry_at = Some(now);
            return;
        }
        self.window = 1;
        self.retry_at = Some(now + self.backoff.fail(random));
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) channel: usize,
    pub(super) transport: Transport,
    /// Is it open?
    pub(super) open: bool,
    /// The driver knows that there is something to send.
    pub(super) announced: bool,
    /// Buffers that are out for a receive.
    pub(super) landing: usize,
    /// It is over, and kept only until the buffer that is out comes back.
    pub(super) over: bool,
    /// The call whose payload is being received into its sink.
    pub(super) placing: Option<u32>,
    /// Calls that were given up after they had been sent, and when that was.
    given_up: Vec<(u32, Time)>,
    pub(super) expected: ExpectedBytes,
    /// Calls that were made since the driver was last given something to send.
    pub(super) made: usize,
}

impl Conn {
    pub(super) fn new(channel: usize, transport: Transport) -> Self {
        Self {
            channel,
            transport,
            open: false,
            announced: false,
            landing: 0,
            over: false,
            placing: None,
            given_up: Vec::new(),
            expected: ExpectedBytes::default(),
            made: 0,
        }
    }

    /// Takes bytes of what there is to send, where `in_flight` calls have no reply.
    pub(super) fn transmit(&mut self, in_flight: usize, out: &mut List, limit: usize) {
        let made = std::mem::take(&mut self.made);
        let share = self.transport.unsent().and_then(|unsent| first_share(unsent, made, in_flight));
        self.transport.transmit(out, share.map_or(limit, |share| limit.min(share)));
        self.announced = false;
    }

    /// Gives up a call that was sent at that time; its sink comes back if it is to be taken. `Err`: that takes the end of
    /// the connection.
    pub(super) fn give_up(
        &mut self,
        xid: u32,
        sent: Time,
        take_sink: bool,
    ) -> Result<Option<SegmentMut>, Error> {
        let sink = self.transport.give_up(xid, take_sink)?;
        if self.transport.waits_for(xid) {
            self.given_up.push((xid, sent));
        }
        Ok(sink)
    }

    /// Is there a call that was given up, and has no reply for so long?
    pub(super) fn is_overdue(&mut self, now: Time, patience: Duration) -> bool {
        let transport = &self.transport;
        self.given_up.retain(|(xid, _)| transport.waits_for(*xid));
        self.given_up.iter().any(|(_, sent)| now.since(*sent) >= patience)
    }

    /// Is the sink of that call, if it has one, out of reach until the end of this connection?
    pub(super) fn holds(&self, xid: u32, has_sink: bool) -> bool {
        self.placing == Some(xid) || (has_sink && self.transport.holds_sinks())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::{Credential, rdma};
    use onego_buf::{List, Pool};
    use onego_rdma::iwarp;
    use std::sync::Arc;

    #[test]
    fn a_connection_whose_server_answers_nothing_that_was_given_up_is_overdue() {
        let pool = Pool::new(1 << 20);
        let way = Way::Rdma(super::super::transport::Rdma {
            transport: Arc::new(iwarp::Config::new(pool.clone())),
            rpc: rdma::Config::new(pool.clone()),
            entropy: || Box::new(|| 7),
        });
        let (sent, patience) = (Time::default(), Duration::from_secs(60));
        let (server, config) = (([10, 0, 0, 1], 20049).into(), Config::new(Credential::None, 1, pool));
        let (transport, _) = Transport::open(sent, &way, server, &config).expect("nothing is opened here");
        let mut conn = Conn::new(0, transport);
        let Transport::Rdma { requester, .. } = &mut conn.transport else { panic!("it goes over RDMA") };
        requester.connected(&[]);
        requester.call(
            &7_u32.to_be_bytes(),
            List::new(),
            Some(onego_rdma::Memory::Sink(SegmentMut::zeroed(8192))),
            64,
        );
        assert!(!conn.is_overdue(sent + patience, patience), "somebody waits for it, and will tell");
        let sink = conn.give_up(7, sent, true).expect("the connection may go on");
        assert_eq!(sink.map(|sink| sink.len()), Some(8192));
        assert!(!conn.is_overdue(sent + patience / 2, patience));
        assert!(conn.is_overdue(sent + patience, patience));
    }
}
