//! The client with a scripted cluster, in memory and on virtual time.

mod fake;
mod faults;
mod monitors;
mod requests;
mod waiting;
mod watch;
