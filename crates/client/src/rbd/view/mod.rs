//! What an image shows at one time, and what it shows of its parent.

mod copy_down;
mod own_key;
mod shown;

pub(super) use copy_down::CopyDown;
pub(super) use own_key::refuse_own_key;
pub(super) use shown::View;
