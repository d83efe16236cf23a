//! Compression of frames and its configuration.
//!
//! Source: ceph `src/msg/async/ProtocolV2.cc`, `src/msg/compressor_registry.cc`, `src/compressor/Compressor.h`.
//!
//! Compression is for connections to OSDs. A client that wants it lists methods in order of preference; the server
//! chooses the first that it supports. Ceph's OSDs agree only with peers that are OSDs themselves; ours agree with
//! every peer.

pub(crate) mod codec;
mod method;

pub use method::Method;

/// Compression settings of a side (`ms_osd_compress_mode = force`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compression {
    /// Methods in order of preference (`ms_osd_compression_algorithm`).
    pub methods: Vec<Method>,
    /// Minimum size of a frame's segments for compression, in bytes (`ms_osd_compress_min_size`).
    pub min_size: u32,
    /// Whether to compress encrypted frames, too (`ms_compress_secure`): their length then reveals something about
    /// their content.
    pub secure: bool,
}

impl Default for Compression {
    /// Returns Ceph's defaults.
    fn default() -> Self {
        Self { methods: vec![Method::Snappy], min_size: 1 << 10, secure: false }
    }
}

/// Names of the compression settings in `ceph.conf`.
pub const SETTINGS: [&str; 4] = [
    "ms_osd_compress_mode",
    "ms_osd_compress_min_size",
    "ms_osd_compression_algorithm",
    "ms_compress_secure",
];

impl Compression {
    /// Reads the settings in [`SETTINGS`]. Returns `None` if compression is off. Unknown methods are ignored, as in
    /// Ceph.
    ///
    /// # Errors
    /// Returns a message that names the invalid setting.
    pub fn configured(setting: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let [mode, min_size, algorithm, secure] = SETTINGS;
        match setting(mode).as_deref() {
            None | Some("none") => return Ok(None),
            Some("force") => {}
            Some(other) => return Err(format!("{mode} = {other}: expected none or force")),
        }
        let mut configured = Self::default();
        if let Some(text) = setting(min_size) {
            configured.min_size =
                size(&text).ok_or_else(|| format!("{min_size} = {text}: expected a number of bytes"))?;
        }
        if let Some(text) = setting(secure) {
            configured.secure = match &*text.to_ascii_lowercase() {
                "true" | "1" => true,
                "false" | "0" => false,
                _ => return Err(format!("{secure} = {text}: expected true or false")),
            };
        }
        if let Some(text) = setting(algorithm) {
            let words = text.split([';', ',', '=', ' ', '\t']).filter(|word| !word.is_empty());
            let known = words.filter_map(|word| {
                let method = word.parse::<Method>();
                method.inspect_err(|error| tracing::warn!(%error, setting = algorithm, "ignored")).ok()
            });
            configured.methods = known.collect();
            if configured.methods.is_empty() {
                tracing::warn!(
                    setting = algorithm,
                    value = text,
                    "compression is off: no configured method is known"
                );
                return Ok(None);
            }
        }
        Ok(Some(configured))
    }

    /// Returns the settings that [`configured`](Self::configured) reads.
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

    /// Returns whether a connection is compressed that is encrypted, or not.
    pub(crate) fn fits(&self, secure: bool) -> bool {
        self.secure || !secure
    }
}

/// Parses a number of bytes in the syntax of Ceph's options: 1024, 1K, 1Ki, 1_K.
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

    fn configured(settings: &[(&str, &str)]) -> Result<Option<Compression>, String> {
        let setting =
            |name: &str| settings.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Compression::configured(setting)
    }

    #[test]
    fn settings_are_parsed_like_ceph_does() {
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
    fn errors_name_the_invalid_setting() {
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
}
