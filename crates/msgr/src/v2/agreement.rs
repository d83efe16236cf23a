//! Negotiation of compression.
//!
//! Source: ceph `src/msg/async/ProtocolV2.cc`, `src/msg/compressor_registry.cc`.

use super::control::{CompressionDone, CompressionRequest};
use crate::compression::{Compression, Method};
use crate::error::Error;

impl Compression {
    pub(super) fn request(&self, secure: bool) -> CompressionRequest {
        let methods = self.methods.iter().map(|method| *method as u32).collect();
        CompressionRequest { compress: self.fits(secure), methods }
    }

    pub(super) fn answer(&self, request: &CompressionRequest, secure: bool) -> CompressionDone {
        let wanted = request.compress && self.fits(secure);
        let ours = |number: &u32| self.methods.iter().any(|method| *method as u32 == *number);
        let method = request.methods.iter().copied().filter(|_| wanted).find(ours);
        CompressionDone { compress: method.is_some(), method: method.unwrap_or_default() }
    }

    /// Returns the method that the server chose for the client, if any.
    pub(super) fn agreed(&self, done: &CompressionDone, secure: bool) -> Result<Option<Method>, Error> {
        // If the server wants compression and the client does not, the client declines, as Ceph's clients do.
        if !(done.compress && self.fits(secure)) {
            return Ok(None);
        }
        let given = Method::from_wire(done.method).filter(|method| self.methods.contains(method));
        given.map(Some).ok_or(Error::CompressionMethod(done.method))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreeing_to(methods: &[Method]) -> Compression {
        Compression { methods: methods.to_vec(), ..Compression::default() }
    }

    #[test]
    fn the_servers_first_match_in_the_clients_order_is_chosen() {
        let client = agreeing_to(&[Method::Zstd, Method::Lz4, Method::Snappy]);
        let server = agreeing_to(&[Method::Snappy, Method::Lz4]);
        let done = server.answer(&client.request(false), false);
        assert_eq!(done, CompressionDone { compress: true, method: 4 });
        assert_eq!(client.agreed(&done, false), Ok(Some(Method::Lz4)));
        let done = agreeing_to(&[Method::Zlib]).answer(&client.request(false), false);
        assert_eq!(done, CompressionDone { compress: false, method: 0 });
        assert_eq!(client.agreed(&done, false), Ok(None));
    }

    #[test]
    fn encrypted_frames_are_compressed_only_if_both_sides_agree() {
        let not = Compression::default();
        let too = Compression { secure: true, ..Compression::default() };
        assert!(!not.request(true).compress && too.request(true).compress);
        assert!(!not.answer(&too.request(true), true).compress);
        assert!(!too.answer(&not.request(true), true).compress);
        let done = too.answer(&too.request(true), true);
        assert_eq!(too.agreed(&done, true), Ok(Some(Method::Snappy)));
        // The server's answer alone does not count.
        assert_eq!(not.agreed(&done, true), Ok(None));
    }

    #[test]
    fn a_method_that_was_not_offered_is_refused() {
        let client = agreeing_to(&[Method::Snappy]);
        for method in [0, 4, 5, u32::MAX] {
            let done = CompressionDone { compress: true, method };
            assert_eq!(client.agreed(&done, false), Err(Error::CompressionMethod(method)));
        }
    }
}
