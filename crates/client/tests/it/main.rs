//! Integration tests of `onego`.

mod block;
mod examples;
mod images;
mod metrics;
mod on_servers_of_this_process;
mod send;
mod shutdown;
