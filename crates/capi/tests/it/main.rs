//! Integration tests of `onego-capi`.

mod c_programs;
