//! Diffs and exported images, in pieces: what is decoded is written as it was, and how it was cut makes no difference.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_rbd::stream::{DiffDecoder, DiffEvent, DiffRecord, ImageDecoder, ImageEvent, ImageRecord};

/// What came of a stream, with the data of each record.
#[derive(Debug, PartialEq)]
enum StreamItem {
    Image(ImageRecord),
    Diff(DiffRecord, Vec<u8>),
}

fn add(items: &mut Vec<StreamItem>, event: DiffEvent) {
    match (event, items.last_mut()) {
        (DiffEvent::Record(record), _) => items.push(StreamItem::Diff(record, Vec::new())),
        (DiffEvent::Data(data), Some(StreamItem::Diff(DiffRecord::Write { length, .. }, all))) => {
            all.extend(data.to_vec());
            assert!(all.len() as u64 <= *length, "more data than the record has");
        }
        (DiffEvent::Data(_), _) => panic!("data without a record"),
    }
}

/// Decodes a diff; false: it is none.
fn diff(bytes: &[u8], piece: usize) -> (Vec<StreamItem>, bool) {
    let (mut decoder, mut items) = (DiffDecoder::new(), Vec::new());
    for piece in bytes.chunks(piece) {
        decoder.push(piece.to_vec());
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => add(&mut items, event),
                Ok(None) => break,
                Err(_) => return (items, false),
            }
        }
    }
    if decoder.finish().is_ok() {
        let version = decoder.version().expect("a diff that is whole has a version");
        let mut written = version.banner().as_bytes().to_vec();
        for item in &items {
            let StreamItem::Diff(record, data) = item else { continue };
            record.encode(version, &mut written);
            written.extend(data);
        }
        // A record that is not known is not written again, and whether a snapshot is protected may be any byte.
        if written.len() as u64 == decoder.position() && !items.iter().any(is_protection) {
            assert!(written[..] == bytes[..written.len()], "what was read is written in the same way");
        }
    }
    (items, true)
}

fn is_protection(item: &StreamItem) -> bool {
    matches!(item, StreamItem::Diff(DiffRecord::Protected(_), _))
}

/// The same of an exported image.
fn image(bytes: &[u8], piece: usize) -> (Vec<StreamItem>, bool) {
    let (mut decoder, mut items) = (ImageDecoder::new(), Vec::new());
    for piece in bytes.chunks(piece) {
        decoder.push(piece.to_vec());
        loop {
            match decoder.next_event() {
                Ok(Some(ImageEvent::Record(record))) => items.push(StreamItem::Image(record)),
                Ok(Some(ImageEvent::Diff(event))) => add(&mut items, event),
                Ok(None) => break,
                Err(_) => return (items, false),
            }
        }
    }
    (items, true)
}

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, bytes) = input;
    let piece = usize::from(piece).max(1);
    assert_eq!(diff(bytes, piece), diff(bytes, bytes.len().max(1)));
    assert_eq!(image(bytes, piece), image(bytes, bytes.len().max(1)));
});
