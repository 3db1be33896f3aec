//! Tables for people: columns as wide as their widest cell; and [`OutputFormat`], where a program may read as well. Used by
//! `status`, `top` and `events`.
//!
//! Cells may hold what plugins wrote: whatever could move the cursor or end a line is replaced.

use std::fmt::Write as _;

use clap::ValueEnum;
use pilothouse_plugin::is_control;

/// The form of an output.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// For people
    Table,
    /// For programs
    Json,
}

/// The widths that columns need, as far as is known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    widths: Vec<usize>,
}

impl Table {
    /// The lines of these rows. Columns are as wide as in all rows so far.
    pub(crate) fn lines<const N: usize>(&mut self, rows: &[[String; N]]) -> String {
        self.widths.resize(N, 0);
        let rows: Vec<[String; N]> =
            rows.iter().map(|row| row.each_ref().map(|cell| printable(cell))).collect();
        for row in &rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut text = String::new();
        for row in &rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&self.widths) {
                let _ = write!(line, "{cell:<width$}  ");
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }
}

/// Control characters as U+FFFD, and those that turn the direction of a line.
pub(crate) fn printable(cell: &str) -> String {
    cell.chars().map(|c| if is_control(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_plugin_wrote_cannot_move_the_cursor() {
        let mut table = Table::default();
        let text = table.lines(&[["a\u{1b}[2Jb".to_owned(), "c\nd\re".to_owned()]]);
        assert_eq!(text, "a\u{fffd}[2Jb  c\u{fffd}d\u{fffd}e\n");
    }

    #[test]
    fn later_rows_keep_the_columns() {
        let mut table = Table::default();
        let row = |a: &str| [a.to_owned(), "x".to_owned()];
        assert_eq!(table.lines(&[row("wide"), row("a")]), "wide  x\na     x\n");
        assert_eq!(table.lines(&[row("b")]), "b     x\n");
    }
}
