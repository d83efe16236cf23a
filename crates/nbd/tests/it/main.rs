//! Integration tests of `onego-nbd`.

mod client;
