//! Tables for people: columns as wide as their widest cell. Used by `status` and `events`.

use std::fmt::Write as _;

/// The widths that columns need, as far as is known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    widths: Vec<usize>,
}

impl Table {
    /// The lines of these rows. Columns are as wide as in all rows so far.
    pub(crate) fn lines<const N: usize>(&mut self, rows: &[[String; N]]) -> String {
        self.widths.resize(N, 0);
        for row in rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut text = String::new();
        for row in rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&self.widths) {
                let _ = write!(line, "{cell:<width$}  ");
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }
}
