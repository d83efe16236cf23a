use std::io;

/// The reason that the kernel's driver could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The driver is not loaded.
    #[error(
        "/dev/ublk-control does not exist: load the driver with `modprobe ublk_drv` (Linux 6.0 or later with \
         CONFIG_BLK_DEV_UBLK; Debian has it from 6.12 on)"
    )]
    NoDriver,
    /// The user lacks the permission.
    #[error("not allowed to use {0}: creating and deleting block devices requires root")]
    NotPermitted(String),
    /// The driver lacks a required feature.
    #[error("the kernel's ublk driver is too old: it must support {0}")]
    TooOld(&'static str),
    /// io_uring, which the driver requires, is unavailable.
    #[error("ublk requires io_uring, which is unavailable: {0}")]
    NoRing(#[source] io::Error),
    /// No device has this number.
    #[error("ublk device {0} does not exist")]
    NoDevice(u32),
    /// A command failed.
    #[error("the kernel could not {what}: {source}")]
    Failed {
        /// Verb phrase for the failed command.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn failed(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Failed { what, source }
    }
}
