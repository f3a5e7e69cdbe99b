//! The rows of a file.

mod index;
mod keys;
mod page;
mod saved;
mod source;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use shardwright_contracts::limits::MAX_INITIAL_SHARDS;
use shardwright_worker::connector::{
    Connector, ConnectorError, KeyRange, Page, PageLimit, Position, Quantity, SourceEstimate,
    SourceFingerprint,
};

use crate::io::{blocking, open_source};
use crate::split::share;
use index::{RowIndex, RowStart};
use keys::RowKeys;
use saved::Counted;
use source::Source;

pub use source::spool;

/// What ends a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Separator {
    /// A newline. A carriage return right before it is not part of the row.
    #[default]
    Newline,
    /// A zero byte. The row is everything else.
    Nul,
}

impl Separator {
    const fn byte(self) -> u8 {
        match self {
            Self::Newline => b'\n',
            Self::Nul => 0,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Newline => "newline",
            Self::Nul => "nul",
        }
    }
}

/// How a [`LineConnector`] reads its file.
#[derive(Clone, Debug)]
pub struct LineOptions {
    /// What ends a row.
    pub separator: Separator,
    /// Where to keep the row index, so that the same file is not read through again. One that is
    /// damaged or belongs to another file is replaced.
    pub index: Option<PathBuf>,
    /// Longest row, without its separator.
    pub row_bytes_max: usize,
}

impl Default for LineOptions {
    fn default() -> Self {
        Self { separator: Separator::default(), index: None, row_bytes_max: 16 << 20 }
    }
}

/// The rows of a file of any size; keys are their numbers.
///
/// Every row is an item, empty ones included, and the last one needs no separator. Lines of CSV
/// and JSON Lines are rows like others; a quoted newline inside of a CSV field ends the row, so
/// such files have to be rewritten first.
///
/// The file is read through once, for its digest and for a sparse index of its rows, which takes
/// half a mebibyte at most. It must not be written to as long as it is open: that is noticed by
/// its size and time of modification, and is an error. A file that takes its place under the same
/// name does no harm.
///
/// A row's size is what it takes in the file, its separator included.
#[derive(Clone)]
pub struct LineConnector {
    lines: Arc<Lines>,
}

struct Lines {
    source: Source,
    separator: Separator,
    digest: [u8; 32],
    index: RowIndex,
    keys: RowKeys,
}

impl LineConnector {
    /// Opens the file at `path`, whose rows end with a newline, and counts its rows.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, ConnectorError> {
        Self::open_with(path, LineOptions::default()).await
    }

    /// Opens the file at `path` and counts its rows.
    pub async fn open_with(
        path: impl Into<PathBuf>,
        options: LineOptions,
    ) -> Result<Self, ConnectorError> {
        let open = move |path: PathBuf| Lines::open(&path, &options, SystemTime::now());
        Ok(Self { lines: open_source(path, open).await? })
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.lines.index.rows
    }

    /// The range that holds every row, and nothing of any other file.
    #[must_use]
    pub fn whole_range(&self) -> KeyRange {
        let keys = &self.lines.keys;
        KeyRange::new(keys.key(0), keys.key(keys.rows().max(1)))
    }
}

impl Connector for LineConnector {
    async fn page(
        &self,
        range: &KeyRange,
        from: &Position,
        limit: PageLimit,
    ) -> Result<Page, ConnectorError> {
        let lines = Arc::clone(&self.lines);
        let (rows, token) = (lines.rows(range, from.after.as_deref()), from.token.clone());
        blocking(move || lines.page(rows, &token, limit)).await
    }

    async fn estimate(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
    ) -> Result<SourceEstimate, ConnectorError> {
        let lines = Arc::clone(&self.lines);
        let (first, end) = lines.rows(range, after);
        blocking(move || {
            let bytes = lines.start_of(end)?.offset - lines.start_of(first)?.offset;
            Ok(SourceEstimate {
                items: Quantity::Exact(end - first),
                bytes: Quantity::Exact(bytes),
            })
        })
        .await
    }

    async fn propose_split(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
        fraction: f64,
    ) -> Result<Option<Vec<u8>>, ConnectorError> {
        let lines = Arc::clone(&self.lines);
        let (first, end) = lines.rows(range, after);
        if end - first < 2 {
            return Ok(None);
        }
        blocking(move || {
            let (start, stop) = (lines.start_of(first)?.offset, lines.start_of(end)?.offset);
            let goal = start + share(stop.saturating_sub(start), fraction);
            let row = lines.start_behind(goal)?.row.clamp(first + 1, end - 1);
            Ok(Some(lines.keys.key(row)))
        })
        .await
    }

    async fn initial_ranges(&self, wanted: usize) -> Result<Vec<KeyRange>, ConnectorError> {
        let whole = self.whole_range();
        let lines = Arc::clone(&self.lines);
        let cuts = blocking(move || lines.even_cuts(wanted.clamp(1, MAX_INITIAL_SHARDS))).await?;
        Ok(whole.cut(cuts))
    }

    async fn fingerprint(&self) -> Result<SourceFingerprint, ConnectorError> {
        let Lines { separator, digest, index, .. } = &*self.lines;
        let digest = blake3::Hash::from_bytes(*digest).to_hex();
        let identity = format!("lines {} {} blake3:{digest}", separator.name(), index.size);
        Ok(SourceFingerprint { identity, listed_at_ms: None })
    }
}

impl Lines {
    fn open(path: &Path, options: &LineOptions, now: SystemTime) -> Result<Self, ConnectorError> {
        let LineOptions { separator, index: saved_at, row_bytes_max } = options;
        let (byte, longest) = (separator.byte(), *row_bytes_max);
        let source = Source::open(path, byte, longest)?;
        let saved = saved_at.as_ref();
        let saved = saved.and_then(|saved| saved::load(saved, &source.stamp, byte, longest));
        let Counted { digest, index } = match saved {
            Some(counted) => counted,
            None => {
                let (digest, index) = source.count_rows()?;
                let counted = Counted { digest, index };
                if let Some(path) = saved_at {
                    // Without it the file is read again next time, which is no failure.
                    let _ = saved::save(path, &source.stamp, byte, longest, &counted, now);
                }
                counted
            }
        };
        let keys = RowKeys::new(&digest, index.rows);
        Ok(Self { source, separator: *separator, digest, index, keys })
    }

    /// The rows of a range behind a key: the first, and the one behind the last.
    fn rows(&self, range: &KeyRange, after: Option<&[u8]>) -> (u64, u64) {
        let behind = after.map_or(0, |after| self.keys.first_behind(after));
        let first = self.keys.first_from(&range.start).max(behind);
        let end = match range.end.as_slice() {
            [] => self.keys.rows(),
            end => self.keys.first_from(end),
        };
        (first, end.max(first))
    }

    fn start_of(&self, row: u64) -> Result<RowStart, ConnectorError> {
        if row >= self.index.rows {
            return Ok(RowStart { row: self.index.rows, offset: self.index.size });
        }
        let known = self.index.before_row(row);
        self.source.check_begins(known.offset)?;
        self.source.seek_row(known, row)
    }

    /// The first beginning of a row at or behind an offset.
    fn start_behind(&self, goal: u64) -> Result<RowStart, ConnectorError> {
        let known = self.index.before_offset(goal);
        self.source.check_begins(known.offset)?;
        self.source.seek_offset(known, goal)
    }

    fn even_cuts(&self, wanted: usize) -> Result<Vec<Vec<u8>>, ConnectorError> {
        let mut cuts: Vec<Vec<u8>> = Vec::new();
        let mut last = 0;
        for part in 1..wanted {
            let goal = u128::from(self.index.size) * part as u128 / wanted as u128;
            let row = self.start_behind(u64::try_from(goal).unwrap_or(u64::MAX))?.row;
            if row > last && row < self.index.rows {
                cuts.push(self.keys.key(row));
                last = row;
            }
        }
        Ok(cuts)
    }
}

#[cfg(test)]
mod tests;
