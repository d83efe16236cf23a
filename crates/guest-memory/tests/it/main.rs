//! Integration tests of `onego-guest-memory`.

mod shared;
