//! Columns that tests make.

use std::ops::Range;
use taiga_engine::column::categories::Texts;

/// Texts of rows, some of them null.
pub struct TextRows(pub Vec<Option<String>>);

impl<'b, 'a: 'b> Texts<'b> for &'a TextRows {
    fn name(&self) -> &str {
        "texts"
    }

    fn rows(&self) -> usize {
        self.0.len()
    }

    fn visit(&self, rows: Range<usize>, visit: &mut dyn FnMut(Option<&'b str>)) {
        let texts: &'a TextRows = self;
        texts.0[rows].iter().for_each(|text| visit(text.as_deref()));
    }
}
