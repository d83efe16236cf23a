//! What LUKS2 says in JSON.

use super::facts::{CIPHER, Digest, KeySlot, LuksHeader, STRIPES, Version, hash, key_length, slot_length};
use crate::error::Error;
use crate::kdf::Kdf;
use argon2::Algorithm;
use base64ct::{Base64, Encoding as _};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Most key slots.
const MAX_SLOTS: usize = 32;
/// The areas of key slots end before (128 MiB, and two headers of 4 MiB).
const MAX_AREA_END: u64 = 136 << 20;

#[derive(Deserialize)]
struct Metadata {
    keyslots: BTreeMap<String, Slot>,
    segments: BTreeMap<String, Segment>,
    digests: BTreeMap<String, DigestOf>,
    config: Config,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    requirements: Option<Requirements>,
}

#[derive(Deserialize)]
struct Requirements {
    #[serde(default)]
    mandatory: Vec<String>,
}

#[derive(Deserialize)]
struct Slot {
    #[serde(rename = "type")]
    kind: String,
    key_size: u64,
    #[serde(default)]
    priority: Option<u32>,
    af: Option<Stripes>,
    area: Area,
    kdf: Option<Derivation>,
}

#[derive(Deserialize)]
struct Stripes {
    #[serde(rename = "type")]
    kind: String,
    stripes: u64,
    hash: String,
}

#[derive(Deserialize)]
struct Area {
    offset: String,
    #[serde(default)]
    size: String,
    #[serde(default)]
    encryption: String,
    #[serde(default)]
    key_size: u64,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Derivation {
    Pbkdf2 { hash: String, iterations: u32, salt: String },
    Argon2i { time: u32, memory: u32, cpus: u32, salt: String },
    Argon2id { time: u32, memory: u32, cpus: u32, salt: String },
}

#[derive(Deserialize)]
struct Segment {
    #[serde(rename = "type")]
    kind: String,
    offset: String,
    size: String,
    #[serde(default)]
    iv_tweak: String,
    #[serde(default)]
    encryption: String,
    #[serde(default)]
    sector_size: u32,
    #[serde(default)]
    integrity: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct DigestOf {
    #[serde(rename = "type")]
    kind: String,
    keyslots: Vec<String>,
    segments: Vec<String>,
    hash: String,
    iterations: u32,
    salt: String,
    digest: String,
}

/// Reads the JSON of a header whose two copies have `size` bytes each.
pub(super) fn parse(text: &str, size: u64) -> Result<LuksHeader, Error> {
    let metadata: Metadata =
        serde_json::from_str(text).map_err(|_| Error::Damaged("its JSON cannot be read"))?;
    if let Some(what) = metadata.config.requirements.and_then(|it| it.mandatory.into_iter().next()) {
        return Err(Error::Unsupported(format!("{what:?}")));
    }
    let (name, segment) = match metadata.segments.iter().next() {
        Some(segment) if metadata.segments.len() == 1 => segment,
        _ => return Err(Error::Unsupported("more or less than one segment of data".into())),
    };
    let (data_offset, sector_size, first_tweak) = check_segment(segment)?;
    let of_data = metadata.digests.values().find(|digest| digest.segments.contains(name));
    let of_data = of_data.ok_or(Error::Damaged("its data has no key"))?;
    let digest = check_digest(of_data)?;
    let names = of_data.keyslots.iter().take(MAX_SLOTS);
    let mut slots: Vec<&Slot> = names.filter_map(|name| metadata.keyslots.get(name)).collect();
    // A priority of 0 is for those who ask for the slot by its number; 2 goes before 1.
    slots.retain(|slot| slot.kind == "luks2" && slot.priority != Some(0));
    slots.sort_by_key(|slot| std::cmp::Reverse(slot.priority.unwrap_or(1)));
    let length = slots.first().map_or(Ok(64), |slot| key_length(slot.key_size))?;
    let slots = slots.into_iter().map(|slot| check_slot(slot, length, 2 * size)).collect::<Result<_, _>>()?;
    let version = Version::Two;
    Ok(LuksHeader { version, data_offset, sector_size, first_tweak, key_length: length, digest, slots })
}

/// Where the data begins, bytes of its sectors, and the number of the first one.
fn check_segment(segment: &Segment) -> Result<(u64, u32, u64), Error> {
    if segment.kind != "crypt" || segment.encryption != CIPHER {
        let Segment { kind, encryption, .. } = segment;
        return Err(Error::Unsupported(format!(
            "a segment {kind:?} with the cipher {encryption:?} ({CIPHER:?} is known)"
        )));
    }
    if segment.size != "dynamic" || segment.integrity.is_some() {
        return Err(Error::Unsupported("data of a fixed size, or with checksums".into()));
    }
    let (offset, size) = (number(&segment.offset)?, segment.sector_size);
    if !size.is_power_of_two() || !(512..=4096).contains(&size) || offset % 512 != 0 {
        return Err(Error::Damaged("its sectors cannot be"));
    }
    Ok((offset, size, number(&segment.iv_tweak)?))
}

fn check_digest(digest: &DigestOf) -> Result<Digest, Error> {
    if digest.kind != "pbkdf2" {
        return Err(Error::Unsupported(format!("a digest {:?}", digest.kind)));
    }
    let (salt, bytes) = (decode(&digest.salt)?, decode(&digest.digest)?);
    if !(20..=64).contains(&bytes.len()) {
        return Err(Error::Damaged("the digest of its key cannot be"));
    }
    Ok(Digest { hash: hash(&digest.hash)?, iterations: digest.iterations, salt, digest: bytes })
}

fn check_slot(slot: &Slot, length: usize, first: u64) -> Result<KeySlot, Error> {
    if slot.key_size != length as u64 {
        return Err(Error::Damaged("its key slots have keys of several lengths"));
    }
    let (Some(stripes), Some(kdf)) = (&slot.af, &slot.kdf) else {
        return Err(Error::Damaged("a key slot lacks a part"));
    };
    if stripes.kind != "luks1" || stripes.stripes != STRIPES as u64 {
        return Err(Error::Unsupported("a key slot with other stripes than 4000 of LUKS1".into()));
    }
    if slot.area.encryption != CIPHER {
        return Err(Error::Unsupported(format!("a key slot with the cipher {:?}", slot.area.encryption)));
    }
    let (offset, size) = (number(&slot.area.offset)?, number(&slot.area.size)?);
    let used = slot_length(length);
    if offset < first || size < used as u64 || offset > MAX_AREA_END - used as u64 {
        return Err(Error::Damaged("a key slot lies outside of the header"));
    }
    Ok(KeySlot {
        kdf: derivation(kdf)?,
        hash: hash(&stripes.hash)?,
        offset,
        key_length: key_length(slot.area.key_size)?,
        length: used,
    })
}

fn derivation(kdf: &Derivation) -> Result<Kdf, Error> {
    let argon2 = |algorithm, (passes, memory, lanes): (&u32, &u32, &u32), salt: &str| {
        let salt = decode(salt)?;
        Ok(Kdf::Argon2 { algorithm, passes: *passes, memory: *memory, lanes: *lanes, salt })
    };
    match kdf {
        Derivation::Pbkdf2 { hash: name, iterations, salt } => {
            Ok(Kdf::Pbkdf2 { hash: hash(name)?, iterations: *iterations, salt: decode(salt)? })
        }
        Derivation::Argon2i { time, memory, cpus, salt } => {
            argon2(Algorithm::Argon2i, (time, memory, cpus), salt)
        }
        Derivation::Argon2id { time, memory, cpus, salt } => {
            argon2(Algorithm::Argon2id, (time, memory, cpus), salt)
        }
    }
}

/// Large numbers are text in the JSON.
fn number(text: &str) -> Result<u64, Error> {
    text.parse().map_err(|_| Error::Damaged("a number in its JSON cannot be read"))
}

fn decode(text: &str) -> Result<Vec<u8>, Error> {
    Base64::decode_vec(text).map_err(|_| Error::Damaged("bytes in its JSON cannot be read"))
}
