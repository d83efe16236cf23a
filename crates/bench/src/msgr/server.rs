//! The serving half: answers every request, and reports at the end.

use super::endpoint::{Endpoint, Link, Role};
use super::load::{EndOptions, POOL_IDLE};
use super::messages::{EchoRequest, Reply};
use onego_buf::Pool;
use onego_ceph::types::EntityName;
use onego_engine::{Pump, Wait, open};
use onego_msgr::addr::{AddrVec, EntityAddr};
use onego_msgr::{Config, Connection, Message, Visitor};
use onego_wire::Time;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// Report of the serving half.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) requests: u64,
    /// System calls from the first connection to the last.
    pub(super) system_calls: u64,
    /// Errors that ended connections.
    pub(super) errors: Vec<String>,
}

/// Serves `connections` connections, prints a report, and returns: the other half of a measurement, in a process of its
/// own.
pub fn serve(connections: u32, end: EndOptions) -> io::Result<()> {
    let mut endpoint = Endpoint::new(Answerer::new(connections, end.crc));
    endpoint.listen((Ipv4Addr::LOCALHOST, 0).into());
    let mut pump = Pump::new(open(end.engine)?, endpoint);
    pump.set_spin(end.spin);
    while pump.machine().role.config.is_none() {
        pump.turn(Wait::Forever)?;
        if let Some(error) = pump.machine_mut().role.failed.take() {
            return Err(error);
        }
    }
    println!("{}", pump.machine().role.port);
    io::stdout().flush()?;
    while pump.machine().role.left > 0 {
        pump.turn(Wait::Forever)?;
    }
    let system_calls = pump.stats().system_calls;
    let report = Report { system_calls, ..pump.into_machine().role.report };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

struct Answerer {
    left: u32,
    crc: bool,
    /// Set once the listener is up.
    config: Option<Arc<Config>>,
    port: u16,
    failed: Option<io::Error>,
    report: Report,
}

impl Answerer {
    fn new(connections: u32, crc: bool) -> Self {
        Self { left: connections, crc, config: None, port: 0, failed: None, report: Report::default() }
    }
}

impl Role for Answerer {
    /// Number of the next request.
    type State = u64;

    fn listening(&mut self, result: io::Result<SocketAddr>) {
        match result {
            Ok(addr) => {
                let addrs = AddrVec(vec![EntityAddr::msgr2(addr, 0)]);
                let mut config = Config::server(EntityName::osd(0), addrs, Pool::new(POOL_IDLE));
                config.data_crc = self.crc;
                self.config = Some(Arc::new(config));
                self.port = addr.port();
            }
            Err(error) => self.failed = Some(error),
        }
    }

    fn accepted(&mut self, now: Time, peer: SocketAddr, local: SocketAddr) -> Option<(Connection, u64)> {
        let visitor = Visitor { addr: peer, fresh_global_id: 0 };
        Some((Connection::accept(now, Arc::clone(self.config.as_ref()?), visitor, local), 0))
    }

    fn message(&mut self, link: &mut Link<u64>, message: &Message) -> Result<(), String> {
        let request = EchoRequest::without_data(&message.front).map_err(|error| error.to_string())?;
        request.check(link.state, &message.data)?;
        link.state += 1;
        self.report.requests += 1;
        // A client's requests in flight, and so the waiting replies, are limited by its depth.
        link.send(message.header.tid, &Reply { number: request.number, length: request.length });
        Ok(())
    }

    fn gone(&mut self, why: Option<String>) {
        self.left = self.left.saturating_sub(1);
        self.report.errors.extend(why);
    }
}
