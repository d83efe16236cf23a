//! Diffs and exported images: round trips in pieces of any size, and merges.

use onego_rbd::stream::{
    DiffDecoder, DiffEvent, DiffRecord, DiffVersion, ImageDecoder, ImageEvent, ImageRecord, Merge,
    MergeError, MergeInput, MergeStep, StreamError,
};
use proptest::prelude::*;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Diff {
    version: DiffVersion,
    records: Vec<(DiffRecord, Vec<u8>)>,
}

impl Diff {
    fn encode(&self) -> Vec<u8> {
        let mut out = self.version.banner().as_bytes().to_vec();
        for (record, data) in &self.records {
            record.encode(self.version, &mut out);
            out.extend(data);
        }
        out
    }

    fn decode(bytes: &[u8], piece: usize) -> Result<Self, StreamError> {
        let mut decoder = DiffDecoder::new();
        let mut records = Vec::new();
        for piece in bytes.chunks(piece) {
            decoder.push(piece.to_vec());
            while let Some(event) = decoder.next_event()? {
                collect(&mut records, event);
            }
        }
        decoder.finish()?;
        assert_eq!(decoder.position(), bytes.len() as u64);
        Ok(Self { version: decoder.version().unwrap(), records })
    }

    fn apply(&self, image: &mut Vec<u8>) {
        for (record, data) in &self.records {
            match record {
                DiffRecord::Size(size) => image.resize(*size as usize, 0),
                DiffRecord::Write { offset, .. } => {
                    image[*offset as usize..][..data.len()].copy_from_slice(data);
                }
                DiffRecord::Zero { offset, length } => {
                    image[*offset as usize..][..*length as usize].fill(0);
                }
                _ => {}
            }
        }
    }
}

fn collect(records: &mut Vec<(DiffRecord, Vec<u8>)>, event: DiffEvent) {
    match event {
        DiffEvent::Record(record) => records.push((record, Vec::new())),
        DiffEvent::Data(data) => records.last_mut().unwrap().1.extend(data.to_vec()),
    }
}

const SIZE: u64 = 200;

/// Generates ordered ranges, with data or without, of an image of `size` bytes.
fn ranges(size: u64) -> impl Strategy<Value = Vec<(DiffRecord, Vec<u8>)>> {
    prop::collection::vec((0..20_u64, 1..40_u64, any::<Option<u8>>()), 0..12).prop_map(move |gaps| {
        let mut at = 0;
        let mut records = Vec::new();
        for (gap, length, byte) in gaps {
            let offset = at + gap;
            let length = length.min(size.saturating_sub(offset));
            if length == 0 {
                break;
            }
            at = offset + length;
            records.push(match byte {
                Some(byte) => (DiffRecord::Write { offset, length }, vec![byte; length as usize]),
                None => (DiffRecord::Zero { offset, length }, Vec::new()),
            });
        }
        records
    })
}

fn diff(from: Option<&'static str>, to: Option<&'static str>) -> impl Strategy<Value = Diff> {
    let versions = prop_oneof![Just(DiffVersion::V1), Just(DiffVersion::V2)];
    (versions, 0..SIZE, any::<bool>()).prop_flat_map(move |(version, size, protected)| {
        ranges(size).prop_map(move |ranges| {
            let header = [
                from.map(|name| DiffRecord::From(name.to_owned())),
                to.map(|name| DiffRecord::To(name.to_owned())),
                (version == DiffVersion::V2 && to.is_some()).then_some(DiffRecord::Protected(protected)),
                Some(DiffRecord::Size(size)),
            ];
            let header = header.into_iter().flatten().map(|record| (record, Vec::new()));
            let end = [(DiffRecord::End, Vec::new())];
            Diff { version, records: header.chain(ranges).chain(end).collect() }
        })
    })
}

/// Merges two diffs that arrive in pieces of `piece` bytes. Returns the largest number of buffered bytes.
fn merge(first: &[u8], second: &[u8], piece: usize) -> Result<(Vec<u8>, usize), MergeError> {
    let mut merge = Merge::new();
    let mut inputs = [first.chunks(piece), second.chunks(piece)];
    let (mut out, mut most) = (Vec::new(), 0);
    loop {
        match merge.step()? {
            MergeStep::Bytes(bytes) => {
                most = most.max(bytes.len());
                out.extend(bytes.to_vec());
            }
            MergeStep::Need(input) => match inputs[usize::from(input == MergeInput::Second)].next() {
                Some(piece) => merge.push(input, piece.to_vec()),
                None => merge.finish(input)?,
            },
            MergeStep::Done => return Ok((out, most)),
        }
    }
}

proptest! {
    #[test]
    fn diffs_survive_a_round_trip(diff in diff(Some("a"), Some("b")), piece in 1..50_usize) {
        prop_assert_eq!(Diff::decode(&diff.encode(), piece), Ok(diff));
    }

    #[test]
    fn a_truncated_diff_is_rejected(diff in diff(None, Some("b")), cut in any::<prop::sample::Index>()) {
        let bytes = diff.encode();
        let cut = cut.index(bytes.len());
        if cut > 0 {
            let result = Diff::decode(&bytes[..cut], 7);
            prop_assert!(matches!(result, Err(StreamError::Truncated { .. })), "{result:?}");
        }
    }

    #[test]
    fn a_merged_diff_equals_both_applied_in_order(
        first in diff(Some("a"), Some("b")),
        second in diff(Some("b"), None),
        before in prop::collection::vec(any::<u8>(), SIZE as usize),
        piece in 1..50_usize,
    ) {
        let (merged, most) = merge(&first.encode(), &second.encode(), piece).unwrap();
        prop_assert!(most <= piece.max(64), "a step gave {most} bytes");
        let merged = Diff::decode(&merged, 1000).unwrap();
        let (mut one, mut both) = (before.clone(), before);
        merged.apply(&mut one);
        first.apply(&mut both);
        second.apply(&mut both);
        prop_assert_eq!(one, both);
        prop_assert_eq!(merged.version, first.version.max(second.version));
        prop_assert_eq!(&merged.records[0].0, &DiffRecord::From("a".to_owned()));
    }
}

#[test]
fn diffs_are_encoded_as_documented() {
    let records = [
        (DiffRecord::From("a".into()), vec![]),
        (DiffRecord::To("b".into()), vec![]),
        (DiffRecord::Size(513), vec![]),
        (DiffRecord::Write { offset: 2, length: 3 }, b"xyz".to_vec()),
        (DiffRecord::Zero { offset: 256, length: 1 }, vec![]),
        (DiffRecord::End, vec![]),
    ];
    let v1 = Diff { version: DiffVersion::V1, records: records.to_vec() };
    let expected: &[u8] = b"rbd diff v1\nf\x01\0\0\0at\x01\0\0\0bs\x01\x02\0\0\0\0\0\0\
        w\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0xyzz\0\x01\0\0\0\0\0\0\x01\0\0\0\0\0\0\0e";
    assert_eq!(v1.encode(), expected);
    let v2 = Diff { version: DiffVersion::V2, ..v1 };
    let expected: &[u8] = b"rbd diff v2\nf\x05\0\0\0\0\0\0\0\x01\0\0\0at\x05\0\0\0\0\0\0\0\x01\0\0\0b\
        s\x08\0\0\0\0\0\0\0\x01\x02\0\0\0\0\0\0w\x13\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0xyz\
        z\x10\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\x01\0\0\0\0\0\0\0e";
    assert_eq!(v2.encode(), expected);
}

#[test]
fn unknown_records_with_a_length_are_skipped() {
    let mut bytes = b"rbd diff v2\nQ\x05\0\0\0\0\0\0\0later".to_vec();
    DiffRecord::Size(1).encode(DiffVersion::V2, &mut bytes);
    DiffRecord::End.encode(DiffVersion::V2, &mut bytes);
    let diff = Diff::decode(&bytes, 3).unwrap();
    assert_eq!(diff.records[0].0, DiffRecord::Size(1));
    assert_eq!(Diff::decode(b"rbd diff v1\nQ.....", 3), Err(StreamError::Tag { position: 12, tag: b'Q' }));
}

#[test]
fn a_protection_record_has_one_byte_despite_its_length_field() {
    for length in [1, 8] {
        let mut bytes = [&b"rbd diff v2\np"[..], &[length, 0, 0, 0, 0, 0, 0, 0, 1]].concat();
        DiffRecord::End.encode(DiffVersion::V2, &mut bytes);
        let diff = Diff::decode(&bytes, 3).unwrap();
        assert_eq!(diff.records[0].0, DiffRecord::Protected(true));
    }
    assert!(matches!(
        Diff::decode(b"rbd diff v2\np\x02\0\0\0\0\0\0\0\0\0", 9),
        Err(StreamError::Length { .. })
    ));
}

#[test]
fn invalid_records_are_rejected_without_allocating() {
    let huge = |tag: u8| [b"rbd diff v1\n", &[tag][..], &[0xff; 16]].concat();
    assert!(matches!(Diff::decode(&huge(b'f'), 100), Err(StreamError::Length { tag: 'f', .. })));
    assert!(matches!(Diff::decode(&huge(b'w'), 100), Err(StreamError::Range { .. })));
    assert!(matches!(Diff::decode(&huge(b'z'), 100), Err(StreamError::Range { .. })));
    assert!(matches!(
        Diff::decode(b"rbd diff v2\ns\x09\0\0\0\0\0\0\0", 100),
        Err(StreamError::Length { .. })
    ));
    assert!(matches!(Diff::decode(b"rbd image v2\n", 100), Err(StreamError::Banner { .. })));
    let mut late = b"rbd diff v1\n".to_vec();
    DiffRecord::Zero { offset: 0, length: 1 }.encode(DiffVersion::V1, &mut late);
    DiffRecord::Size(8).encode(DiffVersion::V1, &mut late);
    assert!(matches!(Diff::decode(&late, 100), Err(StreamError::Late { tag: 's', .. })));
    let mut twice = b"rbd diff v1\n".to_vec();
    DiffRecord::Size(8).encode(DiffVersion::V1, &mut twice);
    DiffRecord::Size(9).encode(DiffVersion::V1, &mut twice);
    assert!(matches!(Diff::decode(&twice, 100), Err(StreamError::Repeated { tag: 's', .. })));
}

#[test]
fn nonadjacent_diffs_are_not_merged() {
    let diff = |from: Option<&str>, to: Option<&str>, ranges: &[(u64, u64)]| {
        let mut out = DiffVersion::V1.banner().as_bytes().to_vec();
        let header = [
            from.map(|name| DiffRecord::From(name.into())),
            to.map(|name| DiffRecord::To(name.into())),
            Some(DiffRecord::Size(100)),
        ];
        let ranges =
            ranges.iter().map(|(offset, length)| DiffRecord::Zero { offset: *offset, length: *length });
        let records = header.into_iter().flatten().chain(ranges).chain([DiffRecord::End]);
        records.for_each(|record| record.encode(DiffVersion::V1, &mut out));
        out
    };
    let error = merge(&diff(None, Some("a"), &[]), &diff(Some("b"), None, &[]), 100).unwrap_err();
    assert_eq!(error.to_string(), "the first diff ends at snapshot a, and the second begins at snapshot b");
    for ranges in [&[(10, 10), (0, 5)][..], &[(10, 10), (19, 5)], &[(90, 20)]] {
        let first = merge(&diff(None, Some("a"), ranges), &diff(Some("a"), None, &[]), 100);
        let second = merge(&diff(None, Some("a"), &[]), &diff(Some("a"), None, ranges), 100);
        assert!(matches!(first, Err(MergeError::Order { .. })), "{first:?}");
        assert!(matches!(second, Err(MergeError::Order { .. })), "{second:?}");
    }
    let cut = diff(None, Some("a"), &[]);
    let error = merge(&cut[..cut.len() - 1], &diff(Some("a"), None, &[]), 100).unwrap_err();
    assert!(matches!(error, MergeError::First(StreamError::Truncated { .. })), "{error:?}");
}

#[test]
fn exported_images_survive_a_round_trip() {
    let header = [
        ImageRecord::Begin,
        ImageRecord::Order(22),
        ImageRecord::Features(1),
        ImageRecord::StripeUnit(4 << 20),
        ImageRecord::StripeCount(1),
        ImageRecord::Metadata { key: "conf_rbd_cache".into(), value: b"false".to_vec() },
        ImageRecord::Diffs(2),
    ];
    let mut bytes = Vec::new();
    header.iter().for_each(|record| record.encode(&mut bytes));
    let diff = Diff {
        version: DiffVersion::V2,
        records: vec![
            (DiffRecord::Size(9), vec![]),
            (DiffRecord::Write { offset: 0, length: 2 }, b"hi".to_vec()),
            (DiffRecord::End, vec![]),
        ],
    };
    bytes.extend(diff.encode());
    bytes.extend(diff.encode());
    for piece in [1, 3, 1000] {
        let mut decoder = ImageDecoder::new();
        let (mut records, mut diffs) = (Vec::new(), Vec::new());
        for piece in bytes.chunks(piece) {
            assert!(decoder.finish().is_err());
            decoder.push(piece.to_vec());
            while let Some(event) = decoder.next_event().unwrap() {
                match event {
                    ImageEvent::Record(record) => records.push(record),
                    ImageEvent::Diff(event) => collect(&mut diffs, event),
                }
            }
        }
        decoder.finish().unwrap();
        assert_eq!(records, header);
        assert_eq!(diffs, [diff.records.clone(), diff.records.clone()].concat());
    }
}
