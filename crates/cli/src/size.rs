//! Numbers of bytes as people write and read them.

/// Units by their letter, as Ceph and fio have them: powers of 1024.
const UNITS: [(char, u32); 7] = [('B', 0), ('K', 10), ('M', 20), ('G', 30), ('T', 40), ('P', 50), ('E', 60)];

/// Reads `4096`, `4k`, `10G`, `1.5T` is not one of them. A number alone is in bytes.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    parse(text, 0)
}

/// The same, but for none at all.
pub(crate) fn some_bytes(text: &str) -> Result<u64, String> {
    match bytes(text)? {
        0 => Err("there is no room for anything in 0 bytes".to_owned()),
        size => Ok(size),
    }
}

/// Reads the size of an image: a number alone is in MiB, as `rbd` has it.
pub(crate) fn image(text: &str) -> Result<u64, String> {
    parse(text, 20)
}

/// Reads the size of a block of I/O: at least a sector.
pub(crate) fn block(text: &str) -> Result<u64, String> {
    match bytes(text)? {
        size if size < 512 => Err(format!("{text:?} is less than a sector of 512 bytes")),
        size if size > onego::rbd::MAX_IO => Err(format!("{text:?} is more than a request may have, 64M")),
        size => Ok(size),
    }
}

fn parse(text: &str, default_shift: u32) -> Result<u64, String> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let mut letters = unit.chars();
    let shift = match letters.next() {
        None => Some(default_shift),
        Some(letter) => {
            let shift =
                UNITS.iter().find(|(unit, _)| unit.eq_ignore_ascii_case(&letter)).map(|(_, shift)| *shift);
            // "KiB" and "Ki" say the same as "K".
            shift.filter(|shift| matches!((letters.as_str(), shift), ("", _) | ("i" | "iB" | "ib", 1..)))
        }
    };
    let size = shift.zip(number.parse::<u64>().ok());
    let Some((shift, number)) = size else {
        return Err(format!(
            "{text:?} is no size: write a whole number, with B, K, M, G, T, P or E behind it if you like"
        ));
    };
    number.checked_mul(1 << shift).ok_or_else(|| format!("{text:?} is more than any size can be"))
}

/// A size as `rbd` prints it: `10 GiB`, `1.5 MiB`, `17 B`.
pub(crate) fn human(bytes: u64) -> String {
    let (letter, shift) = UNITS.into_iter().rev().find(|(_, shift)| bytes >> shift > 0).unwrap_or(UNITS[0]);
    let unit = if shift == 0 { "B".to_owned() } else { format!("{letter}iB") };
    if bytes & ((1 << shift) - 1) == 0 {
        return format!("{} {unit}", bytes >> shift);
    }
    // As many digits as fit into seven places, but for those before the point.
    let value = bytes as f64 / (1_u64 << shift) as f64;
    let mut texts = [2, 1, 0].map(|digits| format!("{value:.digits$} {unit}")).into_iter();
    let fits = texts.find(|text| text.len() <= 7);
    fits.unwrap_or_else(|| format!("{value:.0} {unit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_no_size_of_a_file_system() {
        assert_eq!(some_bytes("1"), Ok(1));
        assert!(some_bytes("0").is_err() && some_bytes("0G").is_err() && some_bytes("x").is_err());
    }

    #[test]
    fn sizes_are_read_as_ceph_and_fio_read_them() {
        for (text, size) in [
            ("0", 0),
            ("512", 512),
            ("512B", 512),
            ("4k", 4096),
            ("4K", 4096),
            ("4KiB", 4096),
            ("64M", 64 << 20),
            ("10G", 10 << 30),
            ("2Ti", 2 << 40),
            ("15E", 15 << 60),
        ] {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
        assert_eq!(image("64"), Ok(64 << 20));
        assert_eq!(image("64B"), Ok(64));
    }

    #[test]
    fn what_is_no_size_is_named() {
        for text in
            ["", "k", "lots", "4kk", "-1", "1.5G", "4 k", "Bi", "4Bi", "99999999999999999999", "16E", "+4"]
        {
            let error = bytes(text).unwrap_err();
            assert!(error.contains(&format!("{text:?}")), "{text}: {error}");
        }
        assert!(block("0").unwrap_err().contains("\"0\""));
        assert!(block("1G").is_err());
    }

    #[test]
    fn sizes_are_printed_with_few_digits() {
        let sizes = [0, 17, 1024, 1536, 200 << 20, 10 << 30, 3 << 39, u64::MAX];
        let printed = sizes.map(human);
        assert_eq!(printed, ["0 B", "17 B", "1 KiB", "1.5 KiB", "200 MiB", "10 GiB", "1.5 TiB", "16 EiB"]);
        let odd = [(7 << 20) + 970_000, (10 << 20) + 300_000, (1023 << 20) + 1].map(human);
        assert_eq!(odd, ["7.9 MiB", "10 MiB", "1023 MiB"]);
    }
}
