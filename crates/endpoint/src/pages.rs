//! Pages of the endpoint.

use crate::health::{Health, Readiness};
use crate::reply::{PageReply, Status};
use crate::request::PageRequest;
use onego_metrics::Registry;

/// The contents of an endpoint's pages.
#[derive(Debug, Clone, Default)]
pub struct Pages {
    /// Source of `/metrics`.
    pub registry: Registry,
    /// Source of `/readyz`.
    pub health: Health,
}

impl Pages {
    pub(crate) fn reply(&self, request: &PageRequest) -> PageReply {
        match request.path.as_str() {
            "/metrics" => {
                let body = request.format.write(&self.registry.collect());
                PageReply { status: Status::Ok, content_type: request.format.content_type(), body }
            }
            // This thread is alive, and a process ends when its server fails.
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
