use std::io;

/// Why the kernel's driver could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no driver.
    #[error(
        "there is no /dev/ublk-control: load the driver with `modprobe ublk_drv` (Linux 6.0 or later with \
         CONFIG_BLK_DEV_UBLK; Debian has it from 6.12 on)"
    )]
    NoDriver,
    /// This user may not use it.
    #[error("not allowed to use {0}: block devices are made and removed by root")]
    NotPermitted(String),
    /// The driver is too old.
    #[error("the kernel's ublk driver is too old: it has to know {0}")]
    TooOld(&'static str),
    /// There is no io_uring, by which the driver is used.
    #[error("ublk is used by io_uring, and there is none here: {0}")]
    NoRing(#[source] io::Error),
    /// There is no device of that number.
    #[error("there is no ublk device of number {0}")]
    NoDevice(u32),
    /// A command failed.
    #[error("the kernel could not {what}: {source}")]
    Failed {
        /// What was asked for.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl Error {
    /// A command that failed with that error.
    pub(crate) fn failed(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Failed { what, source }
    }
}
