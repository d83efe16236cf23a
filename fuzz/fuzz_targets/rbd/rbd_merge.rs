//! Two diffs made one: whatever they are, the merge ends, and gives a diff or an error. Applied, it does what both do.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_rbd::stream::{DiffDecoder, DiffEvent, DiffRecord, Merge, MergeInput, MergeStep};

/// Larger images are merged, but not applied.
const MAX_IMAGE: u64 = 1 << 16;

fn merge(inputs: [&[u8]; 2], piece: usize) -> Option<Vec<u8>> {
    let mut inputs = inputs.map(|input| input.chunks(piece));
    let (mut merge, mut out) = (Merge::new(), Vec::new());
    loop {
        match merge.step().ok()? {
            MergeStep::Bytes(bytes) => out.extend(bytes.to_vec()),
            MergeStep::Need(input) => match inputs[usize::from(input == MergeInput::Second)].next() {
                Some(piece) => merge.push(input, piece.to_vec()),
                None => merge.finish(input).ok()?,
            },
            MergeStep::Done => return Some(out),
        }
    }
}

/// Applies a diff to an image. `None`: it is none, or the image is too large.
fn apply(diff: &[u8], image: &mut Vec<u8>) -> Option<()> {
    let mut decoder = DiffDecoder::new();
    decoder.push(diff.to_vec());
    let mut at = 0;
    while let Some(event) = decoder.next_event().ok()? {
        match event {
            DiffEvent::Record(DiffRecord::Size(size)) if size > MAX_IMAGE => return None,
            DiffEvent::Record(DiffRecord::Size(size)) => image.resize(size as usize, 0),
            DiffEvent::Record(DiffRecord::Write { offset, .. }) => at = offset as usize,
            DiffEvent::Record(DiffRecord::Zero { offset, length }) => {
                image.get_mut(offset as usize..(offset + length) as usize)?.fill(0);
            }
            DiffEvent::Record(_) => {}
            DiffEvent::Data(data) => {
                image.get_mut(at..at + data.len())?.copy_from_slice(&data.to_vec());
                at += data.len();
            }
        }
    }
    decoder.finish().ok()
}

fuzz_target!(|input: (u8, &[u8], &[u8])| {
    let (piece, first, second) = input;
    let merged = merge([first, second], usize::from(piece).max(1));
    assert_eq!(merged, merge([first, second], 1 << 20), "how the diffs are cut makes no difference");
    let Some(merged) = merged else { return };
    let mut both: Vec<u8> = (0..=255).collect();
    let mut one = both.clone();
    if apply(first, &mut both).and_then(|()| apply(second, &mut both)).is_some() {
        apply(&merged, &mut one).expect("two diffs that can be applied make one that can");
        assert_eq!(one, both);
    }
});
