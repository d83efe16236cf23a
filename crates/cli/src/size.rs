//! Sizes, counts and times as people write and read them.

use std::time::Duration;

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
        // Powers of 1000 elsewhere, and of 1024 in some programs.
        if let Some(number) = text.strip_suffix(['B', 'b']).filter(|text| parse(text, 0).is_ok()) {
            return Err(format!("{text:?} is ambiguous: write {number} or {number}iB for powers of 1024"));
        }
        return Err(format!(
            "{text:?} is no size: write a whole number, with B, K, M, G, T, P or E behind it if you like"
        ));
    };
    number.checked_mul(1 << shift).ok_or_else(|| format!("{text:?} is more than any size can be"))
}

/// Reads a number of things: `1000`, `10k`, `2M`; the letters stand for powers of 1000.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let (number, power) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1_000),
        Some((at, 'm' | 'M')) => (&text[..at], 1_000_000),
        Some((at, 'g' | 'G')) => (&text[..at], 1_000_000_000),
        _ => (text, 1),
    };
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number = number.parse::<u64>().ok().filter(|_| is_number);
    number.and_then(|number| number.checked_mul(power)).ok_or_else(|| {
        format!("{text:?} is not a number: write a whole number, with k, M or G for thousands, millions or billions")
    })
}

/// Reads a time: `5`, `0.5`, `500ms`, `1m 30s`. A number alone is in seconds.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let seconds =
        text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.').then(|| text.parse::<f64>().ok());
    let time = match seconds.flatten() {
        Some(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        None => humantime::parse_duration(text).ok(),
    };
    time.ok_or_else(|| {
        format!("{text:?} is not a time: write a number of seconds, or one with a unit, such as 500ms or 2m")
    })
}

/// The same, but for no time at all.
pub(crate) fn some_time(text: &str) -> Result<Duration, String> {
    match time(text)? {
        Duration::ZERO => Err(format!("{text:?} must be greater than 0")),
        time => Ok(time),
    }
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
    fn an_ambiguous_unit_is_refused_with_those_that_are_not() {
        for text in ["10GB", "4kb"] {
            let error = bytes(text).unwrap_err();
            assert!(error.contains(&format!("{}iB", &text[..text.len() - 1])), "{error}");
        }
    }

    #[test]
    fn counts_have_units_of_thousands() {
        for (text, number) in
            [("0", 0), ("1000", 1000), ("10k", 10_000), ("2M", 2_000_000), ("1g", 1_000_000_000)]
        {
            assert_eq!(count(text), Ok(number), "{text}");
        }
        for text in ["", "k", "1.5k", "+1", "10kk", "99999999999999999999", "99999999999G", "10é"] {
            assert!(count(text).unwrap_err().contains(&format!("{text:?}")), "{text}");
        }
    }

    #[test]
    fn times_are_seconds_unless_they_have_a_unit() {
        for (text, milliseconds) in
            [("5", 5000), ("0.5", 500), ("1ms", 1), ("1m 30s", 90_000), ("2h", 7_200_000)]
        {
            assert_eq!(time(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", ".", "1.2.3", "-1", "fast", "1e3", "99999999999999999999999"] {
            assert!(time(text).unwrap_err().contains(&format!("{text:?}")), "{text}");
        }
        assert!(some_time("0").is_err() && some_time("0ms").is_err() && some_time("1ms").is_ok());
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
