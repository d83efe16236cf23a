use std::fmt::{self, Write as _};

/// Displays the bytes of a name or path on one line: control characters and bytes that are not UTF-8 become escapes
/// such as `\n`, `\u{1b}` and `\xff`, and a backslash is doubled. Distinct names look distinct, and none changes a
/// terminal's state.
#[derive(Debug, Clone, Copy)]
pub struct Escaped<'a>(pub &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                // Characters that reorder or hide text are escaped as well, and so are combining ones.
                match character {
                    '\'' | '"' => f.write_char(character)?,
                    other => write!(f, "{}", other.escape_debug())?,
                }
            }
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_on_one_line_and_stay_distinct() {
        let shown = |name: &[u8]| Escaped(name).to_string();
        assert_eq!(shown("Übung 'a\" b.txt".as_bytes()), "Übung 'a\" b.txt");
        assert_eq!(shown(b"bad\xff"), "bad\\xff");
        assert_eq!(shown(b"bad\\xff"), "bad\\\\xff");
        assert_eq!(shown(b"\x1b[31m\n\r\x7f"), "\\u{1b}[31m\\n\\r\\u{7f}");
        assert_eq!(shown("\u{202e}gpj.exe".as_bytes()), "\\u{202e}gpj.exe");
    }
}
