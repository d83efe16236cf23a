//! How commands name a group.

use crate::failure::Failure;
use crate::rbd::names::{Named, PoolOptions, Snap};

/// A group in one word, or by options.
#[derive(clap::Args)]
pub(crate) struct GroupWord {
    /// The group: [POOL/[NAMESPACE/]]GROUP
    #[arg(value_name = "GROUP")]
    word: Option<String>,
    #[command(flatten)]
    options: PoolOptions,
    /// The group, named as an option
    #[arg(long)]
    group: Option<String>,
}

impl GroupWord {
    pub(super) fn named(&self, snap: Snap) -> Result<Named, Failure> {
        match self.word.as_deref().or(self.group.as_deref()) {
            Some(word) => self.options.named(word, "a group", snap),
            None => Err(Failure::Usage("group name was not specified".into())),
        }
    }
}
