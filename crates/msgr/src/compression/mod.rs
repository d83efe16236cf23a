//! Compression of frames: what a side agrees to, and what the two sides agree on.
//!
//! Source: ceph `src/msg/async/ProtocolV2.cc`, `src/msg/compressor_registry.cc`, `src/compressor/Compressor.h`.
//!
//! It is for connections to OSDs. A client that wants it says so and names methods, the one that it prefers first; the
//! server takes the first that it has, too. Ceph's OSDs agree only with peers that are OSDs themselves; ours agree with
//! everybody.

pub(crate) mod codec;
mod method;

pub use method::Method;

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

    /// Does it compress on a connection that is encrypted, or not?
    pub(crate) fn fits(&self, secure: bool) -> bool {
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
}
