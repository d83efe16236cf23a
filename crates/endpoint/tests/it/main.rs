//! Integration tests of `onego-endpoint`.

mod endpoint;
