//! Compression of frames: what a side agrees to, and what the two sides agree on.
//!
//! Source: ceph `src/msg/async/ProtocolV2.cc`, `src/msg/compressor_registry.cc`, `src/compressor/Compressor.h`.
//!
//! It is for connections to OSDs. A client that wants it says so and names methods, the one that it prefers first; the
//! server takes the first that it has, too. Ceph's OSDs agree only with peers that are OSDs themselves; ours agree with
//! everybody.

use super::control::{CompressionDone, CompressionRequest};
use super::error::Error;
use std::fmt;
use std::str::FromStr;

/// How the segments of a frame are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Method {
    /// The fastest.
    Snappy = 1,
    /// Deflate.
    Zlib = 2,
    /// The smallest of those that are fast.
    Zstd = 3,
    /// Fast, too.
    Lz4 = 4,
}

impl Method {
    const ALL: [Self; 4] = [Self::Snappy, Self::Zlib, Self::Zstd, Self::Lz4];

    fn from_wire(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|method| *method as u32 == number)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Snappy => "snappy",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|method| method.name() == name);
        found.ok_or_else(|| {
            format!("{name:?} is no method of compression that is known here: snappy, zlib, zstd, lz4")
        })
    }
}

/// What a side that compresses agrees to (`ms_osd_compress_mode = force`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compression {
    /// The methods, the one that is preferred first (`ms_osd_compression_algorithm`).
    pub methods: Vec<Method>,
    /// Bytes of a frame's segments from which on it is sent compressed (`ms_osd_compress_min_size`).
    pub min_size: u32,
    /// Compress what is encrypted, too (`ms_compress_secure`): its length then tells something of what it says.
    pub secure: bool,
}

impl Default for Compression {
    /// What Ceph takes where nothing is said.
    fn default() -> Self {
        Self { methods: vec![Method::Snappy], min_size: 1 << 10, secure: false }
    }
}

/// The settings of compression, as `ceph.conf` names them.
pub const SETTINGS: [&str; 4] = [
    "ms_osd_compress_mode",
    "ms_osd_compress_min_size",
    "ms_osd_compression_algorithm",
    "ms_compress_secure",
];

impl Compression {
    /// What is configured by [`SETTINGS`]; none: nothing is compressed. Methods that are not known are left out, as Ceph
    /// leaves them out. An error says what is wrong with which.
    pub fn configured(setting: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let [mode, min_size, algorithm, secure] = SETTINGS;
        match setting(mode).as_deref() {
            None | Some("none") => return Ok(None),
            Some("force") => {}
            Some(other) => return Err(format!("{mode} = {other}: it is none or force")),
        }
        let mut configured = Self::default();
        if let Some(text) = setting(min_size) {
            configured.min_size =
                size(&text).ok_or_else(|| format!("{min_size} = {text}: it is no number of bytes"))?;
        }
        if let Some(text) = setting(secure) {
            configured.secure = match &*text.to_ascii_lowercase() {
                "true" | "1" => true,
                "false" | "0" => false,
                _ => return Err(format!("{secure} = {text}: it is true or false")),
            };
        }
        if let Some(text) = setting(algorithm) {
            let words = text.split([';', ',', '=', ' ', '\t']).filter(|word| !word.is_empty());
            let known = words.filter_map(|word| {
                let method = word.parse::<Method>();
                method.inspect_err(|error| tracing::warn!(%error, setting = algorithm, "left out")).ok()
            });
            configured.methods = known.collect();
            if configured.methods.is_empty() {
                tracing::warn!(
                    setting = algorithm,
                    value = text,
                    "nothing is compressed: no method is known"
                );
                return Ok(None);
            }
        }
        Ok(Some(configured))
    }

    /// What [`configured`](Self::configured) reads it from.
    pub fn settings(&self) -> [(&'static str, String); 4] {
        let [mode, min_size, algorithm, secure] = SETTINGS;
        let methods: Vec<_> = self.methods.iter().map(|method| method.name()).collect();
        [
            (mode, "force".to_owned()),
            (min_size, self.min_size.to_string()),
            (algorithm, methods.join(" ")),
            (secure, self.secure.to_string()),
        ]
    }

    /// What a client asks for.
    pub(super) fn request(&self, secure: bool) -> CompressionRequest {
        let methods = self.methods.iter().map(|method| *method as u32).collect();
        CompressionRequest { compress: self.fits(secure), methods }
    }

    /// What a server answers to that.
    pub(super) fn answer(&self, request: &CompressionRequest, secure: bool) -> CompressionDone {
        let wanted = request.compress && self.fits(secure);
        let ours = |number: &u32| self.methods.iter().any(|method| *method as u32 == *number);
        let method = request.methods.iter().copied().filter(|_| wanted).find(ours);
        CompressionDone { compress: method.is_some(), method: method.unwrap_or_default() }
    }

    /// The method that a client was given, if any.
    pub(super) fn agreed(&self, done: &CompressionDone, secure: bool) -> Result<Option<Method>, Error> {
        // A server that wants what the client does not want is not followed, as Ceph's clients do not.
        if !(done.compress && self.fits(secure)) {
            return Ok(None);
        }
        let given = Method::from_wire(done.method).filter(|method| self.methods.contains(method));
        given.map(Some).ok_or(Error::CompressionMethod(done.method))
    }

    fn fits(&self, secure: bool) -> bool {
        self.secure || !secure
    }
}

/// Reads a number of bytes as Ceph's options have it: 1024, 1K, 1Ki, 1_K.
fn size(text: &str) -> Option<u32> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let shift = match unit.trim_start_matches('_') {
        "" | "B" => 0,
        "K" | "Ki" | "KiB" => 10,
        "M" | "Mi" | "MiB" => 20,
        "G" | "Gi" | "GiB" => 30,
        _ => return None,
    };
    u32::try_from(number.parse::<u64>().ok()?.checked_mul(1 << shift)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreeing_to(methods: &[Method]) -> Compression {
        Compression { methods: methods.to_vec(), ..Compression::default() }
    }

    #[test]
    fn the_first_of_the_clients_methods_that_the_server_has_is_taken() {
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
    fn what_is_encrypted_is_compressed_only_if_both_sides_agree_to_that() {
        let not = Compression::default();
        let too = Compression { secure: true, ..Compression::default() };
        assert!(!not.request(true).compress && too.request(true).compress);
        assert!(!not.answer(&too.request(true), true).compress);
        assert!(!too.answer(&not.request(true), true).compress);
        let done = too.answer(&too.request(true), true);
        assert_eq!(too.agreed(&done, true), Ok(Some(Method::Snappy)));
        // The server's word alone does not count.
        assert_eq!(not.agreed(&done, true), Ok(None));
    }

    #[test]
    fn a_method_that_was_not_asked_for_is_refused() {
        let client = agreeing_to(&[Method::Snappy]);
        for method in [0, 4, 5, u32::MAX] {
            let done = CompressionDone { compress: true, method };
            assert_eq!(client.agreed(&done, false), Err(Error::CompressionMethod(method)));
        }
    }

    fn configured(settings: &[(&str, &str)]) -> Result<Option<Compression>, String> {
        let setting =
            |name: &str| settings.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Compression::configured(setting)
    }

    #[test]
    fn settings_are_read_as_ceph_has_them() {
        let force = ("ms_osd_compress_mode", "force");
        assert_eq!(configured(&[]), Ok(None));
        assert_eq!(configured(&[("ms_osd_compress_mode", "none"), ("ms_compress_secure", "?")]), Ok(None));
        assert_eq!(configured(&[force]), Ok(Some(Compression::default())));
        let all = [
            force,
            ("ms_osd_compress_min_size", "4_K"),
            ("ms_osd_compression_algorithm", "zstd;brotli, lz4"),
            ("ms_compress_secure", "True"),
        ];
        let expected = Compression { methods: vec![Method::Zstd, Method::Lz4], min_size: 4096, secure: true };
        assert_eq!(configured(&all), Ok(Some(expected.clone())));
        let written = expected.settings();
        let written: Vec<_> = written.iter().map(|(name, value)| (*name, &**value)).collect();
        assert_eq!(configured(&written), Ok(Some(expected)));
        assert_eq!(configured(&[force, ("ms_osd_compression_algorithm", "brotli")]), Ok(None));
    }

    #[test]
    fn settings_that_mean_nothing_are_named() {
        for (name, value) in [
            ("ms_osd_compress_mode", "fast"),
            ("ms_osd_compress_min_size", "1T"),
            ("ms_compress_secure", "2"),
        ] {
            let mode = ("ms_osd_compress_mode", "force");
            let error = configured(&[(name, value), mode]).unwrap_err();
            assert!(error.starts_with(&format!("{name} = {value}: ")), "{error}");
        }
    }

    #[test]
    fn methods_are_known_by_their_names() {
        for method in Method::ALL {
            assert_eq!(method.to_string().parse(), Ok(method));
        }
        assert!("brotli".parse::<Method>().unwrap_err().contains("snappy, zlib, zstd, lz4"));
    }
}
