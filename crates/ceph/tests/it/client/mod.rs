//! The client with a cluster that does what a test tells it to, in memory and on virtual time.

mod fake;
mod faults;
mod monitors;
mod requests;
mod waiting;
mod watch;
