//! What an object must be after the requests made to it so far, and what must come of the next one.

use onego_buf::List;
use onego_ceph::client::{OpReply, Request};
use onego_ceph::messages::ObjectName;
use onego_ceph::ops::{Omap, Op};
use rand::Rng;
use rand::rngs::SmallRng;
use std::collections::BTreeMap;
use std::rc::Rc;

const NOENT: i32 = -2;
const EXIST: i32 = -17;

/// An object as it must be after each of the requests made to it, the first being none. `None`: it does not exist.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    history: Vec<Option<Rc<Object>>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Object {
    data: Vec<u8>,
    omap: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// What must come of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expected {
    /// 0, or a negative errno.
    result: i32,
    /// What it must read, if it reads.
    output: Option<Vec<u8>>,
}

/// A random operation. `token` is different each time, so that no two writes write the same.
pub(crate) fn random_op(random: &mut SmallRng, token: u64) -> Op {
    let offset = random.random_range(0..60_000);
    let length = match random.random_range(0..4) {
        0 => random.random_range(1..100_000),
        _ => random.random_range(1..2_000),
    };
    let data = || -> List {
        let bytes: Vec<u8> = token.to_le_bytes().into_iter().cycle().take(length as usize).collect();
        bytes.into()
    };
    match random.random_range(0..100) {
        0..25 => Op::Append { data: token.to_le_bytes().to_vec().into() },
        25..45 => Op::Write { offset, data: data() },
        45..50 => Op::WriteFull { data: data() },
        50..75 => Op::Read { offset: random.random_range(0..2) * offset, length },
        75..79 => Op::Truncate { size: offset },
        79..83 => Op::Zero { offset, length },
        83..87 => Op::Delete,
        87..90 => Op::Create { exclusive: random.random() },
        90..95 => {
            let key = vec![b'a' + (token % 7) as u8];
            Op::OmapSetVals { entries: Omap::from([(key, token.to_le_bytes().to_vec().into())]) }
        }
        _ => Op::OmapGetVals { after: Vec::new(), max: 100, prefix: Vec::new() },
    }
}

/// A random operation that writes little, and of which it shows for good if it is carried out a second time. `token` is
/// different each time.
pub(crate) fn small_write(random: &mut SmallRng, token: u64) -> Op {
    let data: List = token.to_le_bytes().to_vec().into();
    match random.random_range(0..10) {
        0 => Op::Create { exclusive: true },
        1 => Op::Write { offset: random.random_range(0..64), data },
        _ => Op::Append { data },
    }
}

/// The request that makes an operation.
pub(crate) fn request(pool: i64, object: &str, op: Op) -> Request {
    Request::one(pool, ObjectName::from(object), op)
}

impl Default for Model {
    fn default() -> Self {
        Self { history: vec![None] }
    }
}

impl Model {
    /// Applies an operation; says what must come of it, and its place in the history.
    pub(crate) fn apply(&mut self, op: &Op) -> (Expected, usize) {
        let mut object = self.history.last().cloned().flatten();
        let expected = change(&mut object, op);
        self.history.push(object);
        (expected, self.history.len() - 1)
    }

    /// May these be what came of the read that has this place in the history, if it was made again later?
    ///
    /// An OSD knows a write that it has applied, and only says so again when the write comes again. A read it does
    /// again, and then finds what later requests have made of the object meanwhile (ceph
    /// `doc/dev/rados-client-protocol.rst`).
    pub(crate) fn explains(&self, op: &Op, place: usize, seen: &Expected) -> bool {
        self.history[place..].iter().any(|object| change(&mut object.clone(), op) == *seen)
    }
}

/// Applies an operation and says what must come of it.
fn change(object: &mut Option<Rc<Object>>, op: &Op) -> Expected {
    let done = Expected { result: 0, output: None };
    let refused = |result| Expected { result, output: None };
    match (op, &object) {
        (Op::Delete, Some(_)) => {
            *object = None;
            done
        }
        (Op::Delete | Op::Read { .. } | Op::OmapGetVals { .. }, None) => refused(NOENT),
        (Op::Create { exclusive: true }, Some(_)) => refused(EXIST),
        (Op::Read { offset, length }, Some(object)) => {
            let end = ((offset + length) as usize).min(object.data.len());
            let start = (*offset as usize).min(end);
            Expected { result: 0, output: Some(object.data[start..end].to_vec()) }
        }
        (Op::OmapGetVals { .. }, Some(object)) => Expected { result: 0, output: Some(encoded(&object.omap)) },
        // To cut what is not there is no error, and makes nothing.
        (Op::Truncate { .. } | Op::Zero { .. }, None) => done,
        _ => {
            Rc::make_mut(object.get_or_insert_default()).change(op);
            done
        }
    }
}

impl Object {
    fn change(&mut self, op: &Op) {
        match op {
            Op::Append { data } => self.data.extend(data.to_vec()),
            Op::WriteFull { data } => self.data = data.to_vec(),
            Op::Write { offset, data } => {
                let end = *offset as usize + data.len();
                self.data.resize(self.data.len().max(end), 0);
                data.copy_to(&mut self.data[*offset as usize..end]);
            }
            Op::Truncate { size } => self.data.resize(*size as usize, 0),
            Op::Zero { offset, length } => {
                // Zeros up to the end are cut off (ceph PrimaryLogPG.cc: "munging ZERO -> TRUNCATE").
                if (offset + length) as usize >= self.data.len() {
                    self.data.truncate(*offset as usize);
                } else {
                    self.data[*offset as usize..(offset + length) as usize].fill(0);
                }
            }
            Op::OmapSetVals { entries } => {
                self.omap.extend(entries.iter().map(|(key, value)| (key.clone(), value.to_vec())));
            }
            Op::Create { .. } => {}
            other => unreachable!("{other:?} changes nothing"),
        }
    }
}

/// A map as an OSD gives it, and that there is no more of it.
fn encoded(omap: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    let mut w = onego_wire::Writer::new();
    w.count(omap.len());
    for (key, value) in omap {
        w.blob(key);
        w.blob(value);
    }
    w.bool(false);
    w.into_vec()
}

impl Expected {
    /// What a reply says. `buffer` is what was read into, if the request had a buffer.
    pub(crate) fn seen(op: &Op, reply: &OpReply, buffer: Option<&[u8]>) -> Self {
        let reads = reply.result >= 0 && matches!(op, Op::Read { .. } | Op::OmapGetVals { .. });
        let output = reads.then(|| match buffer {
            Some(buffer) => buffer[..reply.filled].to_vec(),
            None => reply.ops[0].output.to_vec(),
        });
        Self { result: reply.result.min(0), output }
    }

    /// Says how this differs from what was expected.
    pub(crate) fn difference(&self, expected: &Self) -> String {
        let none = Vec::new();
        let (a, b) = (self.output.as_ref().unwrap_or(&none), expected.output.as_ref().unwrap_or(&none));
        let at = a.iter().zip(b).position(|(a, b)| a != b);
        format!(
            "result {} instead of {}, {} bytes instead of {}, first difference at {at:?}",
            self.result,
            expected.result,
            a.len(),
            b.len()
        )
    }
}
