//! The endpoint on a thread of its own.

use crate::machine::EndpointMachine;
use crate::pages::Pages;
use onego_engine::{EngineKind, Pump, Spin, Wait, zero_copy};
use onego_service::{Service, ServiceError};
use std::io;
use std::net::SocketAddr;
use thiserror::Error;

/// Why there is no endpoint.
#[derive(Debug, Error)]
pub enum EndpointError {
    /// It has no thread, or none any more.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// It cannot listen where it should.
    #[error("cannot serve metrics at {addr}: {source}")]
    Listen {
        /// Where.
        addr: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
}

/// An endpoint that runs, on a thread that sleeps when nobody asks. It stops when this value is dropped.
#[derive(Debug)]
pub struct Endpoint {
    addr: SocketAddr,
    pages: Pages,
    _service: Service<EndpointMachine, EndpointError>,
}

impl Endpoint {
    /// Shows these pages to those who connect to this address; port 0: any. When this returns, they may connect.
    pub fn start(addr: SocketAddr, pages: Pages) -> Result<Self, EndpointError> {
        let shown = pages.clone();
        let begin = move |engine| {
            let failed = |source| EndpointError::Listen { addr, source };
            let mut pump = Pump::new(engine, EndpointMachine::new(addr, shown));
            // The listener is opened in the first turn.
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

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What it shows.
    pub fn pages(&self) -> &Pages {
        &self.pages
    }
}
