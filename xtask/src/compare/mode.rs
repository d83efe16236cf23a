//! How the connections that are measured are protected.

/// The kernel client's modes (`ms_mode`) that make a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
    /// Version 2.1 of the messenger's protocol, with checksums
    Crc,
    /// Version 2.1, encrypted; the clusters ask for keys
    Secure,
    /// Version 1, with checksums
    Legacy,
    /// Version 1, without checksums of payloads
    LegacyNocrc,
}

impl Mode {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Crc, Self::Secure, Self::Legacy, Self::LegacyNocrc];

    /// The options of the `onego` program. The default is not spelled out, so that programs from before there was a
    /// choice can be measured too.
    pub(crate) fn options(self) -> &'static str {
        match self {
            Self::Crc => "",
            Self::Secure => "--ms-mode secure",
            Self::Legacy => "--messenger v1",
            Self::LegacyNocrc => "--messenger v1 --no-data-crc",
        }
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Crc => "crc",
            Self::Secure => "secure",
            Self::Legacy => "legacy",
            Self::LegacyNocrc => "legacy,nocrc",
        })
    }
}
