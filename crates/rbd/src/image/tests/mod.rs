//! Tests of an open image against a scripted host, whose requests the tests inspect and answer.

mod clones;
mod format1;
mod locking;
mod maps;
mod migration;
mod operations;
mod plain;
mod resize;
mod script;
