//! Integration tests of `onego-rbd`.

mod diffs;
mod streams;
