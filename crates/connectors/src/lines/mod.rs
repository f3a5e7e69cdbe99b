//! The rows of a file.

#[cfg(test)]
mod checks;
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

/// The separator of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Separator {
    /// A newline. A carriage return before it is not part of the row.
    #[default]
    Newline,
    /// A NUL byte.
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
    /// The separator of rows.
    pub separator: Separator,
    /// File for the row index, so that an unchanged file is not read again when it is opened. An
    /// index that is damaged or belongs to another file is replaced.
    pub index: Option<PathBuf>,
    /// Longest row in bytes, without its separator.
    pub row_bytes_max: usize,
}

impl Default for LineOptions {
    fn default() -> Self {
        Self { separator: Separator::default(), index: None, row_bytes_max: 16 << 20 }
    }
}

/// The rows of a file of any size. Keys are row numbers.
///
/// Every row is an item, empty rows included. The last row needs no separator. A newline in a
/// quoted CSV field ends the row, so rewrite such files first.
///
/// Opening the file reads it once, for its digest and a sparse index of at most half a mebibyte.
/// The file must not be written to while it is open: a changed size or modification time is an
/// error. Replacing it under the same name is safe.
///
/// The size of an item includes its separator.
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
    /// Opens the file at `path` with default options, and counts its rows.
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

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.lines.index.rows
    }

    /// The manifest of the keys, by which a shard's hint names rows of this file. Files with other
    /// content have other manifests.
    #[must_use]
    pub fn manifest_id(&self) -> u64 {
        self.lines.keys.manifest_id()
    }

    /// The range of all rows.
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
            let row = lines.start_after(goal)?.row.clamp(first + 1, end - 1);
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
                    // Without an index, the file is only read again next time.
                    let _ = saved::save(path, &source.stamp, byte, longest, &counted, now);
                }
                counted
            }
        };
        let keys = RowKeys::new(&digest, index.rows);
        Ok(Self { source, separator: *separator, digest, index, keys })
    }

    /// The rows of a range after a key, as first (inclusive) and end (exclusive).
    fn rows(&self, range: &KeyRange, after: Option<&[u8]>) -> (u64, u64) {
        let after = after.map_or(0, |after| self.keys.first_after(after));
        let first = self.keys.first_from(&range.start).max(after);
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

    /// The first row that starts at or after an offset.
    fn start_after(&self, goal: u64) -> Result<RowStart, ConnectorError> {
        let known = self.index.before_offset(goal);
        self.source.check_begins(known.offset)?;
        self.source.seek_offset(known, goal)
    }

    fn even_cuts(&self, wanted: usize) -> Result<Vec<Vec<u8>>, ConnectorError> {
        let mut cuts: Vec<Vec<u8>> = Vec::new();
        let mut last = 0;
        for part in 1..wanted {
            let goal = u128::from(self.index.size) * part as u128 / wanted as u128;
            let row = self.start_after(u64::try_from(goal).unwrap_or(u64::MAX))?.row;
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
