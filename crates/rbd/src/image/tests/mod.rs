//! An open image against a script: what it asks for is looked at and answered by hand.

mod clones;
mod format1;
mod locking;
mod maps;
mod migration;
mod operations;
mod plain;
mod resize;
mod script;
