//! Ceph clusters to test against: real ones and ours, each on a stage of its own.

mod embedded;
mod install;
pub(crate) mod process;
mod real;
mod stage;

pub(crate) use embedded::Embedded;
pub(crate) use install::{Install, Installs, Release};
pub(crate) use real::{RealCeph, Store};
pub(crate) use stage::{ADDRESS, Home, Stage};
