//! Integration tests of `onego-testkit`.

mod cluster;
mod files;
mod half_open;
mod images;
mod joined;
mod sim;
