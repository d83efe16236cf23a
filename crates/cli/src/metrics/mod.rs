//! What a long-running command tells of itself: `--metrics`.

mod reactor;

pub(crate) use reactor::{CountingExport, ReactorFigures, ReactorMetrics};

use crate::access::Access;
use crate::failure::Failure;
use crate::listen::Listen;
use crate::size;
use onego::ceph::Config;
use onego_endpoint::{Endpoint, Health, Pages, ProcessFigures};
use onego_metrics::Registry;
use std::time::Duration;

/// The port of metrics if none is said.
pub(crate) const DEFAULT_PORT: u16 = 9719;

/// Options of metrics.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[command(next_help_heading = "Metrics")]
pub(crate) struct MetricsOptions {
    /// Serve metrics for Prometheus, and health, over HTTP; port 0: any, no port: 9719. Everybody who reaches the address can
    /// read them
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    metrics: Option<Listen>,
    /// Warn of requests that take as long, and say where their time went
    #[arg(long, value_name = "TIME", value_parser = size::time)]
    slow: Option<Duration>,
}

impl MetricsOptions {
    /// How the cluster is reached, with slow requests to it told of.
    pub(crate) fn config(&self, access: &Access) -> Result<Config, Failure> {
        let mut config = access.config()?;
        config.slow = self.slow;
        Ok(config)
    }

    /// From how long on a request is slow.
    pub(crate) fn slow(&self) -> Option<Duration> {
        self.slow
    }

    /// Begins to tell, if that is asked for. The command is not ready until it [says so](Metrics::ready).
    pub(crate) fn start(&self) -> Result<Metrics, Failure> {
        let pages = Pages::default();
        let Some(listen) = self.metrics else { return Ok(Metrics { pages, endpoint: None }) };
        pages.registry.add(ProcessFigures::default());
        let endpoint = Endpoint::start(listen.with_default_port(DEFAULT_PORT), pages.clone())?;
        Ok(Metrics { pages, endpoint: Some(endpoint) })
    }
}

/// What a command tells of itself, as long as this lives.
#[derive(Debug)]
pub(crate) struct Metrics {
    pages: Pages,
    /// `None`: nobody asked for it.
    endpoint: Option<Endpoint>,
}

impl Metrics {
    /// Where the figures of the command go.
    pub(crate) fn registry(&self) -> &Registry {
        &self.pages.registry
    }

    /// Where they are read.
    pub(crate) fn url(&self) -> Option<String> {
        self.endpoint.as_ref().map(|endpoint| format!("http://{}/metrics", endpoint.addr()))
    }

    /// A line that says where they are read.
    pub(crate) fn line(&self) -> Option<String> {
        self.url().map(|url| format!("metrics {url}"))
    }

    /// From now on the command serves.
    pub(crate) fn ready(&self) {
        self.pages.health.ready();
    }

    /// Serves no more once this is dropped: before the server is, which then finishes what it has begun.
    pub(crate) fn until_dropped(&self) -> Draining {
        Draining(self.pages.health.clone())
    }
}

/// Says that the command drains when it is dropped.
#[derive(Debug)]
pub(crate) struct Draining(Health);

impl Drop for Draining {
    fn drop(&mut self) {
        self.0.drain();
    }
}
