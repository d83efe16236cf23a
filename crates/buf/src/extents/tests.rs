use super::*;
use crate::SegmentMut;

/// Data together with a plain vector that models it.
struct Checked {
    extents: Extents,
    model: Vec<Option<u8>>,
    zeros: Segment,
}

/// Deterministic pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

impl Checked {
    fn new() -> Self {
        Self { extents: Extents::default(), model: Vec::new(), zeros: SegmentMut::zeroed(1000).freeze() }
    }

    fn write(&mut self, offset: usize, data: List) {
        let end = offset + data.len();
        if self.model.len() < end {
            self.model.resize(end, None);
        }
        for (place, byte) in self.model[offset..end].iter_mut().zip(data.to_vec()) {
            *place = Some(byte);
        }
        self.extents.write(offset as u64, data);
        self.check();
    }

    fn remove(&mut self, offset: usize, len: usize) {
        let size = self.model.len();
        self.model[offset.min(size)..(offset + len).min(size)].fill(None);
        self.extents.remove(offset as u64, len as u64);
        self.check();
    }

    fn check(&self) {
        let e = &self.extents;
        let size = self.model.len();
        let bytes: Vec<u8> = self.model.iter().map(|byte| byte.unwrap_or(0)).collect();
        assert_eq!(e.read(0, size as u64, &self.zeros).to_vec(), bytes);
        let mut there = vec![false; size];
        for (offset, len) in e.runs(0, size as u64) {
            there[offset as usize..(offset + len) as usize].fill(true);
        }
        assert!(there.iter().zip(&self.model).all(|(there, byte)| *there == byte.is_some()));
        let live: u64 = e.pieces.values().map(|piece| piece.len() as u64).sum();
        let pinned: u64 = e.blocks.iter().map(|(_, block)| block.len).sum();
        assert_eq!((e.live, e.pinned), (live, pinned));
        assert_eq!(e.blocks.iter().map(|(_, block)| block.live).sum::<u64>(), live);
        assert!(pinned <= live * 2 + SLACK, "{pinned} bytes are pinned for {live}");
        assert!(e.pieces.len() <= e.join_at);
    }
}

fn payload(len: usize, byte: u8) -> List {
    List::from(vec![byte; len])
}

#[test]
fn random_writes_and_holes_match_a_plain_vector() {
    for seed in 0..30 {
        let (mut dice, mut data) = (Dice(seed), Checked::new());
        let mut held = Vec::new();
        for step in 0..300 {
            let offset = dice.roll(150_000) as usize;
            let len = match dice.roll(4) {
                0 => 1 + dice.roll(100),
                1 => dice.roll(5000),
                2 => dice.roll(40_000),
                _ => 16_000 + dice.roll(1000),
            } as usize;
            match dice.roll(6) {
                0 => data.remove(offset, len),
                // A reply in flight prevents writing in place.
                1 => held.push(data.extents.read(0, data.model.len() as u64, &data.zeros)),
                2 => held.clear(),
                _ => data.write(offset, payload(len, step as u8)),
            }
        }
    }
}

#[test]
fn a_large_write_is_adopted_and_a_read_shares_it() {
    let mut data = Checked::new();
    let segment = Segment::from(vec![7; 1 << 20]);
    data.write(4096, segment.clone().into());
    let read = data.extents.read(5000, 1000, &data.zeros);
    assert!(std::ptr::eq(&read.segments().next().unwrap()[0], &segment[904]));
}

#[test]
fn a_small_part_of_a_large_block_is_copied() {
    let mut data = Checked::new();
    let block = Segment::from(vec![7; 1 << 20]);
    data.write(0, block.slice(1000..1000 + 4096).into());
    assert_eq!(data.extents.pinned, 4096);
    data.write(10_000, block.slice(..40_000).into());
    assert_eq!(data.extents.pinned, 44_096);
}

#[test]
fn a_small_overwrite_goes_in_place_unless_a_reader_shares_the_memory() {
    let mut data = Checked::new();
    data.write(0, payload(1 << 20, 1));
    data.write(8192, payload(4096, 2));
    assert_eq!(data.extents.pieces.len(), 1);
    let reader = data.extents.read(0, 4096, &data.zeros);
    data.write(0, payload(4096, 3));
    assert_eq!(reader.to_vec(), [1; 4096]);
    assert_eq!(data.extents.pieces.len(), 2);
}

#[test]
fn small_overwrites_of_shared_memory_soon_go_in_place() {
    let (mut dice, mut data) = (Dice(1), Checked::new());
    data.write(0, payload(1 << 18, 1));
    let other = data.extents.clone();
    let write = |data: &mut Checked, dice: &mut Dice, byte| {
        data.write(dice.roll(63) as usize * 4096 + 100, payload(4096, byte));
    };
    (0..100).for_each(|_| write(&mut data, &mut dice, 2));
    // No more pieces than chunks, each with its own memory.
    assert!(data.extents.pieces.len() <= (1 << 18) / CHUNK, "{} pieces", data.extents.pieces.len());
    assert_eq!(data.extents.growth(10_000, 4096), 0);
    let before: Vec<_> = data.extents.pieces.values().map(|piece| piece.bytes().as_ptr()).collect();
    (0..100).for_each(|_| write(&mut data, &mut dice, 3));
    let after: Vec<_> = data.extents.pieces.values().map(|piece| piece.bytes().as_ptr()).collect();
    assert_eq!(before, after);
    assert_eq!(other.read(0, 1 << 18, &data.zeros).to_vec(), vec![1; 1 << 18]);
}

#[test]
fn a_mostly_dead_block_is_abandoned() {
    let mut data = Checked::new();
    data.write(0, payload(1 << 20, 1));
    data.remove(100, 900_000);
    assert_eq!(data.extents.pinned, data.extents.live);
}

#[test]
fn small_appends_are_joined() {
    let mut data = Checked::new();
    for i in 0..1000 {
        data.write(i * 100, payload(100, i as u8));
    }
    assert!(data.extents.pieces.len() <= FEW_PIECES, "{} pieces", data.extents.pieces.len());
}

#[test]
fn growth_is_never_less_than_a_write_takes() {
    for seed in 0..20 {
        let (mut dice, mut data) = (Dice(seed), Checked::new());
        let mut others = Vec::new();
        for step in 0..200 {
            match dice.roll(10) {
                0 => others.push(data.extents.clone()),
                1 => others.clear(),
                _ => {}
            }
            let (offset, len) = (dice.roll(100_000), 1 + dice.roll(60_000));
            let (before, growth) = (data.extents.pinned(), data.extents.growth(offset, len));
            data.write(offset as usize, payload(len as usize, step as u8));
            // Splitting a piece may add the cost of one more piece.
            assert!(data.extents.pinned() <= before + growth + PIECE_OVERHEAD);
        }
    }
}

#[test]
fn a_write_of_many_small_segments_makes_few_pieces_and_then_goes_in_place() {
    let mut extents = Extents::default();
    let pages = |fill: u8| {
        let mut list = List::new();
        (0..32).for_each(|page| list.push(Segment::from(vec![fill + page; 4096])));
        list
    };
    extents.write(0, pages(0));
    assert_eq!(extents.pieces.len(), 2);
    let pinned = extents.pinned();
    let memory = |extents: &Extents| extents.pieces[&0].bytes().as_ptr();
    let before = memory(&extents);
    extents.write(0, pages(100));
    assert_eq!((memory(&extents), extents.pinned()), (before, pinned));
    let zeros = Segment::from(vec![0; 4096]);
    assert_eq!(extents.read(0, 128 << 10, &zeros).to_vec(), pages(100).to_vec());
}
