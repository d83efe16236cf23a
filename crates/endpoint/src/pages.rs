//! What there is to read.

use crate::health::{Health, Readiness};
use crate::reply::{Reply, Status};
use crate::request::Request;
use onego_metrics::Registry;

/// The pages of an endpoint.
#[derive(Debug, Clone, Default)]
pub struct Pages {
    /// What `/metrics` tells.
    pub registry: Registry,
    /// What `/readyz` tells.
    pub health: Health,
}

impl Pages {
    /// The reply to a request.
    pub(crate) fn reply(&self, request: &Request) -> Reply {
        match request.path.as_str() {
            "/metrics" => {
                let body = request.format.write(&self.registry.collect());
                Reply { status: Status::Ok, content_type: request.format.content_type(), body }
            }
            // The thread that says so is alive, and so is the process: one whose server has failed ends.
            "/healthz" => Reply::line(Status::Ok, "ok"),
            "/readyz" => match self.health.readiness() {
                Readiness::Starting => Reply::line(Status::Unavailable, "starting"),
                Readiness::Ready => Reply::line(Status::Ok, "ready"),
                Readiness::Draining => Reply::line(Status::Unavailable, "draining"),
            },
            "/" => Reply::line(Status::Ok, "/metrics\n/healthz\n/readyz"),
            _ => Reply::refusal(Status::NotFound),
        }
    }
}
