//! The users of a cluster and their rights: everybody may do everything, or the owner of a key what its capabilities say.

use crate::osd::{Rights, UserId};
use onego_buf::crc32c;
use onego_ceph::caps::{CapError, MonCap, OsdCap};
use onego_ceph::types::Utime;
use onego_msgr::Peer;
use onego_msgr::auth::{
    AuthName, Authority, Caps, Cipher, Entropy, Entry, Gate, Key, Keyring, Lifetimes, Secret, mode, service,
};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// The keyring that is written beside a `ceph.conf`.
pub const KEYRING: &str = "ceph.client.admin.keyring";

/// What cephx is made from.
#[derive(Debug, Clone)]
pub struct Cephx {
    /// The users and their keys.
    pub keyring: Keyring,
    /// Makes all other keys.
    pub entropy: Entropy,
    /// How long tickets are good.
    pub lifetimes: Lifetimes,
    /// Modes of connections that are allowed (see [`mode`]).
    pub modes: Vec<u32>,
    /// Refuse clients without a key. Otherwise keys are only kept for the commands that name them, as in Ceph.
    pub is_required: bool,
}

impl Cephx {
    /// A new key for `client.admin`, who may do everything. The seed must be used for nothing else.
    pub fn new(seed: impl Into<Entropy>) -> Self {
        let mut entropy = seed.into();
        let caps = ["mds", "mgr", "mon", "osd"].map(|service| (service.to_owned(), "allow *".to_owned()));
        let entry = Entry {
            key: Key::generate(Cipher::Aes, Utime::default(), &mut entropy),
            caps: BTreeMap::from(caps),
        };
        let keyring = Keyring { entries: BTreeMap::from([(AuthName::client("admin"), entry)]) };
        Self::with(keyring, entropy)
    }

    /// Keys that there are already. The seed must be used for nothing else.
    pub fn of(keyring: Keyring, seed: impl Into<Entropy>) -> Self {
        Self::with(keyring, seed.into())
    }

    /// Lets clients in without a key.
    pub fn unchecked(self) -> Self {
        Self { is_required: false, ..self }
    }

    fn with(keyring: Keyring, entropy: Entropy) -> Self {
        // Clients choose: each prefers something else for monitors than for OSDs.
        let modes = vec![mode::CRC, mode::SECURE];
        Self { keyring, entropy, lifetimes: Lifetimes::default(), modes, is_required: true }
    }
}

/// Knows everybody's key; all daemons share it.
pub(crate) type SharedAuthority = Arc<Mutex<Authority>>;

/// The authority of a cluster that keeps keys. `service_secret`: what the keys of its services followed from
/// before, if there was one: tickets of then are good for their time.
pub(crate) fn authority(cephx: Option<&Cephx>, service_secret: Option<&Secret>) -> Option<SharedAuthority> {
    let cephx = cephx?.clone();
    let mut authority = Authority::new(cephx.keyring, cephx.lifetimes, cephx.entropy);
    if let Some(secret) = service_secret.filter(|secret| !secret.is_empty()) {
        authority.set_service_secret(secret.clone());
    }
    Some(Arc::new(Mutex::new(authority)))
}

/// How clients get in to a daemon, which is one of [`service`].
pub(crate) fn gate(cephx: Option<&Cephx>, authority: Option<&SharedAuthority>, service: u32) -> Gate {
    let required = cephx.filter(|cephx| cephx.is_required);
    let (Some(cephx), Some(authority)) = (required, authority) else { return Gate::Open };
    Gate::Cephx { authority: Arc::clone(authority), service, modes: cephx.modes.clone() }
}

/// Returns the user whose budget pays for what a client holds.
pub(crate) fn user_of(peer: &Peer) -> UserId {
    let name = peer.auth_name.as_ref().map(ToString::to_string).unwrap_or_default();
    UserId(crc32c(u32::MAX, name.as_bytes()))
}

/// What a client may ask of the monitor, or of the manager, whose capabilities are written alike. A text that means nothing allows nothing.
pub(crate) fn mon_cap(peer: &Peer, from: IpAddr) -> MonCap {
    let Caps::Written(text) = &peer.caps else { return MonCap::everything() };
    let cap = MonCap::parse(text).inspect_err(|error| complain(peer, error));
    cap.unwrap_or_default().seen_from(from)
}

/// What a client may do with objects.
pub(crate) fn osd_rights(peer: &Peer, from: IpAddr) -> Rights {
    let Caps::Written(text) = &peer.caps else { return Rights::everything() };
    if text.is_empty() {
        return Rights::limited_to(OsdCap::default());
    }
    let cap = OsdCap::parse(text).inspect_err(|error| complain(peer, error));
    Rights::limited_to(cap.unwrap_or_default().seen_from(from))
}

fn complain(peer: &Peer, error: &CapError) {
    let name = peer.auth_name.as_ref().map(ToString::to_string).unwrap_or_default();
    tracing::warn!(name, %error, "a client may do nothing");
}

/// The service that monitors are.
pub(crate) const MONITORS: u32 = service::AUTH;
/// The service that managers are.
pub(crate) const MANAGERS: u32 = service::MGR;
/// The service that OSDs are.
pub(crate) const OSDS: u32 = service::OSD;
