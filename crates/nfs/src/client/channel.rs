//! A channel to a server: one connection at a time, reopened when it breaks.

use super::config::Config;
use super::error::Error;
use super::expected::ExpectedBytes;
use super::transport::{Transport, Way};
use onego_buf::{List, SegmentMut};
use onego_wire::{Backoff, ConnId, LocalPort, Time, first_share};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// Identifies a server of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ServerId(pub(super) usize);

/// A channel to a server: one connection at a time, reopened when it breaks.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) server: ServerId,
    pub(super) addr: SocketAddr,
    pub(super) local: LocalPort,
    pub(super) way: Way,
    pub(super) conn: Option<ConnId>,
    pub(super) waiting: VecDeque<u32>,
    pub(super) in_flight: usize,
    /// Maximum calls in flight. After a connection that broke without a reply, the window restarts at one: if the
    /// connection breaks after a certain number of bytes, resending everything would break it again forever.
    pub(super) window: usize,
    pub(super) replied: bool,
    pub(super) retry_at: Option<Time>,
    backoff: Backoff,
    pub(super) last: Option<String>,
    /// Set by `close`; no more connections are opened.
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

    pub(super) fn load(&self) -> usize {
        self.waiting.len() + self.in_flight
    }

    /// Handles a reply: widens the window and resets the backoff.
    pub(super) fn heard(&mut self, config: &Config) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.window = (self.window + 1).min(config.window);
        self.replied = true;
        self.backoff.reset();
    }

    /// Handles the end of the connection. The next one is opened at once if this one received a reply, otherwise after
    /// a backoff.
    pub(super) fn broken(&mut self, now: Time, config: &Config, why: String) {
        // Clients differ in their first xid, so their retries spread out.
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

#[derive(Debug)]
pub(super) struct Conn {
    pub(super) channel: usize,
    pub(super) transport: Transport,
    pub(super) open: bool,
    pub(super) announced: bool,
    pub(super) landing: usize,
    /// The connection has ended and is kept only until the lent buffers return.
    pub(super) over: bool,
    pub(super) placing: Option<u32>,
    given_up: Vec<(u32, Time)>,
    pub(super) expected: ExpectedBytes,
    /// Calls made since the driver last took output.
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

    pub(super) fn transmit(&mut self, in_flight: usize, out: &mut List, limit: usize) {
        let made = std::mem::take(&mut self.made);
        let share = self.transport.unsent().and_then(|unsent| first_share(unsent, made, in_flight));
        self.transport.transmit(out, share.map_or(limit, |share| limit.min(share)));
        self.announced = false;
    }

    /// Gives up a call that was sent at `sent` and returns its sink if `take_sink` is set. On an error the connection
    /// must be closed.
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

    pub(super) fn is_overdue(&mut self, now: Time, patience: Duration) -> bool {
        let transport = &self.transport;
        self.given_up.retain(|(xid, _)| transport.waits_for(*xid));
        self.given_up.iter().any(|(_, sent)| now.since(*sent) >= patience)
    }

    /// Returns whether the call's sink is inaccessible until the connection ends.
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
    fn a_connection_without_replies_to_given_up_calls_is_overdue() {
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
        assert!(!conn.is_overdue(sent + patience, patience), "the call was not given up");
        let sink = conn.give_up(7, sent, true).expect("the connection may go on");
        assert_eq!(sink.map(|sink| sink.len()), Some(8192));
        assert!(!conn.is_overdue(sent + patience / 2, patience));
        assert!(conn.is_overdue(sent + patience, patience));
    }
}
