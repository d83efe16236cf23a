//! What measurements begin with: their arguments, their other half, and a seed.

use crate::failure::Failure;
use crate::process::this_program;
use onego_bench::peer::Peer;
use std::time::{SystemTime, UNIX_EPOCH};

/// Reads a length of time.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err(format!("{text:?} is no number of seconds up to a day")),
    }
}

/// The error for a command line that names a cluster where none is measured.
pub(super) const NO_CLUSTER: &str = "this measures no cluster";

/// This program, as the other half of what is measured.
pub(crate) fn floor_server() -> Result<Peer, Failure> {
    this_with(["bench", "floor-server"])
}

pub(super) fn this_with(arguments: [&str; 2]) -> Result<Peer, Failure> {
    Ok(Peer { program: this_program()?, arguments: arguments.map(str::to_owned).to_vec() })
}

/// Where written bytes and random offsets follow from: another one each time, so that what an earlier run left is
/// never taken for what this one wrote.
pub(crate) fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64) ^ (u64::from(std::process::id()) << 32)
}
