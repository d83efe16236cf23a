/// Maximum bytes that a peer may send during the TLS handshake: fits several certificate chains.
pub const TLS_HANDSHAKE_MAX: usize = 64 << 10;
