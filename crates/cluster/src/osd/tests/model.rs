//! Random requests, beside a model that is too simple to be wrong.

use super::*;
use onego_ceph::ops::{Compare, CompareWith};

/// Numbers that look random, the same in each run.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// An object, plainly.
#[derive(Clone, Default)]
struct Plain {
    data: Vec<u8>,
    xattr: Option<Vec<u8>>,
    omap: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Plain {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        if self.data.len() < offset + bytes.len() {
            self.data.resize(offset + bytes.len(), 0);
        }
        self.data[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
}

/// What the operation does to the model; none: it fails.
fn apply(object: &mut Option<Plain>, op: &Op) -> Option<()> {
    match op {
        Op::Write { offset, data } => {
            object.get_or_insert_default().write(*offset as usize, &data.to_vec());
        }
        Op::WriteFull { data } => object.get_or_insert_default().data = data.to_vec(),
        Op::Append { data } => {
            let object = object.get_or_insert_default();
            object.write(object.data.len(), &data.to_vec());
        }
        Op::Zero { offset, length } => {
            let Some(object) = object else { return Some(()) };
            let (start, end) = (*offset as usize, (*offset + *length) as usize);
            if *length == 0 {
                return Some(());
            }
            if end >= object.data.len() {
                object.data.truncate(start);
            } else {
                object.data[start..end].fill(0);
            }
        }
        Op::Truncate { size } => {
            if let Some(object) = object {
                object.data.resize(*size as usize, 0);
            }
        }
        Op::Delete => {
            object.take()?;
        }
        Op::Create { exclusive } => {
            if *exclusive && object.is_some() {
                return None;
            }
            object.get_or_insert_default();
        }
        Op::SetXattr { value, .. } => object.get_or_insert_default().xattr = Some(value.to_vec()),
        Op::CmpXattr { with: CompareWith::Bytes(with), .. } => {
            let value = object.as_ref()?.xattr.clone().unwrap_or_default();
            (value == *with).then_some(())?;
        }
        Op::OmapSetVals { entries } => {
            let object = object.get_or_insert_default();
            object.omap.extend(entries.iter().map(|(key, value)| (key.clone(), value.to_vec())));
        }
        Op::OmapRmKeys { keys } => {
            let object = object.as_mut()?;
            keys.iter().for_each(|key| drop(object.omap.remove(key)));
        }
        op => panic!("{op:?} is not in the model"),
    }
    Some(())
}

fn random_op(dice: &mut Dice) -> Op {
    let offset = dice.roll(200_000);
    let len = match dice.roll(3) {
        0 => dice.roll(100),
        1 => dice.roll(8192),
        _ => dice.roll(70_000),
    };
    let data = || list(&vec![offset as u8; len as usize]);
    let byte = vec![(offset % 3) as u8];
    match dice.roll(14) {
        0..4 => Op::Write { offset, data: data() },
        4 => Op::WriteFull { data: data() },
        5 => Op::Append { data: list(&byte) },
        6 | 7 => Op::Zero { offset, length: len },
        8 => Op::Truncate { size: offset },
        9 => Op::Create { exclusive: len % 4 == 0 },
        10 => Op::SetXattr { name: "x".into(), value: list(&byte) },
        11 => Op::CmpXattr { name: "x".into(), compare: Compare::Equal, with: CompareWith::Bytes(byte) },
        12 => Op::OmapSetVals { entries: [(byte, list(b"value"))].into() },
        _ if len % 3 == 0 => Op::Delete,
        _ => Op::OmapRmKeys { keys: [byte].into() },
    }
}

fn check(bench: &mut Bench, model: &Option<Plain>) {
    let reply = bench.ask("o", vec![read(0, 0), Op::GetXattrs]);
    let Some(plain) = model else {
        assert_eq!(reply.result, failed(Errno::NOENT));
        assert_eq!(bench.osd.usage().used, 0);
        return;
    };
    assert_eq!(reply.ops[0].output.to_vec(), plain.data);
    assert_eq!(reply.ops[1].output.to_vec()[0], u8::from(plain.xattr.is_some()));
    let keys = bench.get(Op::OmapGetKeys { after: Vec::new(), max: 99 });
    assert_eq!(keys[0] as usize, plain.omap.len());
    let pool = bench.osd.pool_usage(POOL);
    assert_eq!((pool.objects, pool.bytes), (1, plain.data.len() as u64));
}

#[test]
fn whole_requests_are_done_or_nothing_of_them() {
    for seed in 0..40 {
        let (mut dice, mut bench, mut model) = (Dice(seed), Bench::new(), None::<Plain>);
        let mut held = Vec::new();
        for _ in 0..150 {
            let ops: Vec<Op> = (0..1 + dice.roll(4)).map(|_| random_op(&mut dice)).collect();
            let mut after = model.clone();
            let expected = ops.iter().all(|op| apply(&mut after, op).is_some());
            let reads_only = ops.iter().all(|op| !op.writes());
            let reply = bench.ask("o", ops.clone());
            let expected = expected && !(reads_only && model.is_none());
            assert_eq!(reply.result >= 0, expected, "{ops:?} gives {}", reply.result);
            if expected {
                model = after;
            }
            check(&mut bench, &model);
            // Somebody still sends what was read before.
            match dice.roll(4) {
                0 => held.push(bench.ask("o", vec![read(0, 0)])),
                1 => held.clear(),
                _ => {}
            }
        }
    }
}
