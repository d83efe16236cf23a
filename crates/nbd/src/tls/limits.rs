/// Most bytes that a peer may send until TLS is established: a few chains of certificates.
pub const TLS_HANDSHAKE_MAX: usize = 64 << 10;
