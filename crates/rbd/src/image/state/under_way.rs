//! Operations for other clients: those in progress, and the results of those that have ended.

use crate::notify::AsyncRequestId;
use onego_ceph::client::WatchId;
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(in crate::image) struct Operations {
    pub(in crate::image) is_served: bool,
    pub(in crate::image) last_number: u32,
    pub(in crate::image) under_way: Vec<UnderWay>,
    /// Most recent results, newest first.
    pub(in crate::image) ended: VecDeque<(AsyncRequestId, i32)>,
}

#[derive(Debug)]
pub(in crate::image) struct UnderWay {
    pub(in crate::image) number: u32,
    pub(in crate::image) id: AsyncRequestId,
    /// Notification to answer at the end of the operation, for a sender before 17.1: it has no other way to learn the result.
    pub(in crate::image) answer: Option<(WatchId, u64)>,
    pub(in crate::image) progress: Progress,
    /// It has been granted a pause, and cannot be aborted: its changes would be incomplete, or repeated.
    pub(in crate::image) is_committed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::image) enum Progress {
    Known,
    Telling,
    Newer(u64, u64),
}

impl Operations {
    pub(in crate::image) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    pub(in crate::image) fn is_committed(&self) -> bool {
        self.under_way.iter().any(|operation| operation.is_committed)
    }

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
