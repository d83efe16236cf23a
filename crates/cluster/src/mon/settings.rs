//! What the monitor keeps beside its maps.

use onego_msgr::auth::{Keyring, Secret};
use onego_msgr::encoding::{Decode, Encode};
use onego_wire::{DecodeError, Decoded, Reader, Writer};
use std::collections::BTreeMap;
use zeroize::Zeroizing;

/// Settings by section and name.
pub(crate) type Config = BTreeMap<String, BTreeMap<String, String>>;

/// What the monitor keeps beside its maps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct MonSettings {
    pub(crate) config: Config,
    /// What programs keep with the monitor, by their own keys.
    pub(crate) config_keys: BTreeMap<String, Vec<u8>>,
    /// The keys of all clients, which may be none. `None`: clients need no key.
    pub(crate) keyring: Option<Keyring>,
    /// What the keys of the services follow from; empty: they have none.
    pub(crate) service_secret: Secret,
    /// Keys that are kept although clients need none. `None`: there are none yet.
    pub(crate) unchecked: Option<Keyring>,
}

impl Encode for MonSettings {
    fn encode(&self, w: &mut Writer) {
        self.config.encode(w);
        w.count(self.config_keys.len());
        for (key, value) in &self.config_keys {
            w.string(key);
            w.blob(value);
        }
        w.bool(self.keyring.is_some());
        if let Some(keyring) = &self.keyring {
            w.string(&keyring.to_text());
        }
        w.blob(self.service_secret.expose());
        // The last field: directories from before have none.
        if let Some(keyring) = &self.unchecked {
            w.string(&keyring.to_text());
        }
    }
}

impl Decode for MonSettings {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let config = Decode::decode(r)?;
        let count = r.count(8, "keys of programs")?;
        let config_keys = (0..count).map(|_| Ok((r.string("key")?, r.blob("value of a key")?.to_vec())));
        let config_keys = config_keys.collect::<Decoded<_>>()?;
        let keyring = |r: &mut Reader<'_>| {
            let text = Zeroizing::new(r.string("keyring")?);
            // Nothing of it is shown.
            Keyring::parse(&text).map_err(|_| DecodeError::Invalid { what: "keyring", value: 0 })
        };
        let checked = if r.bool("keys are needed")? { Some(keyring(r)?) } else { None };
        let service_secret = Secret::new(r.blob("secret of the services")?.to_vec());
        let unchecked = if r.is_empty() { None } else { Some(keyring(r)?) };
        Ok(Self { config, config_keys, keyring: checked, service_secret, unchecked })
    }
}
