//! What import and export have in common.

use crate::failure::Failure;
use crate::size;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

pub(crate) use crate::partial_import::PIECE;

/// Pieces in flight: more than any network keeps on its way, and little memory.
pub(crate) const WINDOW: usize = 32;

/// What a path is called that means standard input or output.
pub(crate) const STANDARD: &str = "-";

/// Opens what a path names to be read: a file, or standard input.
pub(crate) fn open_input(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if path == Path::new(STANDARD) {
        return Ok(Box::new(io::stdin().lock()));
    }
    Ok(Box::new(File::open(path).map_err(Failure::file(path))?))
}

/// Reads how many bytes a block has that is not written if it is zeros.
pub(crate) fn sparse_size(text: &str) -> Result<u64, String> {
    match size::bytes(text)? {
        size if size.is_power_of_two() && (512..=PIECE).contains(&size) => Ok(size),
        _ => Err(format!("{text:?} is no power of two from 512 to 1M")),
    }
}
