use super::config::Config;
use super::core::{Core, NfsCommand};
use super::error::Error;
use super::requests::Requests;
use crate::driver::Driver;
use crate::mailbox::Mailbox;
use crate::reactor::EngineFailed;
use crate::waiting::{Report, StallMonitor};
use onego_buf::Pool;
use onego_engine::Waker;
use onego_nfs::client;
use std::sync::Arc;

const POOL_LIMIT: usize = 32 << 20;

/// An NFS client driven by the thread that owns it; see [the generic reactor](crate::Reactor).
pub type Reactor = crate::Reactor<Core>;

pub(crate) struct Unmounted {
    core: Core,
    mailbox: Arc<Mailbox<NfsCommand>>,
    requests: Requests,
}

impl Unmounted {
    pub(crate) fn new(config: &Config) -> Result<Self, Error> {
        let mut xid = [0; 4];
        getrandom::fill(&mut xid)
            .map_err(|error| Error::Io { what: "reading random numbers", source: error.into() })?;
        // A device registers memory by slab.
        let registrable = match &config.rdma {
            Some(rdma) if rdma.device => POOL_LIMIT,
            _ => config.zero_copy.registrable(POOL_LIMIT),
        };
        let pool = Pool::registrable(POOL_LIMIT, registrable);
        let calls = client::Config::new(config.credential.clone(), u32::from_le_bytes(xid), pool.clone());
        let calls = client::Config { slow: config.slow, ..calls };
        let mailbox = Arc::new(Mailbox::new());
        let report = Report::default();
        let stall_monitor = StallMonitor::new(report.clone(), config.on_waiting.clone());
        let core = Core::new(calls, config.request_timeout, Arc::clone(&mailbox), stall_monitor);
        let requests = Requests::new(Arc::clone(&mailbox), pool, report, core.figures());
        Ok(Self { core, mailbox, requests })
    }

    pub(crate) fn driven_by(self, reactor: Waker) -> (Core, Requests) {
        self.mailbox.set_reactor(reactor);
        (self.core, self.requests)
    }
}

impl Reactor {
    /// Creates a client and a handle for its requests. It connects when something is mounted.
    pub(super) fn new(config: &Config) -> Result<(Self, Requests), Error> {
        let Unmounted { core, mailbox, requests } = Unmounted::new(config)?;
        let driver = Driver::open(config.engine, config.zero_copy, config.spin, |_| core)
            .map_err(EngineFailed::opening)?;
        mailbox.set_reactor(driver.waker());
        Ok((Self::over(driver), requests))
    }
}
