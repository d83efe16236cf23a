//! What an image shows at one time, and what it shows of its parent.

mod copy_down;
mod shown;

pub(super) use copy_down::CopyDown;
pub(super) use shown::View;
