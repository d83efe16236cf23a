//! Integration tests of `onego-block`.

mod copy;
mod plug;
mod wrappers;
