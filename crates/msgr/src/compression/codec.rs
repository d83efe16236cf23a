//! Format of a compressed segment, by compression method.
//!
//! Source: ceph `src/compressor/{snappy,zlib,zstd,lz4}/*`, of 18.2.
//!
//! | method | layout |
//! |---|---|
//! | snappy | raw format, which begins with the decompressed length |
//! | zlib | a byte for the compressor used (any value), then a raw deflate stream |
//! | zstd | u32: decompressed length; a frame |
//! | lz4 | u32: number of blocks; for each u32, u32: its decompressed and compressed length; the blocks, each of which refers to those before it |

use super::method::Method;
use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};
use std::fmt;

/// Ceph's defaults (`compressor_zlib_level`, `compressor_zstd_level`).
const ZLIB_LEVEL: u32 = 5;
const ZSTD_LEVEL: i32 = 1;

/// zlib expands incompressible data by at most a thousandth, plus a few bytes for each block of 16 KiB.
fn zlib_bound(len: usize) -> usize {
    len + len / 1000 + 5 * (len / 16_000) + 32
}

pub(crate) enum Encoder {
    Snappy(Box<snap::raw::Encoder>),
    Zlib(Compress),
    Zstd(zstd::bulk::Compressor<'static>),
    Lz4,
}

impl Encoder {
    /// Returns `None` if out of memory.
    pub(crate) fn new(method: Method) -> Option<Self> {
        Some(match method {
            Method::Snappy => Self::Snappy(Box::new(snap::raw::Encoder::new())),
            Method::Zlib => Self::Zlib(Compress::new(flate2::Compression::new(ZLIB_LEVEL), false)),
            Method::Zstd => Self::Zstd(zstd::bulk::Compressor::new(ZSTD_LEVEL).ok()?),
            Method::Lz4 => Self::Lz4,
        })
    }

    pub(crate) fn bound(&self, len: usize) -> usize {
        match self {
            Self::Snappy(_) => snap::raw::max_compress_len(len),
            Self::Zlib(_) => 1 + zlib_bound(len),
            Self::Zstd(_) => 4 + zstd::zstd_safe::compress_bound(len),
            Self::Lz4 => LZ4_TABLE + lz4_flex::block::get_maximum_output_size(len),
        }
    }

    /// Compresses `bytes` into `to`, which has [`bound`](Self::bound) bytes. Returns the compressed size.
    pub(crate) fn encode(&mut self, bytes: &[u8], to: &mut [u8]) -> Option<usize> {
        match self {
            Self::Snappy(encoder) => encoder.compress(bytes, to).ok(),
            Self::Zlib(encoder) => {
                let (mark, stream) = to.split_first_mut()?;
                *mark = 0;
                encoder.reset();
                let status = encoder.compress(bytes, stream, FlushCompress::Finish).ok()?;
                (status == Status::StreamEnd).then(|| 1 + encoder.total_out() as usize)
            }
            Self::Zstd(encoder) => {
                let (len, frame) = to.split_first_chunk_mut()?;
                *len = u32::try_from(bytes.len()).ok()?.to_le_bytes();
                Some(4 + encoder.compress_to_buffer(bytes, frame).ok()?)
            }
            Self::Lz4 => {
                let (table, block) = to.split_first_chunk_mut::<LZ4_TABLE>()?;
                let packed = lz4_flex::block::compress_into(bytes, block).ok()?;
                let words = [1, u32::try_from(bytes.len()).ok()?, u32::try_from(packed).ok()?];
                for (slot, word) in table.as_chunks_mut::<4>().0.iter_mut().zip(words) {
                    *slot = word.to_le_bytes();
                }
                Some(LZ4_TABLE + packed)
            }
        }
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Encoder")
    }
}

/// Size of the table before a single block, in bytes.
const LZ4_TABLE: usize = 12;

/// Maximum number of blocks accepted. Ceph makes one of each segment.
const LZ4_MAX_BLOCKS: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The decompressed size exceeds the limit; it is at least this.
    TooLong(u64),
    Damaged(&'static str),
}

const CUT: Broken = Broken::Damaged("it is truncated");
const WRONG_LENGTH: Broken = Broken::Damaged("its length differs from the stated length");
const DAMAGED: Broken = Broken::Damaged("it is corrupt");

pub(crate) enum Decoder {
    Snappy,
    /// The last segment is kept: its length is known only after decompression.
    Zlib(Decompress, Vec<u8>),
    Zstd(zstd::bulk::Decompressor<'static>),
    Lz4,
}

impl Decoder {
    /// Returns `None` if out of memory.
    pub(crate) fn new(method: Method) -> Option<Self> {
        Some(match method {
            Method::Snappy => Self::Snappy,
            Method::Zlib => Self::Zlib(Decompress::new(false), Vec::new()),
            Method::Zstd => Self::Zstd(zstd::bulk::Decompressor::new().ok()?),
            Method::Lz4 => Self::Lz4,
        })
    }

    /// Returns the decompressed length of a segment, at most `bound` bytes. [`decode`](Self::decode) follows, with the
    /// same segment.
    pub(crate) fn measure(&mut self, segment: &[u8], bound: usize) -> Result<usize, Broken> {
        let said = match self {
            Self::Snappy => snap::raw::decompress_len(segment).map_err(|_| DAMAGED)? as u64,
            Self::Zlib(decoder, plain) => inflate(decoder, segment, plain, bound)? as u64,
            Self::Zstd(_) => u64::from(word(segment, 0)?),
            Self::Lz4 => {
                let blocks = lz4_blocks(segment)?;
                (0..blocks).map(|block| word(segment, 4 + 8 * block).map(u64::from)).sum::<Result<_, _>>()?
            }
        };
        if said > bound as u64 {
            return Err(Broken::TooLong(said));
        }
        // Such short input cannot expand to that length: no memory is allocated for it.
        if said > self.most_from(segment.len()) { Err(WRONG_LENGTH) } else { Ok(said as usize) }
    }

    fn most_from(&self, len: usize) -> u64 {
        len as u64
            * match self {
                // Three bytes can repeat 64.
                Self::Snappy => 22,
                // Each further length byte adds 255.
                Self::Lz4 => 255,
                // A block of four bytes can repeat one byte 128 KiB.
                Self::Zstd(_) => 32 << 10,
                // The length was measured by decompressing.
                Self::Zlib(..) => u64::from(u32::MAX),
            }
    }

    /// Decompresses the segment just measured into `to`, which has its length.
    pub(crate) fn decode(&mut self, segment: &[u8], to: &mut [u8]) -> Result<(), Broken> {
        let len = match self {
            Self::Snappy => snap::raw::Decoder::new().decompress(segment, to).map_err(|_| DAMAGED)?,
            Self::Zlib(_, plain) => {
                to.copy_from_slice(plain);
                plain.clear();
                // Release the memory of a large segment.
                plain.shrink_to(ZLIB_KEEP);
                to.len()
            }
            Self::Zstd(decoder) => {
                // The library accepts an empty input as an empty frame.
                let frame = segment.get(4..).filter(|frame| !frame.is_empty()).ok_or(CUT)?;
                decoder.decompress_to_buffer(frame, to).map_err(|_| DAMAGED)?
            }
            Self::Lz4 => lz4(segment, to)?,
        };
        if len == to.len() { Ok(()) } else { Err(WRONG_LENGTH) }
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Decoder")
    }
}

/// Capacity for decompressed bytes that is kept between segments.
const ZLIB_KEEP: usize = 256 << 10;

/// Decompresses a deflate stream to `plain`, which grows with the actual output but not beyond `bound`.
fn inflate(
    decoder: &mut Decompress,
    segment: &[u8],
    plain: &mut Vec<u8>,
    bound: usize,
) -> Result<usize, Broken> {
    let stream = segment.get(1..).ok_or(CUT)?;
    decoder.reset(false);
    plain.clear();
    loop {
        let (used, before) = (decoder.total_in() as usize, plain.len());
        if plain.len() == plain.capacity() {
            // One byte over the limit, to detect an excessive length.
            let room = (bound + 1 - plain.len()).min(plain.len().max(4 * stream.len()).max(64));
            plain.reserve_exact(room);
        }
        let status = decoder.decompress_vec(&stream[used..], plain, FlushDecompress::None);
        let status = status.map_err(|_| DAMAGED)?;
        if plain.len() > bound {
            return Err(Broken::TooLong(plain.len() as u64));
        }
        match status {
            Status::StreamEnd if decoder.total_in() as usize == stream.len() => return Ok(plain.len()),
            Status::StreamEnd => return Err(WRONG_LENGTH),
            _ if decoder.total_in() as usize == used && plain.len() == before => return Err(CUT),
            _ => {}
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Result<u32, Broken> {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk).ok_or(CUT)?;
    Ok(u32::from_le_bytes(*word))
}

fn lz4_blocks(segment: &[u8]) -> Result<usize, Broken> {
    match word(segment, 0)? as usize {
        blocks if blocks <= LZ4_MAX_BLOCKS => Ok(blocks),
        _ => Err(Broken::Damaged("it has too many blocks")),
    }
}

fn lz4(segment: &[u8], to: &mut [u8]) -> Result<usize, Broken> {
    let blocks = lz4_blocks(segment)?;
    let mut rest = segment.get(4 + 8 * blocks..).ok_or(CUT)?;
    let mut filled = 0;
    for block in 0..blocks {
        let (len, packed_len) = (word(segment, 4 + 8 * block)?, word(segment, 8 + 8 * block)?);
        let (packed, behind) = rest.split_at_checked(packed_len as usize).ok_or(CUT)?;
        let (before, room) = to.split_at_mut(filled);
        let room = room.get_mut(..len as usize).ok_or(WRONG_LENGTH)?;
        let decoded = lz4_flex::block::decompress_into_with_dict(packed, room, before);
        if decoded.map_err(|_| DAMAGED)? != room.len() {
            return Err(WRONG_LENGTH);
        }
        filled += room.len();
        rest = behind;
    }
    if rest.is_empty() { Ok(filled) } else { Err(WRONG_LENGTH) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const METHODS: [Method; 4] = [Method::Snappy, Method::Zlib, Method::Zstd, Method::Lz4];

    fn encoded(encoder: &mut Encoder, bytes: &[u8]) -> Vec<u8> {
        let mut to = vec![0xaa; encoder.bound(bytes.len())];
        let len = encoder.encode(bytes, &mut to).unwrap();
        to.truncate(len);
        to
    }

    fn decoded(decoder: &mut Decoder, segment: &[u8], bound: usize) -> Result<Vec<u8>, Broken> {
        let mut to = vec![0xaa; decoder.measure(segment, bound)?];
        decoder.decode(segment, &mut to).map(|()| to)
    }

    /// Bytes that are more or less compressible.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let run = (any::<u8>(), 0..4000usize).prop_map(|(byte, len)| vec![byte; len]);
        let noise = prop::collection::vec(any::<u8>(), 0..4000usize);
        prop::collection::vec(prop_oneof![run, noise], 0..20).prop_map(|parts| parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn compressed_data_round_trips(all in prop::collection::vec(bytes(), 1..4)) {
            for method in METHODS {
                let (mut encoder, mut decoder) = (Encoder::new(method).unwrap(), Decoder::new(method).unwrap());
                for bytes in &all {
                    let segment = encoded(&mut encoder, bytes);
                    prop_assert_eq!(decoded(&mut decoder, &segment, bytes.len()), Ok(bytes.clone()));
                    if let Some(bound) = bytes.len().checked_sub(1) {
                        let refused = decoded(&mut decoder, &segment, bound);
                        prop_assert!(matches!(refused, Err(Broken::TooLong(_))), "{:?}", refused);
                    }
                }
            }
        }

        #[test]
        fn truncated_or_modified_data_never_exceeds_its_limit(
            bytes in bytes(),
            cut in any::<prop::sample::Index>(),
            at in any::<prop::sample::Index>(),
            change in 1..=u8::MAX,
        ) {
            for method in METHODS {
                let segment = encoded(&mut Encoder::new(method).unwrap(), &bytes);
                let mut decoder = Decoder::new(method).unwrap();
                let cut = &segment[..cut.index(segment.len())];
                prop_assert!(decoded(&mut decoder, cut, 1 << 20).is_err(), "{method} of {} bytes", cut.len());
                let mut changed = segment.clone();
                changed[at.index(segment.len())] ^= change;
                if let Ok(bytes) = decoded(&mut decoder, &changed, bytes.len()) {
                    prop_assert!(bytes.len() <= 80_000);
                }
                prop_assert_eq!(decoded(&mut decoder, &segment, bytes.len()), Ok(bytes.clone()));
            }
        }
    }

    #[test]
    fn every_truncation_of_a_short_segment_is_detected() {
        for (method, bytes) in
            METHODS.into_iter().flat_map(|method| [(method, &b""[..]), (method, b"aaaaaaaab")])
        {
            let segment = encoded(&mut Encoder::new(method).unwrap(), bytes);
            let mut decoder = Decoder::new(method).unwrap();
            for len in 0..segment.len() {
                assert!(decoded(&mut decoder, &segment[..len], 1 << 20).is_err(), "{method}: {len} bytes");
            }
            assert_eq!(decoded(&mut decoder, &segment, bytes.len()), Ok(bytes.to_vec()), "{method}");
        }
    }

    #[test]
    fn a_decompression_bomb_is_refused_before_it_takes_memory() {
        let zeros = vec![0; 32 << 20];
        for method in METHODS {
            let segment = encoded(&mut Encoder::new(method).unwrap(), &zeros);
            assert!(segment.len() < 2 << 20, "{method}: {}", segment.len());
            let mut decoder = Decoder::new(method).unwrap();
            assert!(matches!(decoder.measure(&segment, 1 << 20), Err(Broken::TooLong(_))), "{method}");
            if let Decoder::Zlib(_, plain) = &decoder {
                assert!(plain.capacity() <= (1 << 20) + 1);
            }
        }
        // Only lengths, without data.
        for (method, segment) in [
            (Method::Snappy, &b"\xff\xff\xff\xff\x0f"[..]),
            (Method::Zstd, b"\xff\xff\xff\xff"),
            (Method::Lz4, b"\x01\0\0\0\xff\xff\xff\xff\0\0\0\0"),
            (Method::Lz4, b"\x02\0\0\0\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff\0\0\0\0"),
        ] {
            let mut decoder = Decoder::new(method).unwrap();
            assert!(matches!(decoder.measure(segment, 64 << 20), Err(Broken::TooLong(_))), "{method}");
        }
    }

    #[test]
    fn a_wrong_length_is_detected() {
        let bytes = vec![7; 1000];
        let mut zstd = encoded(&mut Encoder::new(Method::Zstd).unwrap(), &bytes);
        let mut lz4 = encoded(&mut Encoder::new(Method::Lz4).unwrap(), &bytes);
        let mut snappy = encoded(&mut Encoder::new(Method::Snappy).unwrap(), &bytes);
        for said in [999u32, 1001] {
            zstd[..4].copy_from_slice(&said.to_le_bytes());
            lz4[4..8].copy_from_slice(&said.to_le_bytes());
            snappy[0] = 0x80 | (said & 0x7f) as u8;
            for (method, segment) in [(Method::Zstd, &zstd), (Method::Lz4, &lz4), (Method::Snappy, &snappy)] {
                let decoded = decoded(&mut Decoder::new(method).unwrap(), segment, 1 << 20);
                assert!(matches!(decoded, Err(Broken::Damaged(_))), "{method}, {said}: {decoded:?}");
            }
        }
        for method in METHODS {
            let mut longer = encoded(&mut Encoder::new(method).unwrap(), &bytes);
            longer.push(0);
            let decoded = decoded(&mut Decoder::new(method).unwrap(), &longer, 1 << 20);
            assert!(matches!(decoded, Err(Broken::Damaged(_))), "{method}: {decoded:?}");
        }
    }

    #[test]
    fn lz4_blocks_refer_to_those_before_them() {
        // The literal "abcdefgh", then eight bytes from eight bytes back, then the literal "xxxxx".
        let blocks: [&[u8]; 2] = [b"\x80abcdefgh", b"\x04\x08\0\x50xxxxx"];
        let mut segment = vec![2, 0, 0, 0];
        for (len, block) in [8u32, 13].into_iter().zip(blocks) {
            segment.extend(len.to_le_bytes());
            segment.extend((block.len() as u32).to_le_bytes());
        }
        segment.extend(blocks.concat());
        let mut decoder = Decoder::new(Method::Lz4).unwrap();
        assert_eq!(decoded(&mut decoder, &segment, 21).unwrap(), b"abcdefghabcdefghxxxxx");
        segment[0] = 0xff;
        segment[1] = 0xff;
        assert_eq!(decoder.measure(&segment, 21), Err(Broken::Damaged("it has too many blocks")));
    }
}
