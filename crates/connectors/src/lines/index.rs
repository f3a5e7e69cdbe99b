//! A sparse index of row offsets: every n-th row.

/// Most offsets. When there are more, every second one is dropped.
pub(super) const OFFSETS_MAX: usize = 1 << 16;

/// The offsets of evenly spaced rows, and the number of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowIndex {
    pub(super) size: u64,
    pub(super) rows: u64,
    /// Rows per offset, a power of two.
    pub(super) stride: u64,
    /// The offset of rows 0, `stride`, 2 × `stride` and so on.
    pub(super) offsets: Vec<u64>,
}

/// A row and its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowStart {
    pub(super) row: u64,
    pub(super) offset: u64,
}

impl RowIndex {
    /// The nearest indexed row at or before `row`.
    pub(super) fn before_row(&self, row: u64) -> RowStart {
        let last = self.offsets.len().saturating_sub(1);
        let at = usize::try_from(row / self.stride.max(1)).unwrap_or(last).min(last);
        self.start(at)
    }

    /// The nearest indexed row that starts at or before `offset`.
    pub(super) fn before_offset(&self, offset: u64) -> RowStart {
        let after = self.offsets.partition_point(|one| *one <= offset);
        self.start(after.saturating_sub(1))
    }

    fn start(&self, at: usize) -> RowStart {
        let offset = self.offsets.get(at).copied().unwrap_or_default();
        RowStart { row: at as u64 * self.stride, offset }
    }
}

/// Builds an index from the bytes of a file, chunk by chunk.
pub(super) struct IndexBuilder {
    separator: u8,
    row_bytes_max: usize,
    row_start: u64,
    index: RowIndex,
}

/// The row with this number is too long.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LongRow(pub(super) u64);

impl IndexBuilder {
    pub(super) fn new(separator: u8, row_bytes_max: usize) -> Self {
        let index = RowIndex { size: 0, rows: 0, stride: 1, offsets: Vec::new() };
        Self { separator, row_bytes_max, row_start: 0, index }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<(), LongRow> {
        let start = self.index.size;
        for at in memchr::memchr_iter(self.separator, bytes) {
            self.end_row(start + at as u64)?;
            self.row_start = start + at as u64 + 1;
        }
        self.index.size = start + bytes.len() as u64;
        self.check_length(self.index.size)
    }

    pub(super) fn finish(mut self) -> Result<RowIndex, LongRow> {
        // The last row needs no separator.
        if self.row_start < self.index.size {
            self.end_row(self.index.size)?;
        }
        Ok(self.index)
    }

    fn end_row(&mut self, end: u64) -> Result<(), LongRow> {
        self.check_length(end)?;
        let Self { index, row_start, .. } = self;
        if index.rows % index.stride == 0 {
            if index.offsets.len() == OFFSETS_MAX {
                let mut even = false;
                index.offsets.retain(|_| {
                    even = !even;
                    even
                });
                index.stride *= 2;
            }
            // The maximum is even, so this row is also on the wider stride.
            index.offsets.push(*row_start);
        }
        index.rows += 1;
        Ok(())
    }

    fn check_length(&self, end: u64) -> Result<(), LongRow> {
        let length = end - self.row_start;
        if length > self.row_bytes_max as u64 { Err(LongRow(self.index.rows)) } else { Ok(()) }
    }
}

const _: () = assert!(OFFSETS_MAX.is_power_of_two());

#[cfg(test)]
mod tests {
    use super::*;

    fn index(text: &[u8]) -> RowIndex {
        let mut builder = IndexBuilder::new(b'\n', 100);
        for chunk in text.chunks(3) {
            builder.feed(chunk).unwrap();
        }
        builder.finish().unwrap()
    }

    #[test]
    fn the_last_row_needs_no_separator() {
        assert_eq!(index(b"").rows, 0);
        assert_eq!(index(b"\n").offsets, [0]);
        assert_eq!(index(b"a\n\nb").offsets, [0, 2, 3]);
        assert_eq!(index(b"a\n\nb\n").rows, 3);
    }

    #[test]
    fn a_long_row_is_reported_even_if_it_never_ends() {
        let mut builder = IndexBuilder::new(b'\n', 4);
        assert_eq!(builder.feed(b"a\nbbbb\nccc"), Ok(()));
        assert_eq!(builder.feed(b"cc"), Err(LongRow(2)));
        assert_eq!(IndexBuilder::new(b'\n', 4).feed(b"a\nbbbbb\n"), Err(LongRow(1)));
    }

    #[test]
    fn many_rows_keep_the_index_small_and_correct() {
        let rows = OFFSETS_MAX as u64 * 3 + 5;
        let mut builder = IndexBuilder::new(b'\n', 100);
        for row in 0..rows {
            builder.feed(if row % 2 == 0 { b"\n" } else { b"xx\n" }).unwrap();
        }
        let index = builder.finish().unwrap();
        assert_eq!((index.rows, index.stride), (rows, 4));
        assert!(index.offsets.len() <= OFFSETS_MAX);
        for row in [0, 1, 4, 1_001, rows - 1] {
            let start = index.before_row(row);
            assert_eq!(start.row, row / 4 * 4);
            assert_eq!(start.offset, start.row / 2 * 4);
            assert_eq!(index.before_offset(start.offset), start);
            assert_eq!(index.before_offset(start.offset + 1), start);
        }
    }
}
