//! Data that an image shows at a snapshot or at present, including its parent's.

mod copy_down;
mod own_key;
mod shown;

pub(super) use copy_down::CopyDown;
pub(super) use own_key::refuse_own_key;
pub(super) use shown::View;
