//! Zero-copy sends compared with copying ones: bandwidth, CPU, and the share that the kernel copied anyway.
//!
//! Bytes go by UDP to a device that discards them, where zero-copy sends are real; and by TCP over loopback and over a
//! pair of virtual Ethernet devices, where Linux copies anyway.

mod calibrate;
mod cell;
mod figures;
mod measure;
mod place;
mod plan;
mod ratio;
mod report;
mod sending;

pub use calibrate::Calibration;
pub use cell::{Cell, Flush, Path, Sender};
pub use figures::Figures;
pub use measure::measure;
pub use onego_engine::zero_copy::{BadThresholds, Thresholds};
pub use place::receive;
pub use plan::Plan;
pub use ratio::Ratio;
pub use report::{Row, header, line, svg};
