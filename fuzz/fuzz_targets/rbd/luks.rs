//! Headers of encrypted images: whatever they say, they are read or refused, and a passphrase costs no more than it may.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_cipher::hash::Hash;
use onego_luks::{Budget, Error, LuksHeader, is_luks};

/// Bytes of a header of LUKS2, with its JSON.
const LENGTH: usize = 16 << 10;

/// A header of LUKS2 whose JSON is this, with the right checksum.
fn luks2(json: &[u8]) -> Vec<u8> {
    let mut header = vec![0; LENGTH];
    header[..8].copy_from_slice(b"LUKS\xba\xbe\0\x02");
    header[8..16].copy_from_slice(&(LENGTH as u64).to_be_bytes());
    header[72..78].copy_from_slice(b"sha256");
    let json = &json[..json.len().min(LENGTH - 4096 - 1)];
    header[4096..4096 + json.len()].copy_from_slice(json);
    let checksum = Hash::Sha256.digest(&header);
    header[448..480].copy_from_slice(&checksum[..32]);
    header
}

fn read(bytes: &[u8]) {
    match LuksHeader::parse(bytes) {
        Ok(header) => {
            assert!(header.sector_size().is_power_of_two() && header.sector_size() <= 4096);
            assert!(header.slots().len() <= 32);
            let mut budget = Budget::new(100, 64);
            for slot in header.slots() {
                let area = slot.area();
                assert!(area.end - area.start <= 1 << 20);
                let zeros = vec![0; (area.end - area.start) as usize];
                if let Ok(Some(key)) = header.unlock(slot, &zeros, b"open sesame", &mut budget) {
                    let _ = header.sectors(&key);
                }
            }
        }
        Err(Error::CutOff { needed }) => {
            assert!(needed > bytes.len() as u64 && needed <= 8 << 20, "{needed} of {}", bytes.len());
        }
        Err(error) => assert!(!error.to_string().is_empty() && (is_luks(bytes) || error == Error::Missing)),
    }
}

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    read(&luks2(bytes));
});
