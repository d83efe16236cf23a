//! Integration tests of `onego-export`.

mod attach;
mod bounds;
mod client;
mod client_tls;
mod giving_way;
mod half_closed;
mod handshake;
mod model;
mod simulation;
mod support;
mod tls;
mod transmission;
mod ublk;
mod vhost_user;
