//! Bytes as Ceph's programs print them: in hexadecimal, beside what of them is text.

use std::fmt::Write as _;

/// Bytes of a line.
const ROW: usize = 16;

/// Lines of bytes, each with its offset, and at last the offset behind them. Of several lines of zeros the first is
/// there, and a star for the others. No bytes make no lines.
pub(super) fn hexdump(bytes: &[u8]) -> String {
    let mut text = String::new();
    let last = bytes.len().saturating_sub(1) / ROW;
    let mut zeros = 0;
    for (number, row) in bytes.chunks(ROW).enumerate() {
        // The last line is always there.
        zeros = if number < last && row.iter().all(|byte| *byte == 0) { zeros + 1 } else { 0 };
        match zeros {
            0 | 1 => add_row(&mut text, number * ROW, row),
            2 => text.push_str("*\n"),
            _ => {}
        }
    }
    if !bytes.is_empty() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:08x}", bytes.len());
    }
    text
}

fn add_row(text: &mut String, offset: usize, row: &[u8]) {
    let mut digits = String::new();
    for (column, byte) in row.iter().enumerate() {
        let gap = if column == ROW / 2 { " " } else { "" };
        let _ = write!(digits, "{gap} {byte:02x}");
    }
    let shown = |byte: &u8| if matches!(byte, 0x20..=0x7e) { char::from(*byte) } else { '.' };
    let letters: String = row.iter().map(shown).collect();
    let _ = writeln!(text, "{offset:08x} {digits:<50} |{letters}|");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stand_beside_their_text() {
        assert_eq!(hexdump(b""), "");
        let expected = "00000000  76                                                |v|\n00000001\n";
        assert_eq!(hexdump(b"v"), expected);
        let zeros = "00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|";
        let expected = format!("00000000  {zeros}\n00000010  {zeros}\n00000020\n");
        assert_eq!(hexdump(&[0; 32]), expected);
        let expected = format!("00000000  {zeros}\n*\n00000030  {zeros}\n00000040\n");
        assert_eq!(hexdump(&[0; 64]), expected);
        let expected =
            "00000000  31 0a 32 0a 33 0a 34 0a  35 0a 36 0a 37 0a 38 0a  |1.2.3.4.5.6.7.8.|\n00000010\n";
        assert_eq!(hexdump(b"1\n2\n3\n4\n5\n6\n7\n8\n"), expected);
    }
}
