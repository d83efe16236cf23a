use onego_buf::{List, Segment};

/// Maximum size of received pieces that are copied; larger ones are kept in place. A piece pins the whole block that it
/// was received in (256 KiB), so many small pieces would pin many times what was sent.
const KEPT: usize = 16 << 10;

/// Part of a message that is received in pieces and kept until it is complete.
///
/// A part in one piece is never copied. The memory of a part in many pieces is proportional to its size: small pieces
/// are copied into one buffer.
#[derive(Debug, Default)]
pub struct Pieces {
    /// Pieces before those in `tail`.
    list: List,
    tail: Vec<u8>,
}

impl Pieces {
    /// Returns the number of bytes received.
    #[inline]
    pub fn len(&self) -> usize {
        self.list.len() + self.tail.len()
    }

    /// Returns whether nothing has been received.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the next piece.
    #[inline]
    pub fn push(&mut self, piece: Segment) {
        if self.is_empty() {
            return self.list.push(piece);
        }
        self.push_next(piece);
    }

    fn push_next(&mut self, piece: Segment) {
        self.settle();
        if piece.len() > KEPT {
            self.flush();
            self.list.push(piece);
        } else {
            self.tail.extend_from_slice(&piece);
        }
    }

    /// Copies a small piece out of receive memory. Called when more will arrive only with another receive.
    pub fn settle(&mut self) {
        if self.tail.is_empty() && !self.list.is_empty() && self.list.len() <= KEPT {
            self.tail = self.list.to_vec();
            self.list = List::new();
        }
    }

    fn flush(&mut self) {
        if !self.tail.is_empty() {
            self.list.push(std::mem::take(&mut self.tail));
        }
    }

    /// Returns the received bytes as one segment, for inspection.
    pub fn to_segment(&self) -> Segment {
        match (self.list.is_empty(), self.tail.is_empty()) {
            (_, true) => self.list.to_segment(),
            (true, false) => Segment::copy_from(&self.tail),
            (false, false) => Segment::from([&self.list.to_vec(), &self.tail[..]].concat()),
        }
    }

    /// Continues the CRC-32C `seed` over the part.
    pub fn crc32c(&self, seed: u32) -> u32 {
        onego_buf::crc32c(self.list.crc32c(seed), &self.tail)
    }

    /// Takes the whole part.
    #[inline]
    pub fn take(&mut self) -> List {
        self.flush();
        std::mem::take(&mut self.list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Size of the memory blocks that a list pins, in bytes.
    fn kept(list: &List) -> usize {
        list.segments().map(Segment::block_len).sum()
    }

    #[test]
    fn a_part_in_one_piece_is_not_copied() {
        let block = Segment::from(vec![1; 1 << 18]);
        let mut pieces = Pieces::default();
        pieces.push(block.slice(10..30));
        assert_eq!(pieces.to_segment().block_len(), 1 << 18);
        assert_eq!(pieces.take().len(), 20);
        assert!(pieces.is_empty());
    }

    #[test]
    fn many_small_pieces_take_memory_proportional_to_their_bytes() {
        let mut pieces = Pieces::default();
        for n in 0..100_000_usize {
            pieces.push(Segment::from(vec![n as u8; 1 << 12]).slice(5..6));
        }
        assert_eq!((pieces.len(), pieces.to_segment().len()), (100_000, 100_000));
        let list = pieces.take();
        assert!(kept(&list) <= 200_000, "{}", kept(&list));
        assert!(list.segments().count() <= 2);
        assert!(list.to_vec().iter().enumerate().all(|(n, byte)| *byte == n as u8));
    }

    #[test]
    fn an_incomplete_part_releases_receive_memory_and_keeps_large_pieces() {
        let mut pieces = Pieces::default();
        pieces.push(Segment::from(vec![1; 1 << 18]).slice(..10));
        pieces.settle();
        assert!(pieces.to_segment().block_len() <= 16);
        let large = Segment::from(vec![2; 1 << 18]);
        pieces.push(large.clone());
        pieces.settle();
        pieces.push(Segment::from_static(b"end"));
        assert_eq!(pieces.to_segment().len(), 10 + (1 << 18) + 3);
        let list = pieces.take();
        assert_eq!(list.to_vec(), [&[1; 10][..], &large, b"end"].concat());
        assert_eq!(list.segments().nth(1).unwrap().as_ptr(), large.as_ptr());
    }
}
