//! What there is to read.

use crate::health::{Health, Readiness};
use crate::reply::{PageReply, Status};
use crate::request::PageRequest;
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
    pub(crate) fn reply(&self, request: &PageRequest) -> PageReply {
        match request.path.as_str() {
            "/metrics" => {
                let body = request.format.write(&self.registry.collect());
                PageReply { status: Status::Ok, content_type: request.format.content_type(), body }
            }
            // The thread that says so is alive, and so is the process: one whose server has failed ends.
            "/healthz" => PageReply::line(Status::Ok, "ok"),
            "/readyz" => match self.health.readiness() {
                Readiness::Starting => PageReply::line(Status::Unavailable, "starting"),
                Readiness::Ready => PageReply::line(Status::Ok, "ready"),
                Readiness::Draining => PageReply::line(Status::Unavailable, "draining"),
            },
            "/" => PageReply::line(Status::Ok, "/metrics\n/healthz\n/readyz"),
            _ => PageReply::refusal(Status::NotFound),
        }
    }
}
