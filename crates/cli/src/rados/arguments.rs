//! What several commands take: names of objects, and values.

use crate::failure::Failure;
use onego::text;
use std::io::{self, Read as _};

#[derive(clap::Args)]
pub(super) struct ObjectArg {
    /// The object
    pub(super) object: String,
}

#[derive(clap::Args)]
pub(super) struct ObjectsArg {
    /// The objects
    #[arg(required = true, value_name = "OBJECT")]
    pub(super) objects: Vec<String>,
}

/// The most bytes of a value that are read. OSDs take less.
const MAX_VALUE: u64 = 64 << 20;

/// A value on the command line, or else what standard input has.
pub(super) fn value(given: Option<&str>) -> Result<Vec<u8>, Failure> {
    if let Some(given) = given {
        return Ok(text::to_bytes(given).into_owned());
    }
    let mut value = Vec::new();
    io::stdin()
        .lock()
        .take(MAX_VALUE)
        .read_to_end(&mut value)
        .map_err(Failure::io("reading standard input"))?;
    Ok(value)
}
