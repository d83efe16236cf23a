//! The operations for others that are under way, and the results of those that have ended.

use crate::notify::AsyncRequestId;
use onego_ceph::client::WatchId;
use std::collections::VecDeque;

/// The operations that this client carries out for others.
#[derive(Debug, Default)]
pub(in crate::image) struct Operations {
    /// Does the layer that drives the machine carry operations out?
    pub(in crate::image) is_served: bool,
    pub(in crate::image) last_number: u32,
    pub(in crate::image) under_way: Vec<UnderWay>,
    /// The newest results.
    pub(in crate::image) ended: VecDeque<(AsyncRequestId, i32)>,
}

/// An operation under way.
#[derive(Debug)]
pub(in crate::image) struct UnderWay {
    pub(in crate::image) number: u32,
    pub(in crate::image) id: AsyncRequestId,
    /// The notification is answered when the operation has ended: its sender knows no other way (before 17.1).
    pub(in crate::image) answer: Option<(WatchId, u64)>,
    pub(in crate::image) progress: Progress,
    /// It has had the image to itself, and cannot be broken off: what it changed would be changed by halves, or twice.
    pub(in crate::image) is_committed: bool,
}

/// How far an operation is, for the client that asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::image) enum Progress {
    /// The client knows.
    Known,
    /// It is being told.
    Telling,
    /// It is being told, and there is something newer already.
    Newer(u64, u64),
}

impl Operations {
    /// Is nothing under way?
    pub(in crate::image) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Is something under way that cannot be broken off?
    pub(in crate::image) fn is_committed(&self) -> bool {
        self.under_way.iter().any(|operation| operation.is_committed)
    }

    /// An operation has the image to itself.
    pub(in crate::image) fn commit(&mut self, number: u32) {
        for operation in self.under_way.iter_mut().filter(|operation| operation.number == number) {
            operation.is_committed = true;
        }
    }

    pub(in crate::image) fn result_of(&self, id: &AsyncRequestId) -> Option<i32> {
        self.ended.iter().find(|(ended, _)| ended == id).map(|(_, result)| *result)
    }
}

impl UnderWay {
    pub(in crate::image) fn has_id(&self, id: &AsyncRequestId) -> bool {
        self.id == *id && self.answer.is_none()
    }
}
