//! Human-readable output of measurements: progress, tables, pictures.

pub mod picture;
pub mod progress;
pub mod table;
