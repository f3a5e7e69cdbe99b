//! Items and pages.

use std::path::PathBuf;
use std::str::Utf8Error;

use bytes::Bytes;

use super::skip_report::SkipReports;
use super::{ConnectorError, KeyRange};

/// An item of a source: the unit of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The key. Keys sort byte by byte.
    pub key: Bytes,
    /// Size in bytes, if it is known without reading the item.
    pub size: Option<u64>,
    /// What the handler processes.
    pub payload: Payload,
}

impl Item {
    /// A row, or any other bytes under a key. Row numbers start at 0.
    pub fn row(key: impl Into<Bytes>, number: u64, bytes: impl Into<Bytes>) -> Self {
        let payload = Payload::Row { number, bytes: bytes.into() };
        Self { key: key.into(), size: None, payload }
    }

    /// The name to display: `row N`, counted from 1, or the key with escapes.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.payload {
            Payload::Row { number, .. } => format!("row {}", number.saturating_add(1)),
            Payload::File(_) | Payload::Object { .. } => {
                self.key.iter().flat_map(|byte| byte.escape_ascii()).map(char::from).collect()
            }
        }
    }

    /// The item as text: the bytes of a row, the path of a file, the URL of an object.
    pub fn text(&self) -> Result<&str, Utf8Error> {
        match &self.payload {
            Payload::Row { bytes, .. } => str::from_utf8(bytes),
            Payload::File(path) => str::from_utf8(path.as_os_str().as_encoded_bytes()),
            Payload::Object { url, .. } => Ok(url),
        }
    }

    /// Approximate memory of the item, in bytes.
    #[must_use]
    pub fn footprint(&self) -> usize {
        let payload = match &self.payload {
            Payload::File(path) => path.as_os_str().len(),
            Payload::Row { bytes, .. } => bytes.len(),
            Payload::Object { path, url, .. } => path.len() + url.len(),
        };
        size_of::<Self>() + self.key.len() + payload
    }
}

/// The kind of an item, and how to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// A file: the root of the tree as it was given, joined with the path below it.
    File(PathBuf),
    /// A row of a file.
    Row {
        /// The row number, from 0.
        number: u64,
        /// The row without its separator.
        bytes: Bytes,
    },
    /// An object.
    Object {
        /// The full path in the store.
        path: String,
        /// The URL, with the URL of the store as it was given.
        url: String,
        /// Time of the last write, in milliseconds since 1970.
        modified_ms: Option<u64>,
    },
}

/// Limits of a page. A page holds at least one item, if there is one left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimit {
    /// Most items.
    pub items: usize,
    /// Approximate memory of all items together, in bytes.
    pub bytes: usize,
    /// Whether a part of the source that fails with a transient error is skipped with a report.
    /// Otherwise the page fails with that error. A connector that cannot distinguish a failing part
    /// from a failing source returns the error in both cases.
    pub skips_failing_parts: bool,
}

impl PageLimit {
    /// Up to `items` items, in at most one mebibyte.
    #[must_use]
    pub const fn items(items: usize) -> Self {
        Self { items, bytes: 1 << 20, skips_failing_parts: false }
    }

    /// The same limits, for the last retry: failing parts are skipped.
    #[must_use]
    pub const fn skipping_failing_parts(self) -> Self {
        Self { skips_failing_parts: true, ..self }
    }

    /// Whether a page with so many items and bytes is full.
    #[must_use]
    pub fn is_reached(self, items: usize, bytes: usize) -> bool {
        items >= self.items.max(1) || bytes >= self.bytes
    }
}

impl Default for PageLimit {
    fn default() -> Self {
        Self::items(1_000)
    }
}

/// A position in a range, from which reading continues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The last key that was read. None at the start of the range.
    pub after: Option<Vec<u8>>,
    /// The token of the page that ended there. May be empty.
    pub token: Vec<u8>,
}

impl Position {
    /// The start of a range.
    #[must_use]
    pub const fn start() -> Self {
        Self { after: None, token: Vec::new() }
    }

    /// After a key, without a token.
    pub fn after(key: impl Into<Vec<u8>>) -> Self {
        Self { after: Some(key.into()), token: Vec::new() }
    }

    /// The same position with a token.
    #[must_use]
    pub(crate) fn with_token(mut self, token: &[u8]) -> Self {
        self.token = token.to_vec();
        self
    }
}

/// Consecutive items of a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The items, in key order.
    pub items: Vec<Item>,
    /// Whether the range has no items after these.
    pub ended: bool,
    /// A hint that makes the next page cheaper, for the position after the last item. At most a
    /// few dozen bytes.
    pub token: Vec<u8>,
    /// Entries of the source that are not items.
    pub skipped: SkipReports,
}

impl Page {
    /// Takes items from the rest of a range until the limit is reached.
    pub fn take(items: impl IntoIterator<Item = Item>, limit: PageLimit) -> Self {
        let (mut left, mut page, mut bytes) = (items.into_iter().peekable(), Self::default(), 0);
        while (page.items.is_empty() || !limit.is_reached(page.items.len(), bytes))
            && let Some(item) = left.next()
        {
            bytes += item.footprint();
            page.items.push(item);
        }
        page.ended = left.peek().is_none();
        page
    }

    /// Checks the contract of [`Connector::page`](super::Connector::page): keys lie in the range
    /// and after the position, they rise strictly, and only the last page is empty.
    pub(crate) fn check(&self, range: &KeyRange, from: &Position) -> Result<(), ConnectorError> {
        let invalid = |problem| Err(ConnectorError::InvalidPage { problem });
        if !self.items.iter().all(|item| range.contains(&item.key)) {
            return invalid("a key is outside of the requested range");
        }
        if self.items.first().is_some_and(|first| from.after.as_deref() >= Some(&*first.key)) {
            return invalid("its first key is not after the requested position");
        }
        if !self.items.is_sorted_by(|one, next| one.key < next.key) {
            return invalid("its keys do not rise");
        }
        if self.items.is_empty() && !self.ended {
            return invalid("it is empty, but does not end the range");
        }
        Ok(())
    }

    /// The position after the last item, if there is one.
    #[must_use]
    pub fn next_position(&self) -> Option<Position> {
        let last = self.items.last()?;
        Some(Position::after(last.key.to_vec()).with_token(&self.token))
    }
}
