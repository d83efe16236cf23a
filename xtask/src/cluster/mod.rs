//! Ceph clusters to test against: real ones and ours, each on a stage of its own.

mod embedded;
mod ganesha;
mod home;
mod install;
pub(crate) mod process;
mod real;
mod stage;

pub(crate) use embedded::Embedded;
pub(crate) use ganesha::{EXPORT as GANESHA_EXPORT, FILE_MAX as GANESHA_FILE_MAX, Ganesha};
pub(crate) use home::Home;
pub(crate) use install::{Install, Installs, Release, mirror};
pub(crate) use real::{RealCeph, Store};
pub(crate) use stage::{ADDRESS, Stage};
