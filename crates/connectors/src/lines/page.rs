//! Pages of rows.

use std::ops::Range;

use bytes::Bytes;
use shardwright_worker::connector::{ConnectorError, Item, Page, PageLimit, Payload};

use super::index::RowStart;
use super::{Lines, RowKeys, Separator};

/// Smallest and largest read, in bytes.
const READ_MIN: usize = 1 << 12;
const READ_MAX: usize = 1 << 18;

/// Bytes of a token that authenticate it for this file.
const PROOF_LEN: usize = 8;

/// Rows in a buffer.
struct Rows {
    buffer: Vec<u8>,
    /// The span of each row in the buffer, including its separator.
    spans: Vec<Range<usize>>,
}

impl Lines {
    /// Reads the rows from `first` (inclusive) to `end` (exclusive), as many as the limit allows.
    pub(super) fn page(
        &self,
        (first, end): (u64, u64),
        token: &[u8],
        limit: PageLimit,
    ) -> Result<Page, ConnectorError> {
        if first >= end {
            return Ok(Page { ended: true, ..Page::default() });
        }
        self.source.check_unchanged()?;
        let start = match self.read_token(token, first) {
            Some(offset) => RowStart { row: first, offset },
            None => self.start_of(first)?,
        };
        self.source.check_begins(start.offset)?;
        let rows = self.read_rows(start, end, limit)?;
        let next = first + rows.spans.len() as u64;
        let after = start.offset + rows.spans.last().map_or(0, |span| span.end) as u64;
        let items = self.items(first, rows);
        Ok(Page {
            items,
            ended: next >= end,
            token: self.write_token(next, after),
            ..Page::default()
        })
    }

    fn read_rows(
        &self,
        start: RowStart,
        end: u64,
        limit: PageLimit,
    ) -> Result<Rows, ConnectorError> {
        let most = usize::try_from(end - start.row).unwrap_or(usize::MAX);
        let most = most.min(limit.items.max(1));
        let mut rows = Rows { buffer: Vec::new(), spans: Vec::new() };
        let mut row_start = 0;
        let mut searched = 0;
        loop {
            let found = rows.buffer.get(searched..).unwrap_or_default();
            match memchr::memchr(self.source.separator, found) {
                Some(at) => {
                    searched += at + 1;
                    rows.spans.push(row_start..searched);
                    row_start = searched;
                }
                None => {
                    searched = rows.buffer.len();
                    if searched - row_start > self.source.row_bytes_max {
                        return Err(self.source.changed("a row is longer than it was"));
                    }
                    let offset = start.offset + searched as u64;
                    let wanted = self.read_size(most - rows.spans.len(), searched - row_start);
                    let wanted = wanted.min(limit.bytes.max(READ_MIN).max(searched - row_start));
                    if self.source.append(&mut rows.buffer, offset, wanted)? > 0 {
                        continue;
                    }
                    if row_start == searched {
                        return Err(self.source.changed("rows are missing at its end"));
                    }
                    rows.spans.push(row_start..searched);
                    row_start = searched;
                }
            }
            if rows.spans.len() == most || row_start >= limit.bytes {
                break;
            }
        }
        rows.buffer.truncate(row_start);
        rows.buffer.shrink_to_fit();
        Ok(rows)
    }

    /// Bytes to read for a number of rows. `begun` bytes of the first were read before.
    fn read_size(&self, rows: usize, begun: usize) -> usize {
        let average = self.index.size / self.index.rows.max(1) + 1;
        let average = usize::try_from(average).unwrap_or(READ_MAX);
        // A row longer than expected is read in growing pieces.
        average.saturating_mul(rows).max(begun).clamp(READ_MIN, READ_MAX.max(begun))
    }

    fn items(&self, first: u64, rows: Rows) -> Vec<Item> {
        let content = Bytes::from(rows.buffer);
        let numbers = first..first + rows.spans.len() as u64;
        let mut keys = Bytes::from(self.keys.keys(numbers.clone()));
        let item = |(number, span): (u64, Range<usize>)| {
            let size = Some(span.len() as u64);
            let bytes = without_separator(content.slice(span), self.separator);
            let key = keys.split_to(RowKeys::LEN);
            Item { key, size, payload: Payload::Row { number, bytes } }
        };
        numbers.zip(rows.spans).map(item).collect()
    }

    /// The token for the position before `row`: its offset, authenticated.
    fn write_token(&self, row: u64, offset: u64) -> Vec<u8> {
        let mut token = [row.to_le_bytes(), offset.to_le_bytes()].concat();
        let proof = blake3::keyed_hash(&self.digest, &token);
        token.extend(proof.as_bytes().iter().take(PROOF_LEN));
        token
    }

    /// The offset in a token, if the token is of this file and for `row`.
    fn read_token(&self, token: &[u8], row: u64) -> Option<u64> {
        let offset = token.get(8..)?.first_chunk::<8>()?;
        let offset = u64::from_le_bytes(*offset);
        (token == self.write_token(row, offset)).then_some(offset)
    }
}

fn without_separator(mut row: Bytes, separator: Separator) -> Bytes {
    let ended = row.last() == Some(&separator.byte());
    if ended {
        row.truncate(row.len() - 1);
    }
    if ended && separator == Separator::Newline && row.last() == Some(&b'\r') {
        row.truncate(row.len() - 1);
    }
    row
}
