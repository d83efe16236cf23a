//! Tables as `rbd` prints them.

/// Which side of a column its cells are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alignment {
    Left,
    Right,
}

/// The lines of a table: its head, with the side of each column's cells, and its rows.
pub(super) fn lines(head: &[(&str, Alignment)], rows: &[Vec<String>]) -> Vec<String> {
    let widths: Vec<usize> = head
        .iter()
        .enumerate()
        .map(|(column, (name, _))| {
            rows.iter().map(|row| row[column].len()).chain([name.len()]).max().unwrap_or(0)
        })
        .collect();
    let line = |cells: &mut dyn Iterator<Item = (&str, Alignment)>| {
        let cells = cells.zip(&widths).map(|((cell, side), width)| match side {
            Alignment::Left => format!("{cell:<width$}"),
            Alignment::Right => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ")
    };
    let mut lines = vec![line(&mut head.iter().map(|(name, _)| (*name, Alignment::Left)))];
    for row in rows {
        lines.push(line(&mut row.iter().map(String::as_str).zip(head.iter().map(|(_, side)| *side))));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cells() {
        let rows = [["a", "1 GiB"], ["disk", "12 MiB"]].map(|row| row.map(str::to_owned).to_vec());
        let lines = lines(&[("NAME", Alignment::Left), ("USED", Alignment::Right)], &rows);
        assert_eq!(lines, ["NAME  USED  ", "a      1 GiB", "disk  12 MiB"]);
    }
}
