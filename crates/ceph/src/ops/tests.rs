use super::*;

fn every_op() -> Vec<Op> {
    let list = || List::from(b"some bytes".to_vec());
    let keys = || BTreeSet::from([b"a".to_vec(), b"b".to_vec()]);
    vec![
        Op::Read { offset: 1, length: 2 },
        Op::SparseRead { offset: 3, length: 4 },
        Op::MapExt { offset: 5, length: 6 },
        Op::CmpExt { offset: 7, data: list() },
        Op::Stat,
        Op::Write { offset: 8, data: list() },
        Op::WriteFull { data: list() },
        Op::WriteSame { offset: 9, length: 20, data: list() },
        Op::Append { data: list() },
        Op::Zero { offset: 10, length: 11 },
        Op::Truncate { size: 12 },
        Op::Delete,
        Op::Create { exclusive: true },
        Op::Create { exclusive: false },
        Op::Rollback { snap: 13 },
        Op::SetAllocHint { object_size: 14, write_size: 15, flags: 16 },
        Op::Call { class: "rbd".into(), method: "get_size".into(), input: list() },
        Op::GetXattr { name: b"x".to_vec() },
        Op::GetXattrs,
        Op::CmpXattr { name: b"x".to_vec(), compare: Compare::Less, with: CompareWith::Bytes(b"y".to_vec()) },
        Op::CmpXattr { name: b"x".to_vec(), compare: Compare::Equal, with: CompareWith::Number(17) },
        Op::SetXattr { name: b"x".to_vec(), value: list() },
        Op::RmXattr { name: b"x".to_vec() },
        Op::OmapGetKeys { after: b"k".to_vec(), max: 18 },
        Op::OmapGetVals { after: b"k".to_vec(), max: 19, prefix: b"p".to_vec() },
        Op::OmapGetHeader,
        Op::OmapGetValsByKeys { keys: keys() },
        Op::OmapSetVals { entries: Omap::from([(b"k".to_vec(), list())]) },
        Op::OmapSetHeader { header: list() },
        Op::OmapClear,
        Op::OmapRmKeys { keys: keys() },
        Op::OmapRmKeyRange { from: b"a".to_vec(), to: b"b".to_vec() },
        Op::OmapCmp { assertions: BTreeMap::from([(b"k".to_vec(), (list(), Compare::Greater))]) },
        Op::TmapGet,
        Op::TmapPut { input: list() },
        Op::TmapUpdate { input: list() },
        Op::AssertVer { version: 20 },
        Op::Watch { cookie: 21, op: WatchOp::Watch, generation: 22, timeout: 23 },
        Op::Notify { cookie: 24, timeout: 25, payload: list() },
        Op::NotifyAck { notify_id: 26, cookie: 27, reply: list() },
        Op::ListWatchers,
        Op::ListSnaps,
        Op::Checksum { kind: 2, offset: 32, length: 33, chunk: 34, init: list() },
        Op::CopyFrom(Box::new(CopyFrom {
            name: b"source".to_vec(),
            locator: ObjectLocator { pool: 35, namespace: b"n".to_vec(), ..ObjectLocator::default() },
            snap: 36,
            version: 37,
            flags: copy_flag::TRUNCATE_SEQ,
            read_hints: 38,
            truncation: Some((39, 40)),
            is_second: true,
        })),
        Op::CachePin { is_pinned: true },
        Op::CachePin { is_pinned: false },
        Op::PgNls { count: 28, epoch: 29, cursor: list() },
        Op::PgNlsFilter { count: 30, epoch: 31, input: list() },
    ]
}

#[test]
fn every_operation_survives_a_round_trip() {
    let ops = every_op();
    let (mut front, mut data) = (Writer::new(), List::new());
    ops.iter().for_each(|op| op.encode(op_flag::FAIL_OK, &mut front, &mut data));
    assert_eq!(front.len(), ops.len() * DESCRIPTOR_LEN);
    let mut r = Reader::new(front.as_slice());
    for op in ops {
        let (read, flags) = Op::decode(&mut r, &mut data).unwrap();
        assert_eq!(read, op);
        assert_ne!(flags & op_flag::FAIL_OK, 0);
    }
    assert!(r.is_empty() && data.is_empty());
}

#[test]
fn a_sparse_read_with_a_truncation_is_malformed() {
    let (mut front, mut data) = (Writer::new(), List::new());
    Op::SparseRead { offset: 0, length: 8 }.encode(0, &mut front, &mut data);
    // The sequence number of the truncation is the last argument.
    front.as_mut_slice()[DESCRIPTOR_LEN - 8] = 1;
    let read = Op::decode(&mut Reader::new(front.as_slice()), &mut data);
    assert_eq!(read, Ok((Op::Malformed { code: code::SPARSE_READ }, 0)));
}

#[test]
fn a_malformed_operation_is_kept_for_its_refusal() {
    let (mut front, mut data) = (Writer::new(), List::new());
    Op::Write { offset: 0, data: vec![1; 8].into() }.encode(0, &mut front, &mut data);
    front.as_mut_slice()[14] = 9;
    Op::Stat.encode(0, &mut front, &mut data);
    let mut r = Reader::new(front.as_slice());
    assert_eq!(Op::decode(&mut r, &mut data), Ok((Op::Malformed { code: code::WRITE }, 0)));
    assert_eq!(Op::decode(&mut r, &mut data), Ok((Op::Stat, 0)), "the next one is decoded");
}
