//! The endpoint on its own thread.

use crate::machine::EndpointMachine;
use crate::pages::Pages;
use onego_engine::{EngineKind, Pump, Spin, Wait, zero_copy};
use onego_service::{Service, ServiceError};
use std::io;
use std::net::SocketAddr;
use thiserror::Error;

/// The reason that an endpoint could not be started.
#[derive(Debug, Error)]
pub enum EndpointError {
    /// The thread could not be started, or has ended.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The address is unavailable.
    #[error("cannot serve metrics at {addr}: {source}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
}

/// A running endpoint, on a thread that sleeps while idle. Dropping it stops the endpoint.
#[derive(Debug)]
pub struct Endpoint {
    addr: SocketAddr,
    pages: Pages,
    _service: Service<EndpointMachine, EndpointError>,
}

impl Endpoint {
    /// Serves `pages` at `addr`; port 0 chooses any free port. Clients can connect when this returns.
    pub fn start(addr: SocketAddr, pages: Pages) -> Result<Self, EndpointError> {
        let shown = pages.clone();
        let begin = move |engine| {
            let failed = |source| EndpointError::Listen { addr, source };
            let mut pump = Pump::new(engine, EndpointMachine::new(addr, shown));
            // The first turn opens the listener.
            pump.turn(Wait::Poll).map_err(failed)?;
            if let Some(error) = pump.machine_mut().failure() {
                return Err(failed(error));
            }
            let addr = pump.machine().addr().ok_or(ServiceError::Stopped)?;
            Ok((pump, addr, |_: &mut _| Ok(())))
        };
        let kind = EngineKind::default();
        let (service, addr) =
            Service::start("onego-metrics", kind, zero_copy::Settings::default(), Spin::Never, begin)?;
        Ok(Self { addr, pages, _service: service })
    }

    /// Returns the listening address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the served pages.
    pub fn pages(&self) -> &Pages {
        &self.pages
    }
}
