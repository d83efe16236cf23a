//! New headers.

use crate::error::Error;
use crate::header::{self, CIPHER, LuksHeader, STRIPES, Version, slot_length};
use crate::kdf::{Budget, Kdf};
use crate::key::VolumeKey;
use crate::stripes::split;
use argon2::Algorithm;
use base64ct::{Base64, Encoding as _};
use onego_cipher::hash::Hash;
use onego_cipher::xts::Xts;
use serde_json::json;

/// Key slots begin at multiples of these bytes.
const PAGE: usize = 4096;
/// Bytes of a header of LUKS2 with its JSON; there are two.
const LUKS2_HEADER: usize = header::LUKS2_SMALLEST as usize;
/// Bytes before the data, in LUKS2, as cryptsetup has them.
const LUKS2_DATA: u64 = 16 << 20;
/// Bytes of a salt.
const SALT: usize = 32;
/// Iterations over the key of the data, which has all of its entropy already.
const DIGEST_ITERATIONS: u32 = 100_000;

/// Bytes of the key of AES, of which XTS needs two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySize {
    /// AES-128.
    Aes128,
    /// AES-256.
    Aes256,
}

impl KeySize {
    fn bytes(self) -> usize {
        match self {
            Self::Aes128 => 32,
            Self::Aes256 => 64,
        }
    }
}

/// What a try of a passphrase costs.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    /// Iterations of PBKDF2, for LUKS1.
    pub iterations: u32,
    /// KiB of memory of Argon2id, for LUKS2.
    pub memory: u32,
    /// How many times Argon2id goes over its memory.
    pub passes: u32,
}

impl Costs {
    /// About a second of one processor: more than the second recommendation of RFC 9106, section 4, and than what OWASP asks of
    /// PBKDF2 with SHA-256.
    pub const USUAL: Self = Self { iterations: 1_000_000, memory: 256 << 10, passes: 4 };
}

/// What a new header says.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// Which of the two formats.
    pub version: Version,
    /// Of the data's cipher.
    pub key_size: KeySize,
    /// The data begins at a multiple of these bytes, themselves a multiple of 4096.
    pub alignment: u64,
    /// What a try of the passphrase costs.
    pub costs: Costs,
}

/// A new header.
#[derive(Debug)]
pub struct Formatted {
    /// What it says.
    pub header: LuksHeader,
    /// The key of the data.
    pub key: VolumeKey,
    /// The bytes that go to the start of the disk: up to three hundred thousand.
    pub bytes: Vec<u8>,
}

impl Format {
    /// First byte of the data.
    pub fn data_offset(&self) -> u64 {
        let least = match self.version {
            Version::One => {
                let slots = header::LUKS1_SLOTS * self.slot_size();
                (PAGE + slots) as u64
            }
            Version::Two => LUKS2_DATA,
        };
        least.next_multiple_of(self.alignment)
    }

    /// Bytes of a key slot.
    fn slot_size(&self) -> usize {
        slot_length(self.key_size.bytes()).next_multiple_of(PAGE)
    }

    /// Makes a header with one key slot. It takes a second of CPU. `random` fills bytes.
    pub fn make(&self, passphrase: &[u8], random: &mut dyn FnMut(&mut [u8])) -> Result<Formatted, Error> {
        let mut key = vec![0; self.key_size.bytes()];
        random(&mut key);
        let key = VolumeKey::new(key);
        let bytes = match self.version {
            Version::One => self.luks1(&key, passphrase, random)?,
            Version::Two => self.luks2(&key, passphrase, random)?,
        };
        Ok(Formatted { header: LuksHeader::parse(&bytes)?, key, bytes })
    }

    /// The bytes of a key slot.
    fn slot(
        &self,
        kdf: &Kdf,
        key: &VolumeKey,
        passphrase: &[u8],
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<Vec<u8>, Error> {
        let bytes = key.as_bytes();
        let slot_key = kdf.derive(passphrase, bytes.len(), &mut Budget::default())?;
        let mut spread = split(Hash::Sha256, bytes, STRIPES, random);
        spread.resize(slot_length(bytes.len()), 0);
        let mut xts = Xts::new(&slot_key)?;
        spread.chunks_exact_mut(512).zip(0..).for_each(|(sector, number)| xts.encrypt(number, sector));
        spread.resize(self.slot_size(), 0);
        Ok(spread)
    }

    fn luks1(
        &self,
        key: &VolumeKey,
        passphrase: &[u8],
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<Vec<u8>, Error> {
        let (digest_salt, salt): ([u8; SALT], [u8; SALT]) = (bytes(random), bytes(random));
        let iterations = self.costs.iterations;
        let mut digest = [0; 20];
        Hash::Sha256.pbkdf2(key.as_bytes(), &digest_salt, DIGEST_ITERATIONS, &mut digest);
        let sectors = |bytes: u64| ((bytes / 512) as u32).to_be_bytes();
        let mut header = b"LUKS\xba\xbe\0\x01".to_vec();
        for (text, length) in [("aes", 32), ("xts-plain64", 32), ("sha256", 32)] {
            push_text(&mut header, text, length);
        }
        header.extend(sectors(self.data_offset()));
        header.extend((key.as_bytes().len() as u32).to_be_bytes());
        header.extend(digest);
        header.extend(digest_salt);
        header.extend(DIGEST_ITERATIONS.to_be_bytes());
        push_text(&mut header, &uuid(random), 40);
        for index in 0..header::LUKS1_SLOTS {
            let is_used = index == 0;
            let state = if is_used { header::ACTIVE } else { header::INACTIVE };
            header.extend(state.to_be_bytes());
            header.extend(if is_used { iterations } else { 0 }.to_be_bytes());
            header.extend(if is_used { salt } else { [0; SALT] });
            header.extend(sectors((PAGE + index * self.slot_size()) as u64));
            header.extend((STRIPES as u32).to_be_bytes());
        }
        header.resize(PAGE, 0);
        let kdf = Kdf::Pbkdf2 { hash: Hash::Sha256, iterations, salt: salt.to_vec() };
        header.extend(self.slot(&kdf, key, passphrase, random)?);
        Ok(header)
    }

    fn luks2(
        &self,
        key: &VolumeKey,
        passphrase: &[u8],
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<Vec<u8>, Error> {
        let (digest_salt, salt): ([u8; SALT], [u8; SALT]) = (bytes(random), bytes(random));
        let Costs { memory, passes, .. } = self.costs;
        let mut digest = [0; 32];
        Hash::Sha256.pbkdf2(key.as_bytes(), &digest_salt, DIGEST_ITERATIONS, &mut digest);
        let key_size = key.as_bytes().len();
        let json = json!({
            "keyslots": {"0": {
                "type": "luks2",
                "key_size": key_size,
                "af": {"type": "luks1", "stripes": STRIPES, "hash": "sha256"},
                "area": {
                    "type": "raw",
                    "offset": (2 * LUKS2_HEADER).to_string(),
                    "size": self.slot_size().to_string(),
                    "encryption": CIPHER,
                    "key_size": key_size,
                },
                "kdf": {
                    "type": "argon2id",
                    "time": passes,
                    "memory": memory,
                    "cpus": LANES,
                    "salt": Base64::encode_string(&salt),
                },
            }},
            "tokens": {},
            "segments": {"0": {
                "type": "crypt",
                "offset": self.data_offset().to_string(),
                "size": "dynamic",
                "iv_tweak": "0",
                "encryption": CIPHER,
                "sector_size": 4096,
            }},
            "digests": {"0": {
                "type": "pbkdf2",
                "keyslots": ["0"],
                "segments": ["0"],
                "hash": "sha256",
                "iterations": DIGEST_ITERATIONS,
                "salt": Base64::encode_string(&digest_salt),
                "digest": Base64::encode_string(&digest),
            }},
            "config": {
                "json_size": (LUKS2_HEADER - header::LUKS2_BINARY).to_string(),
                "keyslots_size": (LUKS2_DATA - 2 * LUKS2_HEADER as u64).to_string(),
            },
        });
        let (json, uuid) = (json.to_string(), uuid(random));
        let mut headers = Vec::new();
        for (magic, place) in [(header::MAGIC, 0), (header::SECOND_MAGIC, LUKS2_HEADER as u64)] {
            let mut header = luks2_header(magic, place, &uuid, &bytes::<64>(random), &json);
            header::checksum(Hash::Sha256, &mut header);
            headers.extend(header);
        }
        let salt = salt.to_vec();
        let kdf = Kdf::Argon2 { algorithm: Algorithm::Argon2id, passes, memory, lanes: LANES, salt };
        headers.extend(self.slot(&kdf, key, passphrase, random)?);
        Ok(headers)
    }
}

/// Lanes of Argon2id: those that use the most processors.
const LANES: u32 = 4;

/// One of the two headers of LUKS2, without its checksum.
fn luks2_header(magic: [u8; 6], place: u64, uuid: &str, salt: &[u8; 64], json: &str) -> Vec<u8> {
    let mut header = magic.to_vec();
    header.extend([0, 2]);
    header.extend((LUKS2_HEADER as u64).to_be_bytes());
    // Number of the change.
    header.extend(1u64.to_be_bytes());
    push_text(&mut header, "", 48);
    push_text(&mut header, "sha256", 32);
    header.extend(salt);
    push_text(&mut header, uuid, 40);
    push_text(&mut header, "", 48);
    header.extend(place.to_be_bytes());
    header.resize(header::LUKS2_BINARY, 0);
    push_text(&mut header, json, LUKS2_HEADER - header::LUKS2_BINARY);
    header
}

fn push_text(header: &mut Vec<u8>, text: &str, length: usize) {
    let end = header.len() + length;
    header.extend(text.as_bytes());
    header.resize(end, 0);
}

fn bytes<const N: usize>(random: &mut dyn FnMut(&mut [u8])) -> [u8; N] {
    let mut bytes = [0; N];
    random(&mut bytes);
    bytes
}

/// A random UUID (RFC 9562, 5.4).
fn uuid(random: &mut dyn FnMut(&mut [u8])) -> String {
    let mut bytes: [u8; 16] = bytes(random);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let number = u128::from_be_bytes(bytes);
    let digits = format!("{number:032x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}
