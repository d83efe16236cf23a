//! How a check that looked for offences ends.

use anyhow::{Result, bail};

/// Ends a check that looked for offences: none found, or all of them named.
pub(super) fn verdict(offences: &[String]) -> Result<()> {
    if offences.is_empty() {
        return Ok(());
    }
    bail!("{} found\n  {}", offences.len(), offences.join("\n  "))
}
