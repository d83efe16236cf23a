//! Conversion between byte names and text.
//!
//! Names of objects, images, pools and snapshots are bytes that nearly always are UTF-8. A `String` represents any of
//! them: a byte `0xNN` that is not part of UTF-8 becomes the private-use character U+10FE*NN*, as in Python's
//! `surrogateescape`. If a name contains these characters themselves, each of their bytes is represented this way, so
//! that every name has exactly one text and round-trips byte by byte.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Character that represents byte 0.
const BASE: u32 = 0x10_fe00;

/// First bytes of these characters in UTF-8; no character below U+10F000 begins with them.
const LEAD: [u8; 2] = [0xf4, 0x8f];

/// Returns the character that represents a byte of 0x80 or above.
fn stand_in(byte: u8) -> char {
    char::from_u32(BASE + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn byte_of(c: char) -> Option<u8> {
    let byte = u8::try_from(u32::from(c).checked_sub(BASE)?).ok()?;
    (byte >= 0x80).then_some(byte)
}

/// Returns whether any character of a text represents a byte.
fn has_stand_in(text: &str) -> bool {
    // Nearly no text contains this byte.
    let bytes = text.as_bytes();
    bytes.contains(&LEAD[0])
        && bytes.windows(2).any(|pair| pair == LEAD)
        && text.chars().any(|c| byte_of(c).is_some())
}

/// Converts a name to text.
pub fn from_bytes(name: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(name)
        && !has_stand_in(text)
    {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(name.len() * 4);
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match byte_of(c) {
                Some(_) => text.extend(c.encode_utf8(&mut [0; 4]).bytes().map(stand_in)),
                None => text.push(c),
            }
        }
        text.extend(chunk.invalid().iter().copied().map(stand_in));
    }
    Cow::Owned(text)
}

/// Converts a text to the name that it represents.
pub fn to_bytes(text: &str) -> Cow<'_, [u8]> {
    if !has_stand_in(text) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut name = Vec::with_capacity(text.len());
    for c in text.chars() {
        match byte_of(c) {
            Some(byte) => name.push(byte),
            None => name.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(name)
}

/// Returns whether a terminal interprets a character, or reorders others because of it, instead of showing it.
fn is_obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Escapes a text for a terminal: control characters, bytes that are not UTF-8, and backslashes appear as in Rust's and
/// C's strings (`\n`, `\xff`, `\u{202e}`, `\\`).
pub fn escaped(text: &str) -> Cow<'_, str> {
    escaped_except(text, |_| false)
}

/// Like [`escaped`], but keeps line breaks and backslashes.
pub fn escaped_lines(text: &str) -> Cow<'_, str> {
    escaped_except(text, |c| c == '\n' || c == '\\')
}

fn escaped_except(text: &str, is_kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_special = |c: char| (c == '\\' || is_obeyed(c) || byte_of(c).is_some()) && !is_kept(c);
    if !text.chars().any(is_special) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // Writing to a String does not fail.
        let _ = match (c, byte_of(c)) {
            (c, _) if !is_special(c) => escaped.write_char(c),
            (_, Some(byte)) => write!(escaped, "\\x{byte:02x}"),
            ('\\' | '\n' | '\t' | '\r', _) => write!(escaped, "{}", c.escape_default()),
            (c, _) if c.is_ascii() => write!(escaped, "\\x{:02x}", u32::from(c)),
            (c, _) => write!(escaped, "{}", c.escape_unicode()),
        };
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_round_trips_through_its_text() {
        let mut seed = 1u64;
        let mut next = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as u8
        };
        // Bytes that form stand-ins, valid UTF-8 and invalid bytes, mixed.
        let alphabet =
            [b'a', 0xf4, 0x8f, 0xba, 0xbb, 0xbf, 0x80, 0xc3, 0xa9, 0xff, b'\\', b'\n', 0xe2, 0xed, 0xa0];
        for _ in 0..20_000 {
            let len = usize::from(next() % 9);
            let name: Vec<u8> = (0..len).map(|_| alphabet[usize::from(next()) % alphabet.len()]).collect();
            assert_eq!(to_bytes(&from_bytes(&name)), name, "{name:x?}");
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(to_bytes(&from_bytes(&all)), all);
    }

    #[test]
    fn utf_8_names_are_unchanged() {
        for name in ["", "rbd_data.1", "\u{e9}\u{1f600}", "\u{10ff80}", "\u{10fe7f}"] {
            assert_eq!(from_bytes(name.as_bytes()), name);
            assert!(matches!(to_bytes(name), Cow::Borrowed(_)));
        }
        assert_eq!(from_bytes(b"a\xff"), "a\u{10feff}");
    }

    #[test]
    fn a_terminal_gets_nothing_that_it_would_interpret() {
        for (name, shown) in [
            (&b"plain name"[..], "plain name"),
            (b"a\x1b[2Jb\n\t\x7f", "a\\x1b[2Jb\\n\\t\\x7f"),
            (b"bad\xff\\", "bad\\xff\\\\"),
            ("\u{9b}\u{202e}\u{e9}".as_bytes(), "\\u{9b}\\u{202e}\u{e9}"),
        ] {
            assert_eq!(escaped(&from_bytes(name)), shown);
        }
        assert_eq!(escaped_lines("a\\b\n\x1b\n"), "a\\b\n\\x1b\n");
    }
}
