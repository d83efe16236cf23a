//! Integration tests of `onego-cli`.

mod commands;
mod crash;
mod export_idle;
mod memory;
mod support;
