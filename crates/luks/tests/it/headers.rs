//! Headers that were made here are read here; those that were damaged are not.

use onego_luks::{Budget, Costs, Error, Format, Formatted, KeySize, LuksHeader, Version, VolumeKey, hide};

const CHEAP: Costs = Costs { iterations: 1000, memory: 64, passes: 1 };

fn formatted(version: Version, key_size: KeySize, passphrase: &[u8]) -> Formatted {
    let mut seed = 1u64;
    let mut random = |bytes: &mut [u8]| {
        for byte in bytes {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            *byte = (seed >> 56) as u8;
        }
    };
    let format = Format { version, key_size, alignment: 4 << 20, costs: CHEAP };
    format.make(passphrase, &mut random).unwrap()
}

/// Opens a disk that begins with these bytes.
fn open(disk: &[u8], passphrase: &[u8]) -> Result<(LuksHeader, VolumeKey), Error> {
    let header = LuksHeader::parse(disk)?;
    let mut budget = Budget::default();
    for slot in header.slots() {
        let area = slot.area();
        let area = &disk[area.start as usize..area.end as usize];
        if let Some(key) = header.unlock(slot, area, passphrase, &mut budget)? {
            return Ok((header, key));
        }
    }
    Err(Error::WrongPassphrase)
}

#[test]
fn a_header_opens_with_its_passphrase_alone() {
    for version in [Version::One, Version::Two] {
        for key_size in [KeySize::Aes128, KeySize::Aes256] {
            let made = formatted(version, key_size, b"open sesame");
            let (header, key) = open(&made.bytes, b"open sesame").unwrap();
            assert_eq!((&header, &key), (&made.header, &made.key));
            assert_eq!(header.version(), version);
            assert_eq!(open(&made.bytes, b"open sesam"), Err(Error::WrongPassphrase));
        }
    }
}

#[test]
fn the_data_begins_where_other_programs_have_it() {
    let offset = |version, alignment| {
        Format { version, key_size: KeySize::Aes256, alignment, costs: CHEAP }.data_offset()
    };
    assert_eq!(offset(Version::One, 4096), 4096 + 8 * 258_048);
    assert_eq!(offset(Version::One, 4 << 20), 4 << 20);
    assert_eq!(offset(Version::Two, 4 << 20), 16 << 20);
    assert_eq!(offset(Version::Two, 32 << 20), 32 << 20);
}

#[test]
fn the_header_of_a_clone_hides_from_other_programs_and_opens_here() {
    for version in [Version::One, Version::Two] {
        let made = formatted(version, KeySize::Aes256, b"open sesame");
        let mut bytes = made.bytes.clone();
        hide(&mut bytes);
        assert!(!bytes.starts_with(b"LUKS"));
        assert_eq!(open(&bytes, b"open sesame").unwrap().1, made.key);
    }
}

#[test]
fn the_second_header_opens_where_the_first_is_damaged() {
    let made = formatted(Version::Two, KeySize::Aes256, b"open sesame");
    let mut bytes = made.bytes.clone();
    bytes[5000] ^= 1;
    assert_eq!(open(&bytes, b"open sesame").unwrap().1, made.key);
    bytes[(16 << 10) + 5000] ^= 1;
    assert!(matches!(open(&bytes, b"open sesame"), Err(Error::CutOff { .. })), "it may be further back");
    bytes.resize(8 << 20, 0);
    assert_eq!(open(&bytes, b"open sesame"), Err(Error::Damaged("its checksum is wrong")));
}

#[test]
fn a_key_slot_that_is_cut_off_says_how_much_is_needed() {
    for version in [Version::One, Version::Two] {
        let made = formatted(version, KeySize::Aes256, b"open sesame");
        let slot = &made.header.slots()[0];
        let area = slot.area();
        let short = &made.bytes[area.start as usize..area.end as usize - 1];
        let unlocked = made.header.unlock(slot, short, b"open sesame", &mut Budget::default());
        assert_eq!(unlocked, Err(Error::CutOff { needed: area.end }));
    }
}

#[test]
fn what_is_cut_off_says_how_much_is_needed() {
    for version in [Version::One, Version::Two] {
        let made = formatted(version, KeySize::Aes256, b"open sesame");
        let mut length = 6;
        loop {
            match LuksHeader::parse(&made.bytes[..length]) {
                Err(Error::CutOff { needed }) => {
                    assert!(needed > length as u64);
                    length = needed as usize;
                }
                other => break assert_eq!(other.as_ref(), Ok(&made.header)),
            }
        }
    }
    assert_eq!(LuksHeader::parse(&[0; 4096]), Err(Error::Missing));
    assert_eq!(LuksHeader::parse(b""), Err(Error::Missing));
}
