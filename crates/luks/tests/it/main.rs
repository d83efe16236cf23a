//! Integration tests of `onego-luks`.

mod headers;
