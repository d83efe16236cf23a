//! How a request ended, and the answer to it.

use crate::osd::duplicates::Done;
use crate::osd::errno::Errno;
use crate::osd::transaction::Transaction;
use onego_ceph::messages::{OpResult, OsdOp, OsdOpReply};
use onego_ceph::ops::{Op, flag};
use onego_ceph::osdmap::OsdMap;
use onego_ceph::types::EVersion;
use smallvec::SmallVec;

/// A reply depends on everything that was done so far.
const EVERYTHING: u64 = u64::MAX;

/// What the operations of a request gave.
pub(super) type Results = SmallVec<[OpResult; 2]>;

/// The operations of a request, with their flags.
pub(super) type Ops = SmallVec<[(Op, u32); 2]>;

/// What came of a request.
#[derive(Debug)]
pub struct Answer {
    /// What the client is told.
    pub reply: OsdOpReply,
    /// What has changed, if the OSD notes changes and this was a write that was not done before.
    pub(crate) transaction: Option<Box<Transaction>>,
    /// The record of the journal that has to be durable before the reply is sent. It may be one that is not written yet,
    /// which means all.
    pub(crate) depends_on: u64,
}

impl Answer {
    /// Bytes that the reply gives.
    pub(crate) fn output_bytes(&self) -> u64 {
        self.reply.ops.iter().map(|op| op.output.len() as u64).sum()
    }
}

/// How a request ended.
pub(super) struct Ending {
    /// Was any operation carried out?
    pub(super) tried: bool,
    pub(super) result: i32,
    pub(super) results: Results,
    pub(super) version: EVersion,
    pub(super) user_version: u64,
    /// What it has changed, if that is noted.
    pub(super) transaction: Option<Box<Transaction>>,
    /// The record of the journal that has to be durable before the reply is sent.
    pub(super) depends_on: u64,
}

impl Ending {
    /// It has given nothing yet, and depends on everything that was done so far.
    pub(super) fn new(tried: bool) -> Self {
        Self {
            tried,
            result: 0,
            results: Results::new(),
            version: EVersion::default(),
            user_version: 0,
            transaction: None,
            depends_on: EVERYTHING,
        }
    }

    /// It has changed something, which record `record` of the journal will have: the reply depends on that.
    pub(super) fn changes(&mut self, record: u64, transaction: Transaction) {
        self.depends_on = record;
        self.transaction = Some(Box::new(transaction));
    }

    /// Nothing was done.
    pub(super) fn failed(error: Errno, ops: &Ops) -> Self {
        Self::refused(error, ops.iter().map(|(op, _)| op.code()))
    }

    /// What was done was undone.
    pub(super) fn undone(error: Errno, results: &Results) -> Self {
        Self::refused(error, results.iter().map(|op| op.code))
    }

    /// Operations with these numbers left nothing behind, and give nothing.
    fn refused(error: Errno, codes: impl Iterator<Item = u16>) -> Self {
        let results = codes.map(|code| OpResult { code, ..OpResult::default() }).collect();
        Self { result: error.result(), results, ..Self::new(false) }
    }

    /// It was done before.
    pub(super) fn repeated(done: Done, ops: &Ops) -> Self {
        let Done { result, version, user_version, ops: results } = done;
        let results = results.map_or_else(|| Self::failed(Errno::IO, ops).results, |results| *results);
        Self { result, results, version, user_version, ..Self::new(true) }
    }
}

/// The answer to a request that has come to this end.
pub(super) fn answer(request: &mut OsdOp, ending: Ending, map: &OsdMap) -> Answer {
    // What was not even tried is answered with the flags of the request (OSDService::reply_op_error).
    let acknowledged = if ending.tried { flag::ACK | flag::ON_DISK } else { 0 };
    let reply = OsdOpReply {
        object: std::mem::take(&mut request.object),
        pg: request.pg.pg,
        flags: u64::from(request.flags & !flag::ON_NVRAM | acknowledged),
        result: ending.result,
        epoch: map.epoch,
        ops: ending.results,
        attempt: request.attempt,
        replay_version: ending.version,
        user_version: ending.user_version,
        redirect: None,
    };
    Answer { reply, transaction: ending.transaction, depends_on: ending.depends_on }
}

/// What a write may give back: nothing, unless the client asks for it, and then not much (PrimaryLogPG.cc, execute_ctx).
pub(super) fn settle_outputs(flags: u32, result: i32, results: &mut Results) -> i32 {
    /// `osd_max_write_op_reply_len`
    const MAX_OUTPUT: usize = 64;
    if flags & flag::RETURN_VEC == 0 {
        results.iter_mut().for_each(|op| op.output = onego_buf::List::new());
        return 0;
    }
    let mut result = result;
    for op in results.iter_mut().filter(|op| op.output.len() > MAX_OUTPUT) {
        op.output = onego_buf::List::new();
        op.result = Errno::OVERFLOW.result();
        result = op.result;
    }
    result
}

/// What is remembered of the results of a write, in case it is sent again: nothing, if no operation has any. Outputs are
/// copied, because they may be small parts of large objects. One that is not remembered is an error in place of a reply
/// without it: a write that has changed nothing may return whatever it has read.
pub(super) fn to_remember(result: i32, results: &Results) -> (i32, Option<Box<Results>>) {
    /// Bytes of outputs that are remembered of one write: methods of classes return a few names and numbers.
    const MAX_OUTPUTS: usize = 4096;
    if results.iter().all(|op| op.result == 0 && op.output.is_empty()) {
        return (result, None);
    }
    let (mut result, mut left) = (result, MAX_OUTPUTS);
    let remember = |op: &OpResult| match left.checked_sub(op.output.len()) {
        Some(rest) => {
            left = rest;
            OpResult { output: op.output.to_vec().into(), ..*op }
        }
        None => {
            result = Errno::OVERFLOW.result();
            OpResult { code: op.code, result, output: onego_buf::List::new() }
        }
    };
    let remembered = results.iter().map(remember).collect();
    (result, Some(Box::new(remembered)))
}
